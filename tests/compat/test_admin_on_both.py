"""The same calls of the admin client on confluent_kafka and on kafka_native, of one mock cluster."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from enum import Enum
from typing import Any

import confluent_kafka
import pytest

import kafka_native
from kafka_native.mock import MockCluster

BOTH = (confluent_kafka, kafka_native)
WAIT_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=2) as running:
        running.create_topic("there", 2)
        with kafka_native.Producer({"bootstrap.servers": running.bootstrap_servers}) as producer:
            for number in range(10):
                producer.produce("there", str(number), partition=0, timestamp=1_700_000_000_000 + number)
        conf = {"bootstrap.servers": running.bootstrap_servers, "group.id": "readers"}
        with kafka_native.Consumer(conf) as consumer:
            consumer.commit(offsets=[kafka_native.TopicPartition("there", 0, 7)], asynchronous=False)
        yield running


ONLY_OURS = {("ConfigEntry", "config_type"), ("ConfigEntry", "documentation"), ("GroupMetadata", "type")}
"""What librdkafka doesn't tell (KIP-569, KIP-1043), by class."""


def shown(value: Any) -> Any:
    """A value in a form that doesn't depend on whose it is: futures' results, fields of objects, codes of errors."""
    if isinstance(value, dict):
        return {str(shown(key)): shown(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [shown(each) for each in value]
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if type(value).__name__ == "KafkaError":
        return value.name()
    if type(value).__name__ == "TopicPartition":
        return (value.topic, value.partition, shown(value.error))
    if type(value).__name__ == "Future":
        error = value.exception(WAIT_S)
        return shown(value.result()) if error is None else (type(error).__name__, shown(error.args[0]))
    if type(value).__name__ in {"Uuid", "str", "int", "float", "bool", "NoneType", "bytes"}:
        return str(value)
    kind = type(value).__name__
    return (kind, {name: shown(each) for name, each in sorted(vars(value).items()) if (kind, name) not in ONLY_OURS})


def acl(admin: Any, name: str, principal: str, operation: str = "read", pattern: str = "literal") -> Any:
    return admin.AclBinding("topic", name, pattern, principal, "*", operation, "allow")


def acls(admin: Any, name: str | None, pattern: str = "any") -> Any:
    return admin.AclBindingFilter("any", name, pattern, None, None, "any", "any")


def credential(admin: Any, user: str, iterations: int = 4096, mechanism: str = "SCRAM_SHA_256") -> Any:
    info = admin.ScramCredentialInfo(admin.ScramMechanism[mechanism], iterations)
    return admin.UserScramCredentialUpsertion(user, info, b"a password")


def no_credential(admin: Any, user: str) -> Any:
    return admin.UserScramCredentialDeletion(user, admin.ScramMechanism.SCRAM_SHA_256)


def replacing(admin: Any, name: str, **settings: str) -> Any:
    return admin.ConfigResource("topic", name, set_config=settings)


def config(admin: Any, *entries: tuple[str, str | None, str]) -> Any:
    made = [
        admin.ConfigEntry(name, value, incremental_operation=admin.AlterConfigOpType[operation])
        for name, value, operation in entries
    ]
    return admin.ConfigResource("topic", "there", incremental_configs=made)


CALLS = {
    "describe_cluster": lambda client, lib, admin: client.describe_cluster(),
    "describe_topics": lambda client, lib, admin: client.describe_topics(lib.TopicCollection(["there", "nowhere"])),
    "create": lambda client, lib, admin: client.create_topics(
        [admin.NewTopic("tried", 1), admin.NewTopic("there", 1), admin.NewTopic("big", 1, 99)], validate_only=True
    ),
    "delete": lambda client, lib, admin: client.delete_topics(["nowhere"]),
    "grow": lambda client, lib, admin: client.create_partitions(
        [admin.NewPartitions("there", 1), admin.NewPartitions("nowhere", 5)]
    ),
    "configs": lambda client, lib, admin: client.describe_configs(
        [admin.ConfigResource("topic", "there"), admin.ConfigResource("broker", "2")]
    ),
    "bad configs": lambda client, lib, admin: client.describe_configs(
        [admin.ConfigResource("topic", "nowhere"), admin.ConfigResource("group", "readers")]
    ),
    "alter": lambda client, lib, admin: client.incremental_alter_configs(
        [config(admin, ("retention.ms", "5000", "SET"), ("compression.type", None, "DELETE"))]
    ),
    "groups": lambda client, lib, admin: client.list_consumer_groups(states={lib.ConsumerGroupState.EMPTY}),
    "no groups": lambda client, lib, admin: client.list_consumer_groups(types={lib.ConsumerGroupType.CONSUMER}),
    "group": lambda client, lib, admin: client.describe_consumer_groups(["readers", "nobody"]),
    "list_groups": lambda client, lib, admin: client.list_groups(timeout=WAIT_S),
    "no group": lambda client, lib, admin: client.list_groups("nobody", timeout=WAIT_S),
    "delete group": lambda client, lib, admin: client.delete_consumer_groups(["nobody"]),
    "committed": lambda client, lib, admin: client.list_consumer_group_offsets(
        [lib.ConsumerGroupTopicPartitions("readers")]
    ),
    "commit": lambda client, lib, admin: client.alter_consumer_group_offsets(
        [
            lib.ConsumerGroupTopicPartitions(
                "others",
                [lib.TopicPartition("nowhere", 0, 5), lib.TopicPartition("there", 0, 5, "noted", 3)],
            )
        ]
    ),
    "what was committed": lambda client, lib, admin: client.list_consumer_group_offsets(
        [lib.ConsumerGroupTopicPartitions("others")]
    ),
    "a partition twice": lambda client, lib, admin: client.alter_consumer_group_offsets(
        [lib.ConsumerGroupTopicPartitions("others", [lib.TopicPartition("there", 0, 5)] * 2)]
    ),
    "offsets": lambda client, lib, admin: client.list_offsets(
        {
            lib.TopicPartition("there", 0): admin.OffsetSpec.latest(),
            lib.TopicPartition("there", 1): admin.OffsetSpec.earliest(),
            lib.TopicPartition("there", 9): admin.OffsetSpec.earliest(),
            lib.TopicPartition("nowhere", 0): admin.OffsetSpec.earliest(),
        }
    ),
    "by time": lambda client, lib, admin: client.list_offsets(
        {lib.TopicPartition("there", 0): admin.OffsetSpec.for_timestamp(1_700_000_000_004)}
    ),
    "newest": lambda client, lib, admin: client.list_offsets(
        {lib.TopicPartition("there", 0): admin.OffsetSpec.max_timestamp()}
    ),
    "records": lambda client, lib, admin: client.delete_records(
        [lib.TopicPartition("there", 0, 2), lib.TopicPartition("there", 1, 99), lib.TopicPartition("there", 9, 1)]
    ),
    "cluster_id": lambda client, lib, admin: client.cluster_id(timeout=WAIT_S),
    "replace": lambda client, lib, admin: client.alter_configs(
        [replacing(admin, "there", **{"retention.ms": "7000"}), replacing(admin, "nowhere")]
    ),
    "what was replaced": lambda client, lib, admin: client.describe_configs([admin.ConfigResource("topic", "there")]),
    "no election is needed": lambda client, lib, admin: client.elect_leaders(
        lib.ElectionType.PREFERRED, [lib.TopicPartition("there", 0), lib.TopicPartition("nowhere", 0)]
    ),
    "elections where they are needed": lambda client, lib, admin: client.elect_leaders(lib.ElectionType.UNCLEAN),
    "permissions": lambda client, lib, admin: client.create_acls(
        [acl(admin, "t", "User:a"), acl(admin, "t", "who"), acl(admin, "t", "User:b", "all", "prefixed")]
    ),
    "all permissions": lambda client, lib, admin: client.describe_acls(acls(admin, None)),
    "matching permissions": lambda client, lib, admin: client.describe_acls(acls(admin, "there", "match")),
    "no such permission": lambda client, lib, admin: client.delete_acls([acls(admin, "else")]),
    "user": lambda client, lib, admin: client.alter_user_scram_credentials(
        [credential(admin, "ann"), credential(admin, "bob", 1), no_credential(admin, "cid")]
    ),
    "users": lambda client, lib, admin: client.describe_user_scram_credentials(["ann", "cid"]),
    "all users": lambda client, lib, admin: client.describe_user_scram_credentials(),
}


@pytest.mark.filterwarnings("ignore:alter_configs:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:list_groups:DeprecationWarning")  # confluent_kafka's
@pytest.mark.parametrize("call", CALLS)
def test_calls_have_the_same_results(cluster: MockCluster, call: str) -> None:
    found = []
    for lib in BOTH:
        admin = importlib.import_module(f"{lib.__name__}.admin")
        client = admin.AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        found.append(shown(CALLS[call](client, lib, admin)))
        del client
    assert found[0] == found[1]


WRONG = {
    "no topics": lambda client, lib, admin: client.create_topics([]),
    "topics that are none": lambda client, lib, admin: client.delete_topics(None),
    "no partitions": lambda client, lib, admin: client.create_partitions([]),
    "no such option": lambda client, lib, admin: client.delete_topics(["x"], bogus=1),
    "a timeout that is none": lambda client, lib, admin: client.delete_topics(["x"], request_timeout="x"),
    "a timeout that is too long": lambda client, lib, admin: client.delete_topics(["x"], request_timeout=1e9),
    "states that are no set": lambda client, lib, admin: client.list_consumer_groups(states=["x"]),
    "a type that isn't known": lambda client, lib, admin: client.list_consumer_groups(
        types={lib.ConsumerGroupType.UNKNOWN}
    ),
    "two groups' offsets": lambda client, lib, admin: client.alter_consumer_group_offsets(
        [lib.ConsumerGroupTopicPartitions(each, [lib.TopicPartition("there", 0, 1)]) for each in "ab"]
    ),
    "offsets of no partitions": lambda client, lib, admin: client.alter_consumer_group_offsets(
        [lib.ConsumerGroupTopicPartitions("a")]
    ),
    "no offsets": lambda client, lib, admin: client.alter_consumer_group_offsets(
        [lib.ConsumerGroupTopicPartitions("a", [lib.TopicPartition("there", 0)])]
    ),
    "no change": lambda client, lib, admin: client.incremental_alter_configs([admin.ConfigResource("topic", "there")]),
    "a spec that is none": lambda client, lib, admin: client.list_offsets({lib.TopicPartition("there", 0): 1}),
    "names that are no collection": lambda client, lib, admin: client.describe_topics(["there"]),
    "a kind that isn't known": lambda client, lib, admin: admin.ConfigResource("bogus", "x"),
    "an ACL with ANY": lambda client, lib, admin: admin.AclBinding("any", "n", "literal", "u", "h", "read", "allow"),
    "an ACL without a name": lambda client, lib, admin: admin.AclBinding(
        "topic", None, "literal", "u", "h", "read", "allow"
    ),
    "ACLs twice": lambda client, lib, admin: client.create_acls([acl(admin, "t", "User:a")] * 2),
    "no ACLs": lambda client, lib, admin: client.create_acls([]),
    "a filter that is none": lambda client, lib, admin: client.describe_acls("x"),
    "filters twice": lambda client, lib, admin: client.delete_acls([acls(admin, "t")] * 2),
    "an election of none": lambda client, lib, admin: client.elect_leaders("preferred"),
    "an election of what is no list": lambda client, lib, admin: client.elect_leaders(lib.ElectionType.UNCLEAN, "x"),
    "an election of no partition": lambda client, lib, admin: client.elect_leaders(
        lib.ElectionType.UNCLEAN, [lib.TopicPartition("t", -5)]
    ),
    "users that are no list": lambda client, lib, admin: client.describe_user_scram_credentials("ann"),
    "a user without a name": lambda client, lib, admin: client.describe_user_scram_credentials([""]),
    "no changes of users": lambda client, lib, admin: client.alter_user_scram_credentials([]),
    "a change of a user that is none": lambda client, lib, admin: client.alter_user_scram_credentials(["ann"]),
    "no iterations": lambda client, lib, admin: client.alter_user_scram_credentials([credential(admin, "ann", 0)]),
    "a filter with UNKNOWN": lambda client, lib, admin: admin.AclBindingFilter(
        "unknown", None, "any", None, None, "any", "any"
    ),
}


@pytest.mark.parametrize("call", WRONG)
def test_wrong_calls_raise_the_same(cluster: MockCluster, call: str) -> None:
    found = []
    for lib in BOTH:
        admin = importlib.import_module(f"{lib.__name__}.admin")
        client = admin.AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        with pytest.raises((TypeError, ValueError)) as raised:
            WRONG[call](client, lib, admin)
        found.append(raised.type)
        del client
    assert found[0] is found[1]
