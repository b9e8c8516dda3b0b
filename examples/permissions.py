"""Creates, finds and deletes permissions and SCRAM users; elects preferred leaders."""

from __future__ import annotations

import os

from kafka_native import ElectionType, KafkaError
from kafka_native.admin import (
    AclBinding,
    AclBindingFilter,
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

with AdminClient({"bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092")}) as admin:
    wanted = [
        AclBinding("topic", "orders-", "prefixed", "User:shop", "*", "write", "allow"),
        AclBinding("group", "billing", "literal", "User:billing", "*", "read", "allow"),
    ]
    for acl, future in admin.create_acls(wanted).items():
        future.result()
        print("made:", acl.principal, acl.operation.name, acl.name)

    # All permissions that apply to a topic of this name: its own, of all topics, or of a prefix.
    concerns = AclBindingFilter("topic", "orders-eu", "match", None, None, "any", "any")
    print("orders-eu:", [acl.principal for acl in admin.describe_acls(concerns).result()])

    everything = AclBindingFilter("any", None, "any", None, None, "any", "any")
    print("deleted:", len(admin.delete_acls([everything])[everything].result()))

    # The client salts and hashes the password; it doesn't send it.
    strong = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion("shop", strong, b"a secret")])[
        "shop"
    ].result()
    description = admin.describe_user_scram_credentials(["shop"])["shop"].result()
    print(
        "shop:",
        [(info.mechanism.name, info.iterations) for info in description.scram_credential_infos],
    )

    outcomes = admin.elect_leaders(ElectionType.PREFERRED).result()
    failed = [
        place
        for place, error in outcomes.items()
        if error and error.code() != KafkaError.ELECTION_NOT_NEEDED
    ]
    print("elections that failed:", failed)
