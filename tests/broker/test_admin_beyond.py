"""AdminClient's calls beyond librdkafka, on three brokers. Kafka's Java tools check the results."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from kafka_native import (
    KafkaError,
    KafkaException,
    ThrottleEvent,
    TopicCollection,
    TopicPartition,
)
from kafka_native.admin import (
    AdminClient,
    AlterConfigOpType,
    ClientQuotaAlteration,
    ClientQuotaEntity,
    ClientQuotaFilter,
    ClientQuotaFilterComponent,
    ConfigEntry,
    ConfigResource,
    ConfigType,
    FeatureUpdate,
    NewPartitionReassignment,
    NewTopic,
    QuorumInfo,
    ResourceType,
    TopicPartitionReplica,
    UpgradeType,
)
from kafka_native.errors import ErrorCode
from kafka_native.types import Uuid
from tests.broker.cluster import Cluster, NoBroker, start
from tests.broker.java import CONFIGS, TOPICS
from tests.broker.support import (
    TopicMaker,
    admin_of,
    check_done,
    code_of,
    flush,
    our_producer,
    output_of,
    result_of,
)
from tests.waiting import WAIT_S, wait_for

Tool = Callable[..., bytes]
TOOLS = "org.apache.kafka.tools"


def filled(kafka: Cluster, topic: str, count: int = 200) -> None:
    """Produce so many messages of a kilobyte to partition 0."""
    with our_producer(kafka) as producer:
        for _ in range(count):
            producer.produce(topic, b"x" * 1000, partition=0)
        flush(producer)


def configs(tool: Tool, kafka: Cluster, *args: str) -> str:
    """Return the output of kafka-configs."""
    return output_of(tool, kafka, CONFIGS, "--describe", *args)


def log_dirs(tool: Tool, kafka: Cluster, topic: str) -> dict[int, dict[str, int]]:
    """Return kafka-log-dirs' directories of a topic and its sizes, for each broker."""
    text = output_of(tool, kafka, f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", topic)
    (line,) = [each for each in text.splitlines() if each.startswith("{")]
    return {
        broker["broker"]: {
            each["logDir"]: sum(partition["size"] for partition in each["partitions"])
            for each in broker["logDirs"]
            if each["partitions"]
        }
        for broker in json.loads(line)["brokers"]
    }


def test_reassignments(owned3: Cluster, new_topic: TopicMaker, tool: Tool, tmp_path: Any) -> None:
    topic = new_topic(owned3, 2)
    filled(owned3, topic)
    place, missing = TopicPartition(topic, 0), TopicPartition(topic, 9)
    with admin_of(owned3) as admin:
        before = result_of(admin.describe_topics(TopicCollection([topic])))
        target = [each.id for each in before.partitions[0].replicas][::-1][:2]
        done = admin.alter_partition_reassignments(
            {place: NewPartitionReassignment(target), missing: NewPartitionReassignment([1])}
        )
        assert done[place].result(WAIT_S) is None
        assert code_of(done[missing]) == KafkaError.UNKNOWN_TOPIC_OR_PART
        wait_for(
            lambda: not admin.list_partition_reassignments().result(WAIT_S), "the end of the move"
        )
        wanted = {
            "version": 1,
            "partitions": [{"topic": topic, "partition": 0, "replicas": target}],
        }
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps(wanted))
        verified = output_of(
            tool,
            owned3,
            f"{TOOLS}.reassign.ReassignPartitionsCommand",
            "--verify",
            "--reassignment-json-file",
            str(plan),
        )
        assert f"Reassignment of partition {topic}-0 is completed." in verified
        assert code_of(admin.alter_partition_reassignments({place: None})[place]) == (
            KafkaError.NO_REASSIGNMENT_IN_PROGRESS
        )
        refused = admin.alter_partition_reassignments(
            {place: NewPartitionReassignment(target[:1])}, allow_replication_factor_change=False
        )
        assert code_of(refused[place]) == KafkaError.INVALID_REPLICATION_FACTOR
        impossible = admin.alter_partition_reassignments({place: NewPartitionReassignment([1, 99])})
        assert code_of(impossible[place]) == KafkaError.INVALID_REPLICA_ASSIGNMENT


