"""Settings of topics, brokers, client metrics and groups: values, origins, checks and effects."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_native.errors import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.mock.settings import (
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
)
from kafka_native.mock.share_partitions import State
from kafka_native.protocol.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from kafka_native.protocol.share import ShareFetchRequest, ShareGroupHeartbeatRequest
from kafka_native.protocol.topics import CreateTopicsRequest
from tests.mock.test_mock_consumer_groups import GROUP as CONSUMERS
from tests.mock.test_mock_consumer_groups import Member
from tests.mock.wire import Wire, batch, produce

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)

Request = IncrementalAlterConfigsRequest


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1) as running:
        running.create_topic("a")
        yield running


def shown(wire: Wire, kind: int, name: str, *keys: str) -> dict[str, Any]:
    resource = DescribeConfigsRequest.Resource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    found = wire.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True)).results[0]
    assert found.error_code == 0
    return {each.name: each for each in found.configs}


def origins(wire: Wire, kind: int, name: str, key: str) -> list[tuple[str, str, int]]:
    found = shown(wire, kind, name, key)[key]
    return [(each.name, each.value, each.source) for each in found.synonyms]


def alter(wire: Wire, kind: int, name: str, *changes: tuple[str, int, str | None]) -> str | None:
    """Change settings. Return the error, or None."""
    configs = [
        Request.Resource.Config(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = Request.Resource(resource_type=kind, resource_name=name, configs=configs)
    answer = wire.ask(Request(resources=[resource])).responses[0]
    if not answer.error_code:
        return None
    return f"{ErrorCode(answer.error_code).name}: {answer.error_message}"


@pytest.mark.parametrize(
    ("kind", "name", "settings"),
    [
        (TOPIC, "a", TOPIC_SETTINGS),
        (BROKER, "1", BROKER_SETTINGS),
        (METRICS, "m", CLIENT_METRICS_SETTINGS),
        (GROUP, "g", GROUP_SETTINGS),
    ],
)
def test_every_setting_is_shown(kind: int, name: str, settings: Any, wire: Wire) -> None:
    found = shown(wire, kind, name)
    assert list(found) == sorted(settings)
    for key, each in found.items():
        assert each.read_only == settings[key].is_fixed
        if each.config_source == 5:
            assert each.value == settings[key].default
        if settings[key].type == "password":
            assert (each.is_sensitive, each.value) == (True, None)


def test_brokers_show_the_arguments_of_the_cluster() -> None:
    with (
        MockCluster(2, default_partitions=7, auto_create_topics=False, racks=["x"]) as cluster,
        Wire(cluster) as wire,
    ):
        found = {key: each.value for key, each in shown(wire, BROKER, "1").items()}
        expected = {
            "num.partitions": "7",
            "auto.create.topics.enable": "false",
            "default.replication.factor": "2",
            "broker.rack": "x",
            "node.id": "1",
            "advertised.listeners": f"PLAINTEXT://{cluster.address(1)}",
        }
        assert {key: found[key] for key in expected} == expected
        cluster.advertise(1, "proxy:9")
        found = {key: each.value for key, each in shown(wire, BROKER, "1").items()}
        assert found["advertised.listeners"] == "PLAINTEXT://proxy:9"
        assert found["listeners"] == f"PLAINTEXT://{cluster.address(1)}"
        assert alter(wire, BROKER, "2", ("log.cleaner.threads", SET, "2")) == (
            "INVALID_REQUEST: Unexpected broker id, expected 1, but received 2"
        )


def test_a_value_comes_from_the_first_origin_that_has_one(wire: Wire) -> None:
    def seen() -> list[tuple[str, str, int]]:
        return origins(wire, TOPIC, "a", "compression.type")

    default = ("compression.type", "producer", 5)
    assert seen() == [default]
    assert alter(wire, BROKER, "", ("compression.type", SET, "zstd")) is None
    assert seen() == [("compression.type", "zstd", 3), default]
    assert alter(wire, BROKER, "1", ("compression.type", SET, "lz4")) is None
    assert seen() == [("compression.type", "lz4", 2), ("compression.type", "zstd", 3), default]
    assert alter(wire, TOPIC, "a", ("compression.type", SET, "gzip")) is None
    assert seen()[0] == ("compression.type", "gzip", 1)
    assert set(shown(wire, BROKER, "")) == {"compression.type", "min.insync.replicas"}
    for kind, name in ((TOPIC, "a"), (BROKER, "1"), (BROKER, "")):
        assert alter(wire, kind, name, ("compression.type", DELETE, None)) is None
    assert seen() == [default]


def test_lists_grow_and_shrink(wire: Wire) -> None:
    def policy() -> str:
        return str(shown(wire, TOPIC, "a", "cleanup.policy")["cleanup.policy"].value)

    assert alter(wire, TOPIC, "a", ("cleanup.policy", APPEND, "compact")) is None
    assert policy() == "delete,compact"
    assert alter(wire, TOPIC, "a", ("cleanup.policy", SUBTRACT, "delete")) is None
    assert policy() == "compact"


@pytest.mark.parametrize(
    ("kind", "name", "key", "operation", "value", "error"),
    [
        (TOPIC, "a", "colour", SET, "red", "INVALID_CONFIG: Unknown topic config name: colour"),
        (TOPIC, "a", "retention.ms", SET, "x", "Not a number of type LONG"),
        (TOPIC, "a", "retention.ms", SET, "-2", "Value must be at least -1"),
        (TOPIC, "a", "min.cleanable.dirty.ratio", SET, "2", "Value must be no more than 1"),
        (TOPIC, "a", "segment.bytes", SET, str(1 << 31), "Not a number of type INT"),
        (TOPIC, "a", "cleanup.policy", SET, "x", "String must be one of: compact, delete"),
        (TOPIC, "a", "preallocate", SET, "x", "Expected value to be either true or false"),
        (TOPIC, "a", "retention.ms", APPEND, "1", "its type is not LIST."),
        (TOPIC, "a", "retention.ms", SET, None, "INVALID_REQUEST: Null value not supported"),
        (TOPIC, "b", "retention.ms", SET, "1", "UNKNOWN_TOPIC_OR_PART: The topic 'b'"),
        (BROKER, "1", "node.id", SET, "7", "Cannot update these configs dynamically: [node.id]"),
        (BROKER, "1", "log.retention.ms", SET, "x", "INVALID_REQUEST: Invalid value x"),
        (GROUP, "g", "colour", SET, "red", "Unknown group config name: colour"),
        (GROUP, "", "share.auto.offset.reset", SET, "latest", "INVALID_REQUEST: Default group"),
        (GROUP, "g", "consumer.session.timeout.ms", SET, "60001", "in the range 1 to 60000 "),
        (GROUP, "g", "share.delivery.count.limit", SET, "11", "in the range 2 to 10 inclusive."),
        (GROUP, "g", "streams.num.standby.replicas", SET, "3", "less than or equal to 2"),
        (GROUP, "g", "share.auto.offset.reset", SET, "by_duration:P", "or of the format"),
        (GROUP, "g", "streams.assignor.name", SET, "x", "Registered assignors are: [sticky]."),
        (METRICS, "m", "interval.ms", SET, "1", "INVALID_REQUEST: Invalid value 1 for interval.ms"),
        (METRICS, "m", "match", SET, "x", "INVALID_CONFIG: Illegal client matching pattern: x"),
        (METRICS, "m", "x", SET, "y", "INVALID_REQUEST: Unknown client metrics configuration: x"),
        (METRICS, "", "metrics", SET, "a", "INVALID_REQUEST: Subscription name can't be empty"),
        (LOGGER, "1", "root", SET, "LOUD", "INVALID_CONFIG"),
        (LOGGER, "1", "root", DELETE, None, "INVALID_REQUEST"),
        (99, "a", "x", SET, "y", "INVALID_REQUEST: Unknown resource type 99"),
    ],
)
def test_impossible_changes_are_refused(
    kind: int, name: str, key: str, operation: int, value: str | None, error: str, wire: Wire
) -> None:
    found = alter(wire, kind, name, (key, operation, value))
    assert found is not None
    assert error in found


def test_one_wrong_value_prevents_all_changes(wire: Wire) -> None:
    wrong = (("retention.ms", SET, "5"), ("preallocate", SET, "x"))
    assert alter(wire, TOPIC, "a", *wrong) is not None
    twice = (("retention.ms", SET, "5"), ("retention.ms", SET, "6"))
    assert alter(wire, TOPIC, "a", *twice) == "INVALID_REQUEST: Error due to duplicate config keys"
    assert shown(wire, TOPIC, "a", "retention.ms")["retention.ms"].config_source == 5
    config = CreateTopicsRequest.Topic.Config(name="retention.ms", value="-7")
    topic = CreateTopicsRequest.Topic(
        name="b", num_partitions=1, replication_factor=1, configs=[config]
    )
    created = wire.ask(CreateTopicsRequest(topics=[topic])).topics[0]
    assert created.error_code == ErrorCode.INVALID_CONFIG
    assert "at least -1" in created.error_message


def test_alter_configs_replaces_all_settings_of_a_group(wire: Wire) -> None:
    assert alter(wire, GROUP, "g", ("share.delivery.count.limit", SET, "3")) is None
    config = AlterConfigsRequest.Resource.Config(name="consumer.session.timeout.ms", value="9000")
    resource = AlterConfigsRequest.Resource(
        resource_type=GROUP, resource_name="g", configs=[config]
    )
    assert wire.ask(AlterConfigsRequest(resources=[resource])).responses[0].error_code == 0
    found = shown(wire, GROUP, "g")
    assert {key for key, each in found.items() if each.config_source == 8} == {
        "consumer.session.timeout.ms"
    }


def test_a_consumer_group_follows_its_own_settings(cluster: MockCluster, wire: Wire) -> None:
    member = Member(cluster, "1", "a")
    assert member.join().heartbeat_interval_ms == 500
    assert alter(wire, GROUP, CONSUMERS, ("consumer.heartbeat.interval.ms", SET, "1234")) is None
    assert alter(wire, GROUP, CONSUMERS, ("consumer.session.timeout.ms", SET, "50000")) is None
    assert member.heartbeat().heartbeat_interval_ms == 1234
    cluster.advance(46)
    assert member.heartbeat().error_code == 0
    assert alter(wire, GROUP, CONSUMERS, ("consumer.session.timeout.ms", SET, "9000")) is None
    cluster.advance(10)
    assert member.heartbeat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


class ShareMember:
    """A member of a share group that sends its requests by hand."""

    def __init__(self, cluster: MockCluster, wire: Wire, group: str) -> None:
        self.cluster, self.wire, self.group = cluster, wire, group
        self.epoch = self.session = 0

    def heartbeat(self) -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.group,
            member_epoch=self.epoch,
            subscribed_topic_names=["a"],
        )
        answer = self.wire.ask(request)
        self.epoch = answer.member_epoch
        return answer

    def fetch(self) -> tuple[int, list[tuple[int, int, int]]]:
        """Return the lock's duration, and the acquired ranges with their delivery counts."""
        topic = ShareFetchRequest.FetchTopic(
            topic_id=self.cluster.topic_id("a"),
            partitions=[ShareFetchRequest.FetchTopic.FetchPartition(partition_index=0)],
        )
        request = ShareFetchRequest(
            group_id=self.group,
            member_id=self.group,
            share_session_epoch=self.session,
            max_bytes=1 << 20,
            max_records=1000,
            batch_size=1000,
            topics=[topic],
        )
        answer = self.wire.ask(request)
        assert answer.error_code == 0
        self.session += 1
        found = [
            (each.first_offset, each.last_offset, each.delivery_count)
            for topic in answer.responses
            for part in topic.partitions
            for each in part.acquired_records
        ]
        return answer.acquisition_lock_timeout_ms, found


