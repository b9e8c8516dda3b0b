"""AdminClient: elections, replaced settings, ACLs, SCRAM users, on the mock cluster."""

from __future__ import annotations

import hashlib
import pickle
from concurrent.futures import Future
from typing import Any

import pytest

from kafka_native import Consumer, ElectionType, KafkaError, Producer, TopicPartition
from kafka_native.admin import (
    AclBinding,
    AclBindingFilter,
    AdminClient,
    ConfigResource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka_native.mock.faults import CLOSE_CONNECTION
from kafka_native.protocol import ApiKey
from kafka_native.protocol.users import AlterUserScramCredentialsRequest
from tests.waiting import WAIT_S

from .admin_support import cluster_and_admin, code_of, expect_error, expect_success, result_of
from .support import Client, partitions_of

EVERYTHING = AclBindingFilter("any", None, "any", None, None, "any", "any")
SECRET = b"hunter2-is-the-canary"


def acl(
    name: str, operation: str = "read", pattern: str = "literal", principal: str = "User:ann"
) -> AclBinding:
    return AclBinding("topic", name, pattern, principal, "*", operation, "allow")


def of_topic(name: str | None, pattern: str = "any") -> AclBindingFilter:
    return AclBindingFilter("topic", name, pattern, None, None, "any", "any")


def upsertion(user: str, iterations: int = 4096, **others: Any) -> UserScramCredentialUpsertion:
    return UserScramCredentialUpsertion(
        user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, iterations), SECRET, **others
    )


def test_every_client_returns_the_cluster_id(client: Client, admin: AdminClient) -> None:
    conf = {"bootstrap.servers": client.bootstrap}
    with Producer(conf) as producer, Consumer({**conf, "group.id": "ids"}) as consumer:
        for each in (admin, producer, consumer):
            assert each.cluster_id(WAIT_S) == client.cluster.cluster_id


def test_alter_configs_replaces_settings_and_warns(client: Client, admin: AdminClient) -> None:
    topic = client.topic()
    client.cluster.topics[topic].configs["cleanup.policy"] = "compact"
    there = ConfigResource("topic", topic, set_config={"retention.ms": "7000"})
    nowhere = ConfigResource("topic", "nowhere", set_config={"retention.ms": "7000"})
    with pytest.warns(DeprecationWarning, match="Use incremental_alter_configs"):
        tried = admin.alter_configs([there], validate_only=True)
    expect_success(tried[there])
    assert client.cluster.topics[topic].configs == {"cleanup.policy": "compact"}
    with pytest.warns(DeprecationWarning, match="deprecated"):
        done = admin.alter_configs([there, nowhere])
    expect_success(done[there])
    expect_error(done[nowhere], KafkaError.UNKNOWN_TOPIC_OR_PART)
    # settings that were not named have their defaults
    assert client.cluster.topics[topic].configs == {"retention.ms": "7000"}
    with (
        pytest.warns(DeprecationWarning, match="deprecated"),
        pytest.raises(TypeError, match=r"'retention\.ms'"),
    ):
        admin.alter_configs([ConfigResource("topic", topic, set_config={"retention.ms": 7000})])  # type: ignore[dict-item]


def test_leaders_are_elected(client: Client, admin: AdminClient) -> None:
    topic = client.topic(2)
    preferred = client.cluster.leader(topic, 0)
    moved, stayed = partitions_of(topic, 2)
    unknown = TopicPartition("nowhere", 0)
    client.cluster.move_leader(topic, 0, preferred % 3 + 1)
    found = result_of(admin.elect_leaders(ElectionType.PREFERRED, [moved, stayed, unknown]))
    assert found[moved] is None
    assert found[stayed] == KafkaError.ELECTION_NOT_NEEDED
    assert found[unknown] == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert {each.error for each in found} == set(found.values())
    assert client.cluster.leader(topic, 0) == preferred

    client.cluster.move_leader(topic, 1, -1)
    # no list stands for all partitions that need an election
    assert stayed in result_of(admin.elect_leaders(ElectionType.UNCLEAN))
    assert client.cluster.leader(topic, 1) > 0
    assert result_of(admin.elect_leaders(ElectionType.PREFERRED, [])) == {}


def test_permissions_are_made_found_and_deleted(client: Client, admin: AdminClient) -> None:
    made = [acl("a"), acl("a", "write"), acl("pre", pattern="prefixed", principal="User:bob")]
    futures = admin.create_acls([*made, acl("bad", principal="not a principal")])
    assert [result_of(futures[each]) for each in made] == [None, None, None]
    expect_error(futures[acl("bad", principal="not a principal")], KafkaError.INVALID_REQUEST)
    assert sorted(result_of(admin.describe_acls(EVERYTHING))) == sorted(made)
    assert result_of(admin.describe_acls(of_topic("prefix", "match"))) == [made[2]]
    assert result_of(admin.describe_acls(of_topic("prefix"))) == []
    assert pickle.loads(pickle.dumps(made[0])) == made[0]

    gone = admin.delete_acls([of_topic("a"), of_topic("nowhere"), of_topic("pre")])
    # in the order of the filters
    assert [len(result_of(future)) for future in gone.values()] == [2, 0, 1]
    assert result_of(gone[of_topic("pre")]) == [made[2]]
    assert result_of(admin.describe_acls(EVERYTHING)) == []


