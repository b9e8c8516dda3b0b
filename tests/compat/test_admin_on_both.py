"""The same calls of the admin client on confluent_kafka and on kafka_native, on one mock cluster.

`tests/broker/test_admin_side_by_side.py` makes them on Apache Kafka.
"""

from __future__ import annotations

import importlib
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

import pytest

import kafka_native
import kafka_native.admin
from kafka_native.errors import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.compat.sides import BOTH, Stage
from tests.waiting import WAIT_S

_RUN = uuid.uuid4().hex[:8]
TOPIC, NOWHERE, TRIED, BIG, NEVER = (
    f"{name}-{_RUN}" for name in ("there", "nowhere", "tried", "big", "never")
)
READERS, NOBODY, OTHERS = (f"{name}-{_RUN}" for name in ("readers", "nobody", "others"))
PROTOCOLS = ("classic", "consumer")
GROUPS_WITH_MEMBER = {protocol: f"members-{protocol}-{_RUN}" for protocol in PROTOCOLS}
"""The group that has a member, by its protocol."""
PERMITTED = f"permitted-{_RUN}"
ANN, BOB, CID = (f"{name}-{_RUN}" for name in ("ann", "bob", "cid"))


@contextmanager
def prepared(cluster: Stage) -> Iterator[None]:
    """Create what the calls need for the block, then delete it and what the calls created."""
    where = {"bootstrap.servers": cluster.bootstrap_servers}
    cluster.create_topic(TOPIC, 2)
    with kafka_native.Producer(where) as producer:
        for number in range(10):
            producer.produce(TOPIC, str(number), partition=0, timestamp=1_700_000_000_000 + number)
    for group in (READERS, OTHERS):
        with kafka_native.Consumer({**where, "group.id": group}) as consumer:
            consumer.commit(offsets=[kafka_native.TopicPartition(TOPIC, 0, 7)], asynchronous=False)
    with kafka_native.admin.AdminClient(where) as admin:
        admin.alter_user_scram_credentials([credential(kafka_native.admin, ANN)])[ANN].result(
            WAIT_S
        )
        members = [member(cluster, admin, protocol) for protocol in PROTOCOLS]
        yield
        for each in members:
            each.close()
        gone: list[Any] = [*admin.delete_consumer_groups([OTHERS, READERS]).values()]
        gone += admin.delete_acls([acls(kafka_native.admin, PERMITTED)]).values()
        for future in gone:
            future.result(WAIT_S)
        admin.alter_user_scram_credentials([no_credential(kafka_native.admin, ANN)])[ANN].result(
            WAIT_S
        )


def member(
    cluster: Stage, admin: kafka_native.admin.AdminClient, protocol: str
) -> kafka_native.Consumer:
    """Return the only member of a stable group."""
    consumer = kafka_native.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": GROUPS_WITH_MEMBER[protocol],
            "group.protocol": protocol,
            "group.instance.id": f"instance-{protocol}",
            "client.id": "one-of-them",
            "max.poll.interval.ms": 3_600_000,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    deadline = time.monotonic() + WAIT_S
    state = None
    while len(consumer.assignment()) < 2 or state != kafka_native.ConsumerGroupState.STABLE:
        assert time.monotonic() < deadline, f"{protocol}: {consumer.assignment()}, {state}"
        consumer.poll(0.1)
        state = (
            admin.describe_consumer_groups([GROUPS_WITH_MEMBER[protocol]])[
                GROUPS_WITH_MEMBER[protocol]
            ]
            .result(WAIT_S)
            .state
        )
    return consumer


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=2) as running, prepared(running):
        yield running


ONLY_OURS = {
    ("ConfigEntry", "config_type"),
    ("ConfigEntry", "documentation"),
    ("GroupMetadata", "type"),
}
"""The fields that librdkafka lacks (KIP-569, KIP-1043), by class."""