def test_a_reassignment_under_way_is_listed_and_cancelled(
    owned3: Cluster, new_topic: TopicMaker, tool: Tool
) -> None:
    topic = new_topic(owned3, 1)
    place, down = TopicPartition(topic, 0), owned3.brokers[3]
    with admin_of(owned3) as admin:
        check_done(admin.alter_partition_reassignments({place: NewPartitionReassignment([1])}))
        wait_for(
            lambda: not admin.list_partition_reassignments().result(WAIT_S), "the end of the move"
        )
        with owned3.without(down, "stop"):
            # A registered broker that is down never catches up, so the move stays in progress.
            begun = admin.alter_partition_reassignments({place: NewPartitionReassignment([1, 3])})
            check_done(begun)
            found = admin.list_partition_reassignments([place]).result(WAIT_S)[place]
            assert (set(found.replicas), found.adding_replicas, found.removing_replicas) == (
                {1, 3},
                (3,),
                (),
            )
            listed = output_of(
                tool, owned3, f"{TOOLS}.reassign.ReassignPartitionsCommand", "--list"
            )
            assert re.search(rf"{topic}-0: replicas: .*adding: 3", listed), listed
            check_done(admin.alter_partition_reassignments({place: None}))
            assert admin.list_partition_reassignments().result(WAIT_S) == {}
            assert "No partition reassignments found" in output_of(
                tool, owned3, f"{TOOLS}.reassign.ReassignPartitionsCommand", "--list"
            )


def test_quotas(owned3: Cluster, new_topic: TopicMaker, tool: Tool) -> None:
    topic, name = new_topic(owned3, 1), f"client-{uuid.uuid4().hex[:8]}"
    client, both = (
        ClientQuotaEntity({"client-id": name}),
        ClientQuotaEntity({"user": name, "client-id": None}),
    )
    mine = ClientQuotaFilter.contains_only(
        [ClientQuotaFilterComponent.of_entity("client-id", name)]
    )
    with admin_of(owned3) as admin:
        set_it = ClientQuotaAlteration(
            client, {"producer_byte_rate": 20_000, "request_percentage": 75.5}
        )
        check_done(admin.alter_client_quotas([set_it], validate_only=True))
        assert admin.describe_client_quotas(mine).result(WAIT_S) == {}
        bad = ClientQuotaAlteration(ClientQuotaEntity({"user": name}), {"bogus": 1})
        done = admin.alter_client_quotas(
            [set_it, ClientQuotaAlteration(both, {"consumer_byte_rate": 5e6}), bad]
        )
        assert [done[each].result(WAIT_S) for each in (client, both)] == [None, None]
        assert code_of(done[bad.entity]) == KafkaError.INVALID_REQUEST
        kept = {"producer_byte_rate": 20_000.0, "request_percentage": 75.5}
        wait_for(
            lambda: admin.describe_client_quotas(mine).result(WAIT_S) == {client: kept},
            "the quotas",
        )
        text = configs(tool, owned3, "--entity-type", "clients", "--entity-name", name)
        assert "producer_byte_rate=20000.0" in text
        assert "request_percentage=75.5" in text
        text = configs(
            tool,
            owned3,
            "--entity-type",
            "users",
            "--entity-name",
            name,
            "--entity-type",
            "clients",
            "--entity-default",
        )
        assert "consumer_byte_rate=5000000.0" in text

        events: list[ThrottleEvent] = []
        with our_producer(
            owned3, client_id=name, linger_ms=0, throttle_cb=events.append
        ) as producer:
            deadline_for = "a throttled producer"

            def throttled() -> bool:
                for _ in range(20):
                    producer.produce(topic, b"x" * 1000)
                producer.poll(0.1)
                return bool(events)

            wait_for(throttled, deadline_for)
            producer.purge()
        changes = [
            ClientQuotaAlteration(each, dict.fromkeys(keys))
            for each, keys in {client: kept, both: ["consumer_byte_rate"]}.items()
        ]
        assert [each.result(WAIT_S) for each in admin.alter_client_quotas(changes).values()] == [
            None,
            None,
        ]
        wait_for(lambda: not admin.describe_client_quotas(mine).result(WAIT_S), "no quotas")
        assert name not in configs(
            tool, owned3, "--entity-type", "clients", "--entity-name", name
        ).replace(f"'{name}'", "")


