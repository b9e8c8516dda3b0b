"""Delegation tokens: one user creates a token for another, logs in with it, ends it.

It starts its own mock cluster.
"""

from __future__ import annotations

from kafka_native import KafkaException
from kafka_native.admin import AdminClient, KafkaPrincipal
from kafka_native.mock import ListenerSecurity, MockCluster

security = ListenerSecurity(
    "sasl_plaintext", mechanisms=["SCRAM-SHA-256"], users={"alice": "a secret"}
)
with MockCluster(security=security) as cluster:
    conf = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "SCRAM-SHA-256",
    }
    with AdminClient({**conf, "sasl.username": "alice", "sasl.password": "a secret"}) as admin:
        token = admin.create_delegation_token(
            owner=KafkaPrincipal("User", "job-7"), max_lifetime_ms=3_600_000
        ).result()
        print("made:", token.token_info.owner, "asked for by", token.token_info.token_requester)
        print("its HMAC is in the repr:", token.hmac_as_base64 in repr(token))

        # A job gets this instead of a password. It is valid until the token ends.
        login = {"sasl.username": token.token_info.token_id, "sasl.password": token.hmac_as_base64}
        with AdminClient({**conf, **login, "sasl.scram.tokenauth": True}) as job:
            print("brokers seen with it:", len(job.list_topics(timeout=10).brokers))

        admin.expire_delegation_token(token.hmac).result()
        with AdminClient({**conf, **login, "sasl.scram.tokenauth": True, "log_level": 0}) as job:
            try:
                job.list_topics(timeout=2)
            except KafkaException as error:
                print("afterwards:", error.args[0].name())