VARYING = {("ClusterMetadata", "orig_broker_id"), ("ClusterMetadata", "orig_broker_name")}
"""The fields that name the broker that answered."""

NAMES = {
    "ConsumerGroupListing": "group_id",
    "GroupMetadata": "id",
    "AclBinding": "name",
    "UserScramCredentialsDescription": "user",
}
"""The field with the name, by class. Objects of other users of the cluster are left out."""


def is_foreign(value: Any) -> bool:
    """Return whether another user of the cluster created an object."""
    name = NAMES.get(type(value).__name__)
    return name is not None and not getattr(value, name).endswith(_RUN)


def key_text(key: Any) -> str:
    """Return the key of a result as text, without an offset, which librdkafka may change."""
    if type(key).__name__ == "TopicPartition":
        return str((key.topic, key.partition, shown(key.error)))
    return str(shown(key))


def shown(value: Any) -> Any:
    """Return a value in a form of both libraries: results of futures, fields, error names."""
    kind = type(value).__name__
    if isinstance(value, dict):
        kept = [(key, each) for key, each in value.items() if not is_foreign(each)]
        return {key_text(key): shown(each) for key, each in kept}
    if isinstance(value, list | tuple | set):
        found = [shown(each) for each in value if not is_foreign(each)]
        in_any_order = any(type(each).__name__ in {"TopicPartition", *NAMES} for each in value)
        return sorted(found, key=repr) if in_any_order else found
    if isinstance(value, Enum):
        return f"{kind}.{value.name}"
    if kind == "KafkaError":
        return value.name()
    if kind == "TopicPartition":  # without its metadata, which librdkafka doesn't terminate
        return (value.topic, value.partition, value.offset, value.leader_epoch, shown(value.error))
    if kind == "Future":
        error = value.exception(WAIT_S)
        return (
            shown(value.result()) if error is None else (type(error).__name__, shown(error.args[0]))
        )
    if kind in {"Uuid", "str", "int", "float", "bool", "NoneType", "bytes"}:
        return str(value)
    names = [name for name in sorted(vars(value)) if (kind, name) not in ONLY_OURS | VARYING]
    text = repr(value) if kind.endswith("Metadata") else ""
    return (kind, text, {name: shown(getattr(value, name)) for name in names})


def acl(
    admin: Any, name: str, principal: str, operation: str = "read", pattern: str = "literal"
) -> Any:
    return admin.AclBinding("topic", name, pattern, principal, "*", operation, "allow")


def acls(admin: Any, name: str | None, pattern: str = "any") -> Any:
    return admin.AclBindingFilter("any", name, pattern, None, None, "any", "any")


def credential(
    admin: Any, user: str, iterations: int = 4096, mechanism: str = "SCRAM_SHA_256"
) -> Any:
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
    return admin.ConfigResource("topic", TOPIC, incremental_configs=made)


def last_broker(client: Any, admin: Any) -> Any:
    return admin.ConfigResource(
        "broker", str(max(client.list_topics(TOPIC, timeout=WAIT_S).brokers))
    )


def by_steps(admin: Any, **settings: str) -> Any:
    resource = admin.ConfigResource("topic", TOPIC)
    for name, value in settings.items():
        resource.set_config(name.replace("_", "."), value)
        resource.set_config(name.replace("_", "."), "1", overwrite=False)
    return resource


def change_by_steps(admin: Any) -> Any:
    resource = admin.ConfigResource("topic", TOPIC)
    for name, value, operation in (
        ("max.message.bytes", "600000", "SET"),
        ("cleanup.policy", "compact", "APPEND"),
    ):
        entry = admin.ConfigEntry(
            name, value, incremental_operation=admin.AlterConfigOpType[operation]
        )
        resource.add_incremental_config(entry)
    return resource


