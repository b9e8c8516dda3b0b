"""AdminClient on three brokers. Kafka's Java tools and confluent_kafka check the results."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

from kafka_native import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    ElectionType,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from kafka_native.admin import (
    AclBinding,
    AclBindingFilter,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitionReassignment,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ReplicaLogDirInfo,
    ScramCredentialInfo,
    ScramMechanism,
    TopicPartitionReplica,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from tests.broker.cluster import Cluster
from tests.broker.java import ACLS, CONFIGS, GROUPS, OFFSETS, TOPICS
from tests.broker.support import (
    TopicMaker,
    admin_of,
    check_done,
    flush,
    our_consumer,
    our_producer,
    output_of,
    result_of,
)
from tests.waiting import WAIT_S, wait_for

Tool = Callable[..., bytes]


def settings(cluster: Cluster, topic: str) -> dict[str, str | None]:
    """Return a topic's settings, from confluent_kafka."""
    admin = cluster.admin()
    resource = confluent_kafka.admin.ConfigResource("topic", topic)
    return {
        name: entry.value for name, entry in result_of(admin.describe_configs([resource])).items()
    }


def test_topics(kafka3: Cluster, tool: Tool) -> None:
    name = f"admin-{uuid.uuid4().hex[:8]}"
    theirs = kafka3.admin()
    with admin_of(kafka3) as admin:
        tried = admin.create_topics([NewTopic(name, 2, 1)], validate_only=True)
        check_done(tried)
        made = admin.create_topics(
            [NewTopic(name, 2, 1, config={"retention.ms": "77000"}), NewTopic("a b", 1)]
        )
        assert made[name].result(WAIT_S) is None
        with pytest.raises(KafkaException) as refused:
            made["a b"].result(WAIT_S)
        assert refused.value.args[0].code() == KafkaError.TOPIC_EXCEPTION
        wait_for(
            lambda: len(theirs.list_topics(name, timeout=10).topics[name].partitions) == 2,
            "the topic",
        )
        said = output_of(tool, kafka3, TOPICS, "--describe", "--topic", name)
        assert re.search(r"PartitionCount: 2\s+ReplicationFactor: 1\s.*retention\.ms=77000", said)
        check_done(admin.create_partitions([NewPartitions(name, 3)]))
        wait_for(
            lambda: len(theirs.list_topics(name, timeout=10).topics[name].partitions) == 3,
            "its partitions",
        )

        resource = ConfigResource("topic", name)
        set_it = ConfigEntry("retention.ms", "88000", incremental_operation=AlterConfigOpType.SET)
        add_it = ConfigEntry(
            "cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND
        )
        resource.add_incremental_config(set_it)
        resource.add_incremental_config(add_it)
        check_done(admin.incremental_alter_configs([resource]))
        wait_for(lambda: settings(kafka3, name)["retention.ms"] == "88000", "the setting")
        said = output_of(tool, kafka3, TOPICS, "--describe", "--topic", name)
        assert re.search(r"PartitionCount: 3\s.*retention\.ms=88000", said)
        assert re.search(r"cleanup\.policy=(delete,compact|compact,delete)", said)
        found = result_of(admin.describe_configs([ConfigResource("topic", name)]))
        assert (found["retention.ms"].value, found["retention.ms"].is_default) == ("88000", False)
        assert set((found["cleanup.policy"].value or "").split(",")) == {"delete", "compact"}

        described = result_of(
            admin.describe_topics(TopicCollection([name]), include_authorized_operations=True)
        )
        assert [each.id for each in described.partitions] == [0, 1, 2]
        assert described.authorized_operations
        cluster = admin.describe_cluster().result(WAIT_S)
        assert cluster.cluster_id == theirs.list_topics(timeout=10).cluster_id
        broker = ConfigResource("broker", str(cluster.nodes[0].id))
        assert result_of(admin.describe_configs([broker]))["log.dirs"].value

        check_done(admin.delete_topics([name]))
        wait_for(lambda: name not in theirs.list_topics(timeout=10).topics, "the end of the topic")
        assert name not in output_of(tool, kafka3, TOPICS, "--list").split()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_offsets_and_records(
    kafka3: Cluster, new_topic: TopicMaker, tool: Tool, protocol: str
) -> None:
    topic, group = new_topic(kafka3, 2), f"admin-{uuid.uuid4().hex[:8]}"
    with our_producer(kafka3) as producer:
        for number in range(10):
            producer.produce(topic, str(number), partition=0, timestamp=1_000_000 + number)
        flush(producer)
    place = TopicPartition(topic, 0)
    with admin_of(kafka3) as admin:
        with our_consumer(
            kafka3, group_id=group, group_protocol=protocol, enable_auto_commit=False
        ) as consumer:
            consumer.subscribe([topic])
            deadline = time.monotonic() + WAIT_S
            while len(consumer.assignment()) < 2 or consumer.poll(0.2) is None:
                assert time.monotonic() < deadline
            consumer.commit(offsets=[TopicPartition(topic, 0, 6)], asynchronous=False)
            described = wait_for(lambda: stable(admin, group), "a stable group")
            assert described.type is ConsumerGroupType[protocol.upper()]
            (member,) = described.members
            assert member.member_id == consumer.memberid()
            assert member.assignment.topic_partitions == [place, TopicPartition(topic, 1)]
        listed = admin.list_consumer_groups().result(WAIT_S)
        assert group in {each.group_id for each in listed.valid}
        assert group in {each.id for each in admin.list_groups(timeout=WAIT_S)}
        committed = result_of(
            admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        )
        assert [(each, each.offset) for each in committed.topic_partitions] == [(place, 6)]

        wait_for(lambda: empty(admin, group), "an empty group")
        moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 8)])
        assert [
            each.error
            for each in result_of(admin.alter_consumer_group_offsets([moved])).topic_partitions
        ] == [None]
        committed = result_of(
            admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        )
        assert [each.offset for each in committed.topic_partitions] == [8]
        lines = [
            line.split()
            for line in output_of(tool, kafka3, GROUPS, "--describe", "--group", group).splitlines()
        ]
        assert [line[3:6] for line in lines if line[:3] == [group, topic, "0"]] == [
            ["8", "10", "2"]
        ]

        assert result_of(admin.list_offsets({place: OffsetSpec.latest()})).offset == 10
        assert (
            result_of(admin.list_offsets({place: OffsetSpec.for_timestamp(1_000_003)})).offset == 3
        )
        newest = result_of(admin.list_offsets({place: OffsetSpec.max_timestamp()}))
        assert (newest.offset, newest.timestamp) == (9, 1_000_009)
        assert result_of(admin.delete_records([TopicPartition(topic, 0, 4)])).low_watermark == 4
        assert result_of(admin.list_offsets({place: OffsetSpec.earliest()})).offset == 4
        earliest = ("--topic-partitions", f"{topic}:0", "--time", "earliest")
        assert output_of(tool, kafka3, OFFSETS, *earliest).split() == [f"{topic}:0:4"]

        check_done(admin.delete_consumer_groups([group]))
        assert group not in {
            each.group_id for each in admin.list_consumer_groups().result(WAIT_S).valid
        }
        assert result_of(admin.describe_consumer_groups([group])).state is ConsumerGroupState.DEAD
        assert group not in output_of(tool, kafka3, GROUPS, "--list").split()