def test_log_dirs(owned3: Cluster, new_topic: TopicMaker, tool: Tool) -> None:
    topic = new_topic(owned3, 1)
    filled(owned3, topic)
    place = TopicPartition(topic, 0)
    with admin_of(owned3) as admin:

        def sizes() -> dict[int, dict[str, int]]:
            futures = admin.describe_log_dirs([1, 2, 3])
            return {
                broker: {
                    path: found.replica_infos[place].size
                    for path, found in future.result(WAIT_S).items()
                    if place in found.replica_infos
                }
                for broker, future in futures.items()
            }

        wait_for(
            lambda: all(min(each.values(), default=0) > 200_000 for each in sizes().values()),
            "all replicas",
        )
        found = sizes()
        assert found == log_dirs(tool, owned3, topic)
        ((path, description),) = admin.describe_log_dirs([1])[1].result(WAIT_S).items()
        assert 0 < description.usable_bytes < description.total_bytes
        assert (description.error, description.is_cordoned) == (None, False)
        here, there = TopicPartitionReplica(topic, 0, 1), TopicPartitionReplica(topic, 0, 2)
        moved = admin.alter_replica_log_dirs({here: path, there: "/nowhere"})
        assert moved[here].result(WAIT_S) is None, "it is there already"
        assert code_of(moved[there]) == KafkaError.LOG_DIR_NOT_FOUND
        nowhere = TopicPartitionReplica(f"{topic}-later", 0, 1)
        assert (
            code_of(admin.alter_replica_log_dirs({nowhere: path})[nowhere])
            == KafkaError.UNKNOWN_TOPIC_OR_PART
        )
        check_done(admin.alter_partition_reassignments({place: NewPartitionReassignment([1, 2])}))
        wait_for(lambda: not sizes()[3], "a broker without it")
        later = TopicPartitionReplica(topic, 0, 3)
        (path,) = admin.describe_log_dirs([3])[3].result(WAIT_S)
        assert (
            code_of(admin.alter_replica_log_dirs({later: path})[later])
            == KafkaError.REPLICA_NOT_AVAILABLE
        )


def test_features(owned3: Cluster, tool: Tool) -> None:
    name = "transaction.version"
    with admin_of(owned3) as admin:
        before = admin.describe_features(broker=2).result(WAIT_S)
        assert before.supported_features[name].max_version >= 2
        found = levels(tool, owned3)
        ours = {
            each: str(level.max_version_level) for each, level in before.finalized_features.items()
        }
        assert {
            each: level
            for each, level in found.items()
            if level != "0" and "." in each and "-" not in level
        } == {each: level for each, level in ours.items() if each != "metadata.version"}
        assert (
            code_of(admin.update_features({name: FeatureUpdate(99)})[name])
            == KafkaError.INVALID_UPDATE_VERSION
        )
        down = {name: FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE)}
        check_done(admin.update_features(down, validate_only=True))
        assert (
            admin.describe_features().result(WAIT_S).finalized_features[name].max_version_level == 2
        )
        both = {**down, "bogus.version": FeatureUpdate(1)}
        assert [code_of(each) for each in admin.update_features(both).values()] == [
            KafkaError.INVALID_UPDATE_VERSION
        ] * 2
        check_done(admin.update_features(down))
        try:
            wait_for(lambda: levels(tool, owned3)[name] == "1", "the level by kafka-features")
            after = wait_for(lambda: at_level(admin, name, 1), "the level")
            assert after.finalized_features_epoch > before.finalized_features_epoch
        finally:
            check_done(admin.update_features({name: FeatureUpdate(2)}))
        wait_for(lambda: at_level(admin, name, 2), "the level of before")