CALLS = {
    "describe_cluster": lambda client, lib, admin: client.describe_cluster(),
    "describe_topics": lambda client, lib, admin: client.describe_topics(
        lib.TopicCollection([TOPIC, NOWHERE])
    ),
    "create": lambda client, lib, admin: client.create_topics(
        [admin.NewTopic(TRIED, 1), admin.NewTopic(TOPIC, 1), admin.NewTopic(BIG, 1, 99)],
        validate_only=True,
    ),
    "delete": lambda client, lib, admin: client.delete_topics([NOWHERE]),
    "grow": lambda client, lib, admin: client.create_partitions(
        [admin.NewPartitions(TOPIC, 1), admin.NewPartitions(NOWHERE, 5)]
    ),
    "configs": lambda client, lib, admin: client.describe_configs(
        [admin.ConfigResource("topic", TOPIC), last_broker(client, admin)]
    ),
    "bad configs": lambda client, lib, admin: client.describe_configs(
        [admin.ConfigResource("topic", NOWHERE), admin.ConfigResource("group", READERS)]
    ),
    "alter": lambda client, lib, admin: client.incremental_alter_configs(
        [
            config(
                admin, ("max.message.bytes", "500000", "SET"), ("compression.type", None, "DELETE")
            )
        ]
    ),
    "groups": lambda client, lib, admin: client.list_consumer_groups(
        states={lib.ConsumerGroupState.EMPTY}
    ),
    "no groups": lambda client, lib, admin: client.list_consumer_groups(
        types={lib.ConsumerGroupType.CONSUMER}
    ),
    "group": lambda client, lib, admin: client.describe_consumer_groups([READERS, NOBODY]),
    "list_groups": lambda client, lib, admin: [
        each
        for each in client.list_groups(timeout=WAIT_S)
        if each.id != GROUPS_WITH_MEMBER["consumer"]
    ],
    "no group": lambda client, lib, admin: client.list_groups(NOBODY, timeout=WAIT_S),
    "delete group": lambda client, lib, admin: client.delete_consumer_groups([NOBODY]),
    "committed": lambda client, lib, admin: client.list_consumer_group_offsets(
        [lib.ConsumerGroupTopicPartitions(READERS)]
    ),
    "commit": lambda client, lib, admin: client.alter_consumer_group_offsets(
        [
            lib.ConsumerGroupTopicPartitions(
                OTHERS,
                [lib.TopicPartition(NOWHERE, 0, 5), lib.TopicPartition(TOPIC, 0, 5, "noted", 3)],
            )
        ]
    ),
    "committed by commit": lambda client, lib, admin: client.list_consumer_group_offsets(
        [lib.ConsumerGroupTopicPartitions(OTHERS)]
    ),
    "a partition twice": lambda client, lib, admin: client.alter_consumer_group_offsets(
        [lib.ConsumerGroupTopicPartitions(OTHERS, [lib.TopicPartition(TOPIC, 0, 5)] * 2)]
    ),
    "offsets": lambda client, lib, admin: client.list_offsets(
        {
            lib.TopicPartition(TOPIC, 0): admin.OffsetSpec.latest(),
            lib.TopicPartition(TOPIC, 1): admin.OffsetSpec.earliest(),
            lib.TopicPartition(TOPIC, 9): admin.OffsetSpec.earliest(),
            lib.TopicPartition(NOWHERE, 0): admin.OffsetSpec.earliest(),
        }
    ),
    "by time": lambda client, lib, admin: client.list_offsets(
        {lib.TopicPartition(TOPIC, 0): admin.OffsetSpec.for_timestamp(1_700_000_000_004)}
    ),
    "newest": lambda client, lib, admin: client.list_offsets(
        {lib.TopicPartition(TOPIC, 0): admin.OffsetSpec.max_timestamp()}
    ),
    "records": lambda client, lib, admin: client.delete_records(
        [
            lib.TopicPartition(TOPIC, 0, 2),
            lib.TopicPartition(TOPIC, 1, 99),
            lib.TopicPartition(TOPIC, 9, 1),
        ]
    ),
    "set_sasl_credentials": lambda client, lib, admin: client.set_sasl_credentials(
        "somebody", "secret"
    ),
    "cluster_id": lambda client, lib, admin: client.cluster_id(timeout=WAIT_S),
    "replace": lambda client, lib, admin: client.alter_configs(
        [replacing(admin, TOPIC, **{"max.message.bytes": "700000"}), replacing(admin, NOWHERE)]
    ),
    "configs after replace": lambda client, lib, admin: client.describe_configs(
        [admin.ConfigResource("topic", TOPIC)]
    ),
    "no election is needed": lambda client, lib, admin: client.elect_leaders(
        lib.ElectionType.PREFERRED, [lib.TopicPartition(TOPIC, 0), lib.TopicPartition(NOWHERE, 0)]
    ),
    "all needed elections": lambda client, lib, admin: client.elect_leaders(
        lib.ElectionType.UNCLEAN
    ),
    "permissions": lambda client, lib, admin: client.create_acls(
        [
            acl(admin, PERMITTED, "User:a"),
            acl(admin, PERMITTED, "who"),
            acl(admin, PERMITTED, "User:b", "all", "prefixed"),
        ]
    ),
    "all permissions": lambda client, lib, admin: client.describe_acls(acls(admin, None)),
    "matching permissions": lambda client, lib, admin: client.describe_acls(
        acls(admin, PERMITTED, "match")
    ),
    "no such permission": lambda client, lib, admin: client.delete_acls([acls(admin, NOWHERE)]),
    "user": lambda client, lib, admin: client.alter_user_scram_credentials(
        [credential(admin, ANN), credential(admin, BOB, 1), no_credential(admin, CID)]
    ),
    "users": lambda client, lib, admin: client.describe_user_scram_credentials([ANN, CID]),
    "all users": lambda client, lib, admin: client.describe_user_scram_credentials(),
    "metadata": lambda client, lib, admin: client.list_topics(TOPIC, timeout=WAIT_S),
    "metadata of nothing": lambda client, lib, admin: client.list_topics(NEVER, timeout=WAIT_S),
    "authorized operations of the cluster": lambda client, lib, admin: client.describe_cluster(
        include_authorized_operations=True
    ),
    "authorized operations of a topic": lambda client, lib, admin: client.describe_topics(
        lib.TopicCollection([TOPIC]), include_authorized_operations=True
    ),
    "stable groups": lambda client, lib, admin: client.list_consumer_groups(
        states={lib.ConsumerGroupState.STABLE}
    ),
    "groups of a type": lambda client, lib, admin: client.list_consumer_groups(
        types={lib.ConsumerGroupType.CLASSIC}
    ),
    "groups with members": lambda client, lib, admin: client.describe_consumer_groups(
        list(GROUPS_WITH_MEMBER.values()), include_authorized_operations=True
    ),
    "a group with a member, as bytes": lambda client, lib, admin: client.list_groups(
        GROUPS_WITH_MEMBER["classic"], timeout=WAIT_S
    ),
    "groups with members aren't deleted": lambda client, lib, admin: client.delete_consumer_groups(
        list(GROUPS_WITH_MEMBER.values())
    ),
    "a partition of a member": lambda client, lib, admin: client.alter_consumer_group_offsets(
        [
            lib.ConsumerGroupTopicPartitions(
                GROUPS_WITH_MEMBER["classic"], [lib.TopicPartition(TOPIC, 0, 5)]
            )
        ]
    ),
    "committed offsets of one partition": lambda client, lib, admin: (
        client.list_consumer_group_offsets(
            [
                lib.ConsumerGroupTopicPartitions(
                    READERS, [lib.TopicPartition(TOPIC, 1), lib.TopicPartition(TOPIC, 0)]
                )
            ],
            require_stable=True,
        )
    ),
    "read_committed end": lambda client, lib, admin: client.list_offsets(
        {lib.TopicPartition(TOPIC, 0): admin.OffsetSpec.latest()},
        isolation_level=lib.IsolationLevel.READ_COMMITTED,
    ),
    "replace by steps": lambda client, lib, admin: client.alter_configs(
        [by_steps(admin, max_message_bytes="800000", compression_type="gzip")]
    ),
    "configs after replace by steps": lambda client, lib, admin: client.describe_configs(
        [admin.ConfigResource("topic", TOPIC)]
    ),
    "alter by steps": lambda client, lib, admin: client.incremental_alter_configs(
        [change_by_steps(admin)]
    ),
    "configs after alter by steps": lambda client, lib, admin: client.describe_configs(
        [admin.ConfigResource("topic", TOPIC)]
    ),
}