def test_acls_are_not_sent_again_after_a_lost_response(client: Client, admin: AdminClient) -> None:
    client.cluster.clear_requests()
    client.cluster.push_request_errors(ApiKey.CREATE_ACLS, [CLOSE_CONNECTION])
    expect_error(admin.create_acls([acl("lost")])[acl("lost")], KafkaError._TRANSPORT)
    assert len(client.cluster.requests_of(ApiKey.CREATE_ACLS)) == 1


def test_a_response_with_too_few_results_fails_all_acls(client: Client, admin: AdminClient) -> None:
    def shortened(response: Any) -> None:
        response.results.pop()

    client.cluster.edit_responses(ApiKey.CREATE_ACLS, shortened)
    futures = admin.create_acls([acl("one"), acl("two")])
    assert {code_of(future) for future in futures.values()} == {KafkaError._BAD_MSG}


def test_scram_credentials_are_added_and_removed(client: Client, admin: AdminClient) -> None:
    more = UserScramCredentialUpsertion(
        "ann", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 5000), SECRET
    )
    weak = upsertion("weak", 7)
    unknown = UserScramCredentialDeletion("cid", ScramMechanism.SCRAM_SHA_256)
    odd = UserScramCredentialUpsertion(
        "odd", ScramCredentialInfo(ScramMechanism.UNKNOWN, 5000), SECRET
    )
    done = admin.alter_user_scram_credentials(
        [upsertion("ann", salt=b"salt"), weak, unknown, odd, upsertion("bob")]
    )
    assert (result_of(done["ann"]), result_of(done["bob"])) == (None, None)
    expect_error(done["weak"], KafkaError.UNACCEPTABLE_CREDENTIAL)
    expect_error(done["cid"], KafkaError.RESOURCE_NOT_FOUND)
    expect_error(done["odd"], KafkaError.UNSUPPORTED_SASL_MECHANISM)

    expect_error(
        admin.alter_user_scram_credentials([more, more])["ann"], KafkaError.DUPLICATE_RESOURCE
    )
    expect_success(admin.alter_user_scram_credentials([more])["ann"])

    kept = client.cluster.access.users
    hashed = hashlib.pbkdf2_hmac("sha256", SECRET, b"salt", 4096)
    assert kept["ann"][1] == (4096, b"salt", hashed)
    assert kept["ann"][2].salted_password != kept["bob"][1].salted_password
    assert len({kept["ann"][2].salt, kept["bob"][1].salt}) == 2, "each has its own salt"

    described = admin.describe_user_scram_credentials(["ann", "cid"])
    infos = [
        (each.mechanism, each.iterations)
        for each in result_of(described["ann"]).scram_credential_infos
    ]
    assert infos == [(ScramMechanism.SCRAM_SHA_256, 4096), (ScramMechanism.SCRAM_SHA_512, 5000)]
    expect_error(described["cid"], KafkaError.RESOURCE_NOT_FOUND)
    assert set(result_of(admin.describe_user_scram_credentials())) == {"ann", "bob"}
    assert admin.describe_user_scram_credentials([]) == {}

    gone = admin.alter_user_scram_credentials(
        [UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_256)]
    )
    expect_success(gone["bob"])
    assert set(kept) == {"ann"}
    kept.clear()


def test_no_password_and_no_hash_of_one_is_shown(client: Client, admin: AdminClient) -> None:
    hashed = hashlib.pbkdf2_hmac("sha256", SECRET, b"salt", 4096)
    change = AlterUserScramCredentialsRequest.Upsertion(
        name="ann", mechanism=1, iterations=4096, salt=b"salt", salted_password=hashed
    )
    shown = [
        repr(change),
        repr(AlterUserScramCredentialsRequest(upsertions=[change])),
        repr(upsertion("ann")),
    ]
    for bad in (
        upsertion("ann", 0),
        upsertion("ann", 2_000_000),
        upsertion("", 4096),
        upsertion("ann", salt=b""),
    ):
        with pytest.raises(ValueError, match=r"Iterations|cannot be empty") as refused:
            admin.alter_user_scram_credentials([bad])
        shown.append(str(refused.value))
    text_for_bytes = upsertion("ann")
    text_for_bytes.password = SECRET.decode()  # type: ignore[assignment]
    with pytest.raises(TypeError, match="must be bytes") as mistyped:
        admin.alter_user_scram_credentials([text_for_bytes])
    shown.append(str(mistyped.value))
    for text in shown:
        assert SECRET.decode() not in text
        assert repr(hashed) not in text


@pytest.mark.parametrize(
    "key",
    [
        ApiKey.ALTER_CONFIGS,
        ApiKey.ELECT_LEADERS,
        ApiKey.CREATE_ACLS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ],
)
def test_brokers_without_the_api_are_an_unsupported_feature(key: ApiKey) -> None:
    with cluster_and_admin(max_versions={key: -1}) as (_, admin):
        resource = ConfigResource("topic", "t", set_config={"retention.ms": "1"})
        if key is ApiKey.ALTER_CONFIGS:
            with pytest.warns(DeprecationWarning, match="deprecated"):
                future: Future[Any] = admin.alter_configs([resource])[resource]
        elif key is ApiKey.ELECT_LEADERS:
            future = admin.elect_leaders(ElectionType.PREFERRED)
        elif key is ApiKey.CREATE_ACLS:
            future = admin.create_acls([acl("a")])[acl("a")]
        else:
            future = admin.alter_user_scram_credentials([upsertion("ann")])["ann"]
        expect_error(future, KafkaError._UNSUPPORTED_FEATURE)