def at_level(admin: AdminClient, name: str, level: int) -> Any:
    """Return the features, once every broker has this one at a level."""
    features = [admin.describe_features(broker=broker).result(WAIT_S) for broker in (1, 2, 3)]
    return (
        features[0]
        if all(each.finalized_features[name].max_version_level == level for each in features)
        else None
    )


def levels(tool: Tool, kafka: Cluster) -> dict[str, str]:
    """Return the level of each feature, from kafka-features."""
    text = output_of(tool, kafka, f"{TOOLS}.FeatureCommand", "describe")
    return dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)", text))


def test_the_quorum(owned3: Cluster, tool: Tool) -> None:
    with admin_of(owned3) as admin:

        def reported_in_one_epoch() -> tuple[QuorumInfo, dict[str, str]] | None:
            found = admin.describe_metadata_quorum().result(WAIT_S)
            text = output_of(tool, owned3, f"{TOOLS}.MetadataQuorumCommand", "describe", "--status")
            after = admin.describe_metadata_quorum().result(WAIT_S)
            status = dict(re.findall(r"(\w+):\s+(.*)", text))
            return (found, status) if found.leader_epoch == after.leader_epoch else None

        found, status = wait_for(reported_in_one_epoch, "a leader that stays for so long")
        assert sorted(each.replica_id for each in found.voters) == [1, 2, 3]
        assert (found.observers, sorted(found.nodes)) == ((), [1, 2, 3])
        assert (int(status["LeaderId"]), int(status["LeaderEpoch"])) == (
            found.leader_id,
            found.leader_epoch,
        )
        assert 0 < found.high_watermark <= int(status["HighWatermark"])
        leader = next(each for each in found.voters if each.replica_id == found.leader_id)
        follower = next(each for each in found.voters if each.replica_id != found.leader_id)
        assert (
            leader.log_end_offset >= found.high_watermark,
            follower.last_fetch_timestamp > 0,
        ) == (True, True)
        # These brokers have a fixed quorum (kraft.version 0), which can't be changed.
        directory = Uuid(1, 2)
        endpoints = list(found.nodes[1].endpoints)
        for future in (
            admin.remove_raft_voter(3, directory),
            admin.add_raft_voter(4, directory, endpoints),
        ):
            assert code_of(future) in (KafkaError.UNSUPPORTED_VERSION, ErrorCode.VOTER_NOT_FOUND)
        other = admin.add_raft_voter(4, directory, endpoints, cluster_id="another")
        assert code_of(other) == ErrorCode.INCONSISTENT_CLUSTER_ID


@pytest.mark.slow
@pytest.mark.broker
def test_voters_come_and_go(tool: Tool) -> None:
    try:
        own = start(2)
    except NoBroker as reason:
        pytest.skip(f"no Apache Kafka: {reason}")
    try:
        if not own.brokers:
            pytest.skip(f"the voters of {own.kind} stay as they are")
        with admin_of(own) as admin:
            # They begin with voters from their configuration (kraft.version 0), which can't change.
            wait_for(lambda: voters_may_change(admin), "voters that can change")
            before = admin.describe_metadata_quorum().result(WAIT_S)
            gone = next(each for each in before.voters if each.replica_id != before.leader_id)
            assert gone.replica_directory_id is not None
            voter = (gone.replica_id, gone.replica_directory_id)
            cluster_id = admin.cluster_id(WAIT_S)
            assert admin.remove_raft_voter(*voter, cluster_id=cluster_id).result(WAIT_S) is None
            wait_for(lambda: voters(tool, own) == {before.leader_id}, "one voter")
            after = admin.describe_metadata_quorum().result(WAIT_S)
            assert [each.replica_id for each in after.observers] == [gone.replica_id]
            assert code_of(admin.remove_raft_voter(*voter)) == ErrorCode.VOTER_NOT_FOUND
            endpoints = list(before.nodes[gone.replica_id].endpoints)
            assert admin.add_raft_voter(*voter, endpoints).result(WAIT_S) is None
            wait_for(lambda: voters(tool, own) == {1, 2}, "two voters")
            assert code_of(admin.add_raft_voter(*voter, endpoints)) == ErrorCode.DUPLICATE_VOTER
    finally:
        own.close()