CALLS |= {
    "a topic twice": lambda client, lib, admin: client.create_topics(
        [admin.NewTopic(TRIED, 1), admin.NewTopic(TRIED, 1)], validate_only=True
    ),
    "a deleted topic twice": lambda client, lib, admin: client.delete_topics([NOWHERE, NOWHERE]),
    "a grown topic twice": lambda client, lib, admin: client.create_partitions(
        [admin.NewPartitions(NOWHERE, 5), admin.NewPartitions(NOWHERE, 5)]
    ),
    "a group twice": lambda client, lib, admin: client.describe_consumer_groups(
        [NOBODY, NOBODY, READERS]
    ),
    "a resource twice": lambda client, lib, admin: client.describe_configs(
        [admin.ConfigResource("topic", TOPIC)] * 2
    ),
    "a changed resource twice": lambda client, lib, admin: client.incremental_alter_configs(
        [config(admin, ("max.message.bytes", "500000", "SET"))] * 2
    ),
    "records twice": lambda client, lib, admin: client.delete_records(
        [lib.TopicPartition(TOPIC, 1, 0), lib.TopicPartition(TOPIC, 1, 0)]
    ),
    "two brokers": lambda client, lib, admin: client.describe_configs(
        [admin.ConfigResource("broker", number) for number in ("1", "2")]
    ),
    "a broker that doesn't exist": lambda client, lib, admin: client.describe_configs(
        [admin.ConfigResource("broker", "99")], request_timeout=1
    ),
    "no time": lambda client, lib, admin: client.delete_topics([NOWHERE], request_timeout=0),
    "a topic that is no str": lambda client, lib, admin: [
        type(each.exception(WAIT_S)).__name__
        for each in client.delete_topics([admin.NewTopic(NOWHERE, 1)]).values()
    ],
    "settings as numbers": lambda client, lib, admin: client.create_topics(
        [
            admin.NewTopic(
                TRIED, 1, 1, config={"retention.ms": 3600000, "cleanup.policy": "compact"}
            )
        ],
        validate_only=True,
    ),
    "a setting as a float": lambda client, lib, admin: client.create_topics(
        [admin.NewTopic(TRIED, 1, 1, config={"retention.ms": 3600000.0})], validate_only=True
    ),
    "a setting as a bool": lambda client, lib, admin: client.create_topics(
        [admin.NewTopic(TRIED, 1, 1, config={"preallocate": True})], validate_only=True
    ),
    "replaced by a number": lambda client, lib, admin: client.alter_configs(
        [admin.ConfigResource("topic", TOPIC, set_config={"max.message.bytes": 700000})]
    ),
    "assigned replicas": lambda client, lib, admin: client.create_topics(
        [admin.NewTopic(TRIED, 1, replica_assignment=[[999]])], validate_only=True
    ),
}
"""Calls with duplicates, with several brokers, and with settings that are no str."""