def empty(admin: AdminClient, group: str) -> bool:
    """Return whether a group has no members any more."""
    return bool(
        result_of(admin.describe_consumer_groups([group])).state is ConsumerGroupState.EMPTY
    )


def stable(admin: AdminClient, group: str) -> Any:
    """Return a group's description once it is stable."""
    described = result_of(admin.describe_consumer_groups([group]))
    return described if described.state is ConsumerGroupState.STABLE and described.members else None


def acl_names(acls: Any) -> set[tuple[str, ...]]:
    """Return the ACLs of either library, in one form."""
    return {
        (each.restype.name, each.name, each.resource_pattern_type.name, each.principal)
        for each in acls
    }


def test_permissions(kafka3: Cluster, tool: Tool) -> None:
    name = f"acl-{uuid.uuid4().hex[:8]}"
    theirs = kafka3.admin()
    with admin_of(kafka3) as admin:
        literal = AclBinding("topic", name, "literal", f"User:{name}", "*", "read", "allow")
        prefixed = AclBinding("group", name, "prefixed", f"User:{name}", "10.0.0.1", "all", "deny")
        ours = AclBindingFilter("any", None, "any", f"User:{name}", None, "any", "any")
        made = admin.create_acls([literal, prefixed])
        try:
            assert [future.result(WAIT_S) for future in made.values()] == [None, None]
        except KafkaException as error:
            if error.args[0].code() == KafkaError.SECURITY_DISABLED:
                pytest.skip(f"{kafka3.kind} has no authorizer")
            raise
        wait_for(lambda: len(admin.describe_acls(ours).result(WAIT_S)) == 2, "the permissions")
        assert sorted(admin.describe_acls(ours).result(WAIT_S)) == sorted([literal, prefixed])
        their_filter = confluent_kafka.admin.AclBindingFilter(
            confluent_kafka.admin.ResourceType.ANY,
            None,
            confluent_kafka.admin.ResourcePatternType.ANY,
            f"User:{name}",
            None,
            confluent_kafka.admin.AclOperation.ANY,
            confluent_kafka.admin.AclPermissionType.ANY,
        )
        found = theirs.describe_acls(their_filter).result(WAIT_S)
        assert acl_names(found) == acl_names([literal, prefixed])
        said = output_of(tool, kafka3, ACLS, "--list", "--principal", f"User:{name}")
        assert f"resourceType=TOPIC, name={name}, patternType=LITERAL" in said
        assert f"(principal=User:{name}, host=*, operation=READ, permissionType=ALLOW)" in said
        assert f"resourceType=GROUP, name={name}, patternType=PREFIXED" in said
        assert f"(principal=User:{name}, host=10.0.0.1, operation=ALL, permissionType=DENY)" in said

        matching = AclBindingFilter("group", f"{name}-and-more", "match", None, None, "any", "any")
        gone = admin.delete_acls(
            [matching, AclBindingFilter("topic", name, "literal", None, None, "any", "any")]
        )
        assert [future.result(WAIT_S) for future in gone.values()] == [[prefixed], [literal]]
        wait_for(lambda: not theirs.describe_acls(their_filter).result(WAIT_S), "no permissions")
        assert "resourceType" not in output_of(
            tool, kafka3, ACLS, "--list", "--principal", f"User:{name}"
        )