def voters_may_change(admin: AdminClient) -> bool:
    """Return whether kraft.version is 1 now."""
    [future] = admin.update_features({"kraft.version": FeatureUpdate(1)}).values()
    error = future.exception(WAIT_S)
    assert error is None or error.args[0].code() == ErrorCode.INVALID_UPDATE_VERSION, error
    return error is None


def voters(tool: Tool, kafka: Cluster) -> set[int]:
    """Return the voters, from kafka-metadata-quorum."""
    text = output_of(tool, kafka, f"{TOOLS}.MetadataQuorumCommand", "describe", "--replication")
    return {
        int(line.split()[0])
        for line in text.splitlines()
        if line.split()[-1:] in (["Leader"], ["Follower"])
    }


def test_log_levels_and_client_metrics(owned3: Cluster, new_topic: TopicMaker, tool: Tool) -> None:
    topic, name, logger = (
        new_topic(owned3, 1),
        f"watched-{uuid.uuid4().hex[:8]}",
        "kafka.request.logger",
    )
    levels, metrics = ConfigResource("broker_logger", "2"), ConfigResource("client_metrics", name)
    set_it, delete_it = AlterConfigOpType.SET, AlterConfigOpType.DELETE

    def change(
        resource: ConfigResource, setting: str, value: str | None, kind: AlterConfigOpType
    ) -> ConfigResource:
        entry = ConfigEntry(setting, value, incremental_operation=kind)
        return ConfigResource(resource.restype, resource.name, incremental_configs=[entry])

    with admin_of(owned3) as admin:
        before = result_of(admin.describe_configs([levels]))[logger].value
        check_done(admin.incremental_alter_configs([change(levels, logger, "DEBUG", set_it)]))
        assert result_of(admin.describe_configs([levels]))[logger].value == "DEBUG"
        text = configs(tool, owned3, "--entity-type", "broker-loggers", "--entity-name", "2")
        assert f"{logger}=DEBUG" in text
        wrong = admin.incremental_alter_configs([change(levels, logger, "LOUD", set_it)])
        assert code_of(wrong[levels]) == KafkaError.INVALID_CONFIG
        check_done(admin.incremental_alter_configs([change(levels, logger, None, delete_it)]))
        assert result_of(admin.describe_configs([levels]))[logger].value == before

        check_done(
            admin.incremental_alter_configs([change(metrics, "interval.ms", "5000", set_it)])
        )
        kinds = {ResourceType.CLIENT_METRICS, ResourceType.TOPIC, ResourceType.BROKER}
        listed = wait_for(lambda: with_resource(admin, kinds, metrics), "the resource")
        assert {ConfigResource("topic", topic), ConfigResource("broker", "3")} <= set(listed)
        assert admin.list_config_resources().result(WAIT_S)
        assert result_of(admin.describe_configs([metrics]))["interval.ms"].value == "5000"
        assert "interval.ms=5000" in configs(
            tool, owned3, "--entity-type", "client-metrics", "--entity-name", name
        )
        check_done(
            admin.incremental_alter_configs([change(metrics, "interval.ms", None, delete_it)])
        )

        resource = ConfigResource("topic", topic)
        found = result_of(admin.describe_configs([resource], include_documentation=True))[
            "retention.ms"
        ]
        assert (found.config_type, "retain a log" in found.documentation) == (ConfigType.LONG, True)


def with_resource(admin: AdminClient, kinds: set[ResourceType], wanted: ConfigResource) -> Any:
    """Return the resources with settings, once they include this one."""
    found = admin.list_config_resources(kinds).result(WAIT_S)
    return found if wanted in found else None