CLASSES = {
    "describe_cluster": {"DescribeClusterResult"},
    "describe_topics": {"TopicDescription"},
    "groups": {"ListConsumerGroupsResult", "ConsumerGroupListing"},
    "groups with members": {"ConsumerGroupDescription", "MemberDescription", "MemberAssignment"},
    "a group with a member, as bytes": {"GroupMetadata", "GroupMember"},
    "offsets": {"ListOffsetsResultInfo"},
    "records": {"DeletedRecords"},
    "users": {"UserScramCredentialsDescription"},
    "metadata": {"ClusterMetadata", "BrokerMetadata", "TopicMetadata", "PartitionMetadata"},
}
"""The classes in some results, by call."""


def each_client(cluster: Stage) -> Iterator[tuple[Any, Any, Any]]:
    """Yield confluent_kafka's client, then ours, each with its library and its module ``admin``."""
    for lib in BOTH:
        admin = importlib.import_module(f"{lib.__name__}.admin")
        yield (
            admin.AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}),
            lib,
            admin,
        )


@pytest.mark.filterwarnings("ignore:alter_configs:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:list_groups:DeprecationWarning")  # confluent_kafka's
@pytest.mark.parametrize("call", CALLS)
def test_calls_have_the_same_results(cluster: Stage, call: str) -> None:
    theirs, ours = (shown(CALLS[call](*each)) for each in each_client(cluster))
    assert ours == theirs, f"\n{ours} of kafka_native\n{theirs} of confluent_kafka"
    assert all(f"'{each}'" in repr(ours) for each in CLASSES.get(call, ())), ours