def test_users(kafka3: Cluster, tool: Tool) -> None:
    name = f"user-{uuid.uuid4().hex[:8]}"
    theirs = kafka3.admin()
    with admin_of(kafka3) as admin:
        mechanisms = {ScramMechanism.SCRAM_SHA_256: 4096, ScramMechanism.SCRAM_SHA_512: 8192}
        changes = [
            UserScramCredentialUpsertion(
                name, ScramCredentialInfo(mechanism, iterations), b"no secret"
            )
            for mechanism, iterations in mechanisms.items()
        ]
        with pytest.raises(KafkaException) as twice:
            result_of(admin.alter_user_scram_credentials([*changes]))
        assert twice.value.args[0].code() == KafkaError.DUPLICATE_RESOURCE
        for change in changes:
            check_done(admin.alter_user_scram_credentials([change]))

        def complete() -> bool:
            future = theirs.describe_user_scram_credentials([name])[name]
            if future.exception(WAIT_S) is not None:
                return False
            infos = future.result().scram_credential_infos
            return {each.mechanism.name: each.iterations for each in infos} == {
                mechanism.name: iterations for mechanism, iterations in mechanisms.items()
            }

        wait_for(complete, "the credentials")
        of_user = ("--describe", "--entity-type", "users", "--entity-name", name)
        said = output_of(tool, kafka3, CONFIGS, *of_user)
        assert "SCRAM-SHA-256=iterations=4096" in said
        assert "SCRAM-SHA-512=iterations=8192" in said
        described = result_of(admin.describe_user_scram_credentials([name]))
        assert {
            each.mechanism: each.iterations for each in described.scram_credential_infos
        } == mechanisms
        assert name in admin.describe_user_scram_credentials().result(WAIT_S)
        too_weak = UserScramCredentialUpsertion(
            name, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 5), b"x"
        )
        with pytest.raises(KafkaException) as refused:
            result_of(admin.alter_user_scram_credentials([too_weak]))
        assert refused.value.args[0].code() == KafkaError.UNACCEPTABLE_CREDENTIAL
        for mechanism in mechanisms:
            check_done(
                admin.alter_user_scram_credentials([UserScramCredentialDeletion(name, mechanism)])
            )
        wait_for(
            lambda: name not in admin.describe_user_scram_credentials().result(WAIT_S),
            "no such user",
        )
        assert "SCRAM-SHA" not in output_of(tool, kafka3, CONFIGS, *of_user)