def test_pages_and_created_topics(owned3: Cluster, new_topic: TopicMaker, tool: Tool) -> None:
    topics = sorted(new_topic(owned3, count) for count in (5, 1, 3))
    with admin_of(owned3) as admin:
        pages = list(
            admin.describe_topic_partitions(
                TopicCollection([*topics, "zz-never-was"]), partition_limit=4
            )
        )
        assert len(pages) >= 3
        found: dict[str, list[int]] = {}
        for page in pages:
            assert sum(len(each.partitions) for each in page.topics) <= 4
            for each in page.topics:
                found.setdefault(each.name, []).extend(
                    partition.id for partition in each.partitions
                )
        assert sum(map(len, found.values())) == 9
        assert found["zz-never-was"] == []
        text = output_of(tool, owned3, TOPICS, "--describe", "--topic", topics[0])
        first = next(
            each for page in pages for each in page.topics if each.name == topics[0]
        ).partitions[0]
        line = re.search(r"Partition: 0\s+Leader: (\d)\s+Replicas: (\S+)\s+Isr: (\S+)", text)
        assert line is not None
        assert (str(first.leader), ",".join(map(str, first.replicas))) == (line[1], line[2])
        assert set(map(str, first.isr)) == set(line[3].split(","))
        assert first.eligible_leader_replicas is not None
        every = [
            each.name
            for page in admin.describe_topic_partitions(partition_limit=4)
            for each in page.topics
        ]
        assert set(topics) <= set(every)

        name = f"made-{uuid.uuid4().hex[:8]}"
        made = admin.create_topics(
            [NewTopic(name, 3, config={"retention.ms": "77000"})], include_metadata=True
        )
        reported_of = result_of(made)
        assert (reported_of.error, reported_of.num_partitions, reported_of.replication_factor) == (
            None,
            3,
            3,
        )
        assert reported_of.config["retention.ms"].value == "77000"
        described = wait_for(lambda: known(admin, name), "the topic")
        assert described.topic_id == reported_of.topic_id
        check_done(admin.delete_topics([name]))


def known(admin: AdminClient, name: str) -> Any:
    """Return a topic's description once there is one."""
    future = admin.describe_topics(TopicCollection([name]))[name]
    return None if future.exception(WAIT_S) else future.result()


def test_a_controller_is_unregistered(owned3: Cluster, tool: Tool) -> None:
    with admin_of(owned3) as admin:
        refused = admin.unregister_controller(77).exception(WAIT_S)
        assert isinstance(refused, KafkaException)
        assert refused.args[0] == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
        assert "77" in refused.args[0].str(), "the broker's own text"
        with owned3.without(owned3.brokers[2], "stop"):
            command = ["unregister-controller", "--bootstrap-server", owned3.bootstrap, "--id"]
            tool("org.apache.kafka.tools.ClusterTool", *command, "2")
            gone = admin.unregister_controller(2)
            assert code_of(gone) == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
        wait_for(
            lambda: admin.unregister_controller(2).exception(WAIT_S) is None,
            "the controller that has registered again",
        )


def test_a_broker_is_unregistered(owned3: Cluster, tool: Tool) -> None:
    down = owned3.brokers[2]
    with admin_of(owned3) as admin:
        assert code_of(admin.unregister_broker(77)) == ErrorCode.BROKER_ID_NOT_REGISTERED
        with owned3.without(down, "stop"):
            wait_for(
                lambda: len(admin.describe_cluster().result(WAIT_S).nodes) == 2, "a broker less"
            )
            assert admin.unregister_broker(2).result(WAIT_S) is None
            assert code_of(admin.unregister_broker(2)) == ErrorCode.BROKER_ID_NOT_REGISTERED
            command = [
                "list-endpoints",
                "--bootstrap-server",
                owned3.bootstrap,
                "--include-fenced-brokers",
            ]
            text = tool("org.apache.kafka.tools.ClusterTool", *command).decode()
            assert re.findall(r"^(\d+)\s", text, re.MULTILINE) == ["1", "3"], text
        assert [each.id for each in admin.describe_cluster().result(WAIT_S).nodes].count(2) == 1