WRONG = {
    "validate_only str": lambda client, lib, admin: client.create_topics(
        [admin.NewTopic(TRIED, 1)], validate_only="false"
    ),
    "a timeout over an hour": lambda client, lib, admin: client.delete_topics(
        ["x"], operation_timeout=3601
    ),
    "a negative timeout": lambda client, lib, admin: client.delete_topics(
        ["x"], request_timeout=-1
    ),
    "a change by a number": lambda client, lib, admin: client.incremental_alter_configs(
        [config(admin, ("max.message.bytes", 5, "SET"))]  # type: ignore[arg-type]
    ),
    "replicas None": lambda client, lib, admin: client.create_topics(
        [admin.NewTopic(TRIED, 1, 1, None)]
    ),
    "config None": lambda client, lib, admin: admin.NewTopic(TRIED, config=None),
    "no topics": lambda client, lib, admin: client.create_topics([]),
    "topics None": lambda client, lib, admin: client.delete_topics(None),
    "no partitions": lambda client, lib, admin: client.create_partitions([]),
    "no such option": lambda client, lib, admin: client.delete_topics(["x"], bogus=1),
    "timeout str": lambda client, lib, admin: client.delete_topics(["x"], request_timeout="x"),
    "states as a list": lambda client, lib, admin: client.list_consumer_groups(states=["x"]),
    "unknown group type": lambda client, lib, admin: client.list_consumer_groups(
        types={lib.ConsumerGroupType.UNKNOWN}
    ),
    "two groups' offsets": lambda client, lib, admin: client.alter_consumer_group_offsets(
        [lib.ConsumerGroupTopicPartitions(each, [lib.TopicPartition(TOPIC, 0, 1)]) for each in "ab"]
    ),
    "offsets of no partitions": lambda client, lib, admin: client.alter_consumer_group_offsets(
        [lib.ConsumerGroupTopicPartitions("a")]
    ),
    "no offsets": lambda client, lib, admin: client.alter_consumer_group_offsets(
        [lib.ConsumerGroupTopicPartitions("a", [lib.TopicPartition(TOPIC, 0)])]
    ),
    "no change": lambda client, lib, admin: client.incremental_alter_configs(
        [admin.ConfigResource("topic", TOPIC)]
    ),
    "offset spec int": lambda client, lib, admin: client.list_offsets(
        {lib.TopicPartition(TOPIC, 0): 1}
    ),
    "topics as a list": lambda client, lib, admin: client.describe_topics([TOPIC]),
    "unknown resource type": lambda client, lib, admin: admin.ConfigResource("bogus", "x"),
    "an ACL with ANY": lambda client, lib, admin: admin.AclBinding(
        "any", "n", "literal", "u", "h", "read", "allow"
    ),
    "an ACL without a name": lambda client, lib, admin: admin.AclBinding(
        "topic", None, "literal", "u", "h", "read", "allow"
    ),
    "ACLs twice": lambda client, lib, admin: client.create_acls([acl(admin, "t", "User:a")] * 2),
    "no ACLs": lambda client, lib, admin: client.create_acls([]),
    "ACL filter str": lambda client, lib, admin: client.describe_acls("x"),
    "filters twice": lambda client, lib, admin: client.delete_acls([acls(admin, "t")] * 2),
    "election type str": lambda client, lib, admin: client.elect_leaders("preferred"),
    "election partitions str": lambda client, lib, admin: client.elect_leaders(
        lib.ElectionType.UNCLEAN, "x"
    ),
    "election of partition -5": lambda client, lib, admin: client.elect_leaders(
        lib.ElectionType.UNCLEAN, [lib.TopicPartition("t", -5)]
    ),
    "users str": lambda client, lib, admin: client.describe_user_scram_credentials(ANN),
    "a user without a name": lambda client, lib, admin: client.describe_user_scram_credentials(
        [""]
    ),
    "no changes of users": lambda client, lib, admin: client.alter_user_scram_credentials([]),
    "user alteration str": lambda client, lib, admin: client.alter_user_scram_credentials([ANN]),
    "no iterations": lambda client, lib, admin: client.alter_user_scram_credentials(
        [credential(admin, ANN, 0)]
    ),
    "a filter with UNKNOWN": lambda client, lib, admin: admin.AclBindingFilter(
        "unknown", None, "any", None, None, "any", "any"
    ),
}