@pytest.mark.filterwarnings("ignore:alter_configs:DeprecationWarning")
def test_settings_replaced(kafka3: Cluster, new_topic: TopicMaker, tool: Tool) -> None:
    topic = new_topic(kafka3, 1)
    with admin_of(kafka3) as admin:
        for setting, value in (("cleanup.policy", "compact"), ("retention.ms", "99000")):
            check_done(
                admin.alter_configs([ConfigResource("topic", topic, set_config={setting: value})])
            )
            wait_for(lambda: settings(kafka3, topic)[setting] == value, "the setting")  # noqa: B023 - at once
        said = output_of(
            tool, kafka3, CONFIGS, "--describe", "--entity-type", "topics", "--entity-name", topic
        )
        assert "retention.ms=99000" in said
        assert "cleanup.policy" not in said, "the second change has taken back the first"


def test_replicas_are_found_and_an_oversized_name_fails_alone(
    kafka3: Cluster, new_topic: TopicMaker
) -> None:
    topic = new_topic(kafka3, 1)
    here, nowhere = TopicPartitionReplica(topic, 0, 1), TopicPartitionReplica(topic, 5, 1)
    too_long = "x" * 0x8000
    with admin_of(kafka3) as admin:
        directories = admin.describe_log_dirs([1])[1].result(WAIT_S)
        (path,) = [
            path
            for path, each in directories.items()
            if TopicPartition(topic, 0) in each.replica_infos
        ]
        found = admin.describe_replica_log_dirs([here, nowhere])
        assert found[here].result(WAIT_S) == ReplicaLogDirInfo(path, 0, None, -1)
        assert found[nowhere].result(WAIT_S) == ReplicaLogDirInfo(None, -1, None, -1)
        nodes = admin.describe_cluster(include_fenced_brokers=True).result(WAIT_S).nodes
        assert sorted((each.id, each.is_fenced) for each in nodes) == [
            (1, False),
            (2, False),
            (3, False),
        ]
        # A broker closes the connection for such a name, and executes nothing of the request.
        described = admin.describe_topics(TopicCollection([topic, too_long]))
        assert described[topic].result(WAIT_S).name == topic
        with pytest.raises(KafkaException, match="too long") as error:
            described[too_long].result(WAIT_S)
        assert error.value.args[0].code() == KafkaError._INVALID_ARG


def test_elections(kafka3: Cluster, new_topic: TopicMaker, tool: Tool) -> None:
    topic = new_topic(kafka3, 2)
    places = [TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition("nowhere", 0)]
    with admin_of(kafka3) as admin:
        found = admin.elect_leaders(ElectionType.PREFERRED, places).result(WAIT_S)
        codes = {
            (each.topic, each.partition): error and error.code() for each, error in found.items()
        }
        assert codes == {
            (topic, 0): KafkaError.ELECTION_NOT_NEEDED,
            (topic, 1): KafkaError.ELECTION_NOT_NEEDED,
            ("nowhere", 0): KafkaError.UNKNOWN_TOPIC_OR_PART,
        }
        assert admin.elect_leaders(ElectionType.UNCLEAN).result(WAIT_S) == {}, (
            "no partition needs one"
        )

        def elected() -> int | None:
            """Return the elected leader, or None if the cluster moved it by itself."""
            now, replicas = placed(admin, topic)
            preferred = next(each for each in replicas if each != now)
            order = (preferred, *(each for each in replicas if each != preferred))
            change = {places[0]: NewPartitionReassignment(order)}
            check_done(admin.alter_partition_reassignments(change))
            wait_for(lambda: placed(admin, topic)[1] == order, "another order of replicas")
            found = admin.elect_leaders(ElectionType.PREFERRED, places[:1]).result(WAIT_S)
            return preferred if found == {places[0]: None} else None

        leader = wait_for(elected, "an election that was needed")
        line = rf"Partition: 0\s+Leader: {leader}\s"
        wait_for(
            lambda: re.search(
                line, output_of(tool, kafka3, TOPICS, "--describe", "--topic", topic)
            ),
            "the new leader",
        )
        assert admin.cluster_id(WAIT_S) == kafka3.admin().cluster_id()


def placed(admin: AdminClient, topic: str) -> tuple[int, tuple[int, ...]]:
    """Return the leader and the replicas of a topic's first partition."""
    first = result_of(admin.describe_topics(TopicCollection([topic]))).partitions[0]
    return first.leader.id if first.leader else -1, tuple(each.id for each in first.replicas)