def share_group(cluster: MockCluster, wire: Wire, name: str, **settings: str) -> ShareMember:
    """Make a share group with settings, and return its member."""
    for key, value in settings.items():
        assert alter(wire, GROUP, name, (f"share.{key.replace('_', '.')}", SET, value)) is None
    member = ShareMember(cluster, wire, name)
    assert member.heartbeat().error_code == 0
    return member


def test_each_share_group_starts_at_its_own_offset(cluster: MockCluster, wire: Wire) -> None:
    hours = [round((time.time() - ago * 3600) * 1000) for ago in (3, 2, 1)]
    for timestamp in hours:
        assert produce(wire, "a", 0, batch(b"x", timestamp=timestamp)).error_code == 0
    starts = {"earliest": 0, "by_duration:PT2H30M": 1, "by_duration:P1DT1S": 0, "latest": 3}
    for number, (reset, start) in enumerate(starts.items()):
        share_group(cluster, wire, f"g{number}", auto_offset_reset=reset)
        assert cluster.share.start_offset(f"g{number}", "a", 0) == start


def test_a_share_group_follows_its_own_settings(cluster: MockCluster, wire: Wire) -> None:
    cluster.share.settings.auto_offset_reset = "earliest"
    assert produce(wire, "a", 0, batch(*[b"x"] * 150)).error_code == 0
    member = share_group(
        cluster,
        wire,
        "g",
        record_lock_duration_ms="20000",
        delivery_count_limit="2",
        partition_max_record_locks="100",
        session_timeout_ms="9000",
        heartbeat_interval_ms="777",
    )
    assert member.heartbeat().heartbeat_interval_ms == 777
    assert member.fetch() == (20_000, [(0, 149, 1)])
    assert member.fetch() == (20_000, [])
    cluster.advance(20)  # the locks expire
    assert cluster.share.record("g", "a", 0, 0) == (State.AVAILABLE, 1)
    assert member.heartbeat().error_code == ErrorCode.UNKNOWN_MEMBER_ID  # so does the session
    assert member.fetch() == (20_000, [(0, 149, 2)])
    cluster.advance(20)
    cluster.share.record("g", "a", 0, 0)  # notices the expired locks
    assert cluster.share.start_offset("g", "a", 0) == 150  # all are archived
    other = share_group(cluster, wire, "other")
    assert other.fetch()[0] == 30_000