@pytest.mark.parametrize("call", WRONG)
def test_wrong_calls_raise_the_same(cluster: Stage, call: str) -> None:
    found = []
    for client, lib, admin in each_client(cluster):
        with pytest.raises((TypeError, ValueError)) as raised:
            WRONG[call](client, lib, admin)
        found.append(raised.type)
    assert found[0] is found[1]


def test_a_topic_is_created_grown_and_deleted(cluster: Stage) -> None:
    found = []
    for client, lib, admin in each_client(cluster):
        name = f"made-by-{lib.__name__}-{_RUN}"
        new = admin.NewTopic(name, 1, 1, config={"max.message.bytes": "12345"})
        made = [shown(client.create_topics([new], operation_timeout=20)[name]) for _ in range(2)]
        grown = [
            shown(client.create_partitions([admin.NewPartitions(name, 3)])[name]) for _ in range(2)
        ]
        gone = [shown(client.delete_topics([name], operation_timeout=20)[name]) for _ in range(2)]
        found.append([made, grown, gone])
    assert found[0] == found[1]
    assert [first for first, _ in found[1]] == ["None"] * 3


def test_resources_hold_their_settings() -> None:
    found = []
    for lib in BOTH:
        admin = importlib.import_module(f"{lib.__name__}.admin")
        resource = by_steps(admin, max_message_bytes="5", cleanup_policy="compact")
        more = change_by_steps(admin)
        found.append(
            [
                shown(resource),
                len(resource),
                repr(resource),
                shown(more),
                len(more),
                resource == more,
            ]
        )
    assert found[0] == found[1]


def test_offset_specs() -> None:
    found = []
    for lib in BOTH:
        spec = importlib.import_module(f"{lib.__name__}.admin").OffsetSpec
        four = [spec.earliest(), spec.latest(), spec.max_timestamp(), spec.for_timestamp(5)]
        same = [spec.earliest() is spec.earliest(), spec.for_timestamp(5) is spec.for_timestamp(5)]
        order = [type(each).__name__ for each in sorted(four)]
        assert {*order} == {"EarliestSpec", "LatestSpec", "MaxTimestampSpec", "TimestampSpec"}
        found.append(
            [
                [(type(each).__name__, each._value, isinstance(each, spec)) for each in four],
                same,
                order,
            ]
        )
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore:list_groups:DeprecationWarning")
def test_list_groups_describes_a_group_of_the_consumer_protocol(cluster: Stage) -> None:
    """DescribeGroups doesn't find it: librdkafka reports it as dead, we report its listing."""

    def call(client: Any) -> Any:
        (group,) = client.list_groups(GROUPS_WITH_MEMBER["consumer"], timeout=WAIT_S)
        return group.id, group.state, group.protocol_type, group.members, group.error

    theirs, ours = (call(client) for client, _, _ in each_client(cluster))
    assert theirs == (GROUPS_WITH_MEMBER["consumer"], "Dead", "", [], None)
    assert ours == (GROUPS_WITH_MEMBER["consumer"], "Stable", "consumer", [], None)


def test_the_errors_of_brokers_that_list_no_groups_are_kafka_errors() -> None:
    found = []
    with MockCluster(brokers=2) as own:
        for client, _, _ in each_client(own):
            own.push_request_errors(
                ApiKey.LIST_GROUPS, [ErrorCode.CLUSTER_AUTHORIZATION_FAILED], broker=2
            )
            result = client.list_consumer_groups(request_timeout=WAIT_S).result(WAIT_S)
            found.append([(type(each).__name__, each.code()) for each in result.errors])
    assert found[0] == found[1] == [("KafkaError", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]


def test_a_partition_without_a_leader_has_none() -> None:
    found = []
    with MockCluster(brokers=2) as own:
        own.create_topic("single", 1, replication_factor=1)
        own.broker_down(own.leader("single", 0))
        for client, lib, _ in each_client(own):
            described = client.describe_topics(lib.TopicCollection(["single"]))["single"]
            found.append([each.leader for each in described.result(WAIT_S).partitions])
    assert found[0] == found[1] == [None]


def test_metadata_names_the_broker_that_answered(cluster: Stage) -> None:
    def call(client: Any) -> Any:
        metadata = client.list_topics(TOPIC, timeout=WAIT_S)
        return type(metadata.orig_broker_id), type(metadata.orig_broker_name)

    theirs, ours = (call(client) for client, _, _ in each_client(cluster))
    assert theirs == ours


def test_topics_are_compared_with_topics_only() -> None:
    for lib in BOTH:
        admin = importlib.import_module(f"{lib.__name__}.admin")
        for made in (admin.NewTopic("a", 1), admin.NewPartitions("a", 1)):
            with pytest.raises(NotImplementedError):
                made == 1  # noqa: B015
            with pytest.raises(NotImplementedError):
                made != admin.ConfigResource("topic", "a")  # noqa: B015
            assert made == type(made)("a", 1)
            assert made < type(made)("a", 2)
            assert hash(made) == hash("a") ^ 1


def test_list_groups_is_deprecated(cluster: Stage) -> None:
    for client, _, _ in each_client(cluster):
        with pytest.warns(DeprecationWarning, match="list_groups") as caught:
            client.list_groups(timeout=WAIT_S)
        assert [each.filename for each in caught] == [__file__]


def test_a_closed_client_is_closed(cluster: Stage) -> None:
    for client, _, admin in each_client(cluster):
        with client as same:
            assert same is client
        uninitialized = type(
            "Uninitialized", (admin.AdminClient,), {"__init__": lambda self: None}
        )()
        for each in (client, uninitialized):
            with pytest.raises(RuntimeError, match="AdminClient has been closed"):
                each.delete_topics(["x"])
            with pytest.raises(RuntimeError, match="Handle has been closed"):
                each.list_topics(timeout=1)
            assert (len(each), bool(each)) == (0, False)
