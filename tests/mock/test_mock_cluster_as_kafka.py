"""The mock cluster has the versions, settings, features and internal topics of Kafka 4.4."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from kafka_native.errors import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.protocol.configs import DescribeConfigsRequest
from kafka_native.protocol.coordinator import FindCoordinatorRequest
from kafka_native.protocol.metadata import MetadataRequest
from kafka_native.protocol.topics import CreateTopicsRequest
from kafka_native.protocol.versions import ApiVersionsRequest
from tests.broker import java
from tests.broker.support import running
from tests.mock.test_mock_settings import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    METRICS,
    SET,
    SUBTRACT,
    TOPIC,
    alter,
)
from tests.mock.wire import Wire
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.slow]
KINDS = {TOPIC: "a", BROKER: "1", METRICS: "m", GROUP: "g"}
FROM_TOPIC, FROM_DEFAULT = 1, 5
FROM_FILE = 4  # the configuration file of the real broker, which the tests write
# Brokers of these tests have them in their file. Kafka shows such names, but has no defaults.
ONLY_IN_FILE = {"super.users", "leader.imbalance.per.broker.percentage"}


class Both(NamedTuple):
    """A connection to Apache Kafka, and one to the mock cluster."""

    apache: Wire
    ours: Wire


class _Address:
    def __init__(self, address: str) -> None:
        self._address = address

    def address(self, broker: int) -> str:
        return self._address


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    if java.missing():
        pytest.skip(str(java.missing()))
    with (
        running(1) as kafka,
        MockCluster(1) as cluster,
        Wire(_Address(kafka.bootstrap)) as apache,  # type: ignore[arg-type]
        Wire(cluster) as ours,
    ):
        for wire in (apache, ours):
            topic = CreateTopicsRequest.Topic(name="a", num_partitions=1, replication_factor=1)
            request = CreateTopicsRequest(topics=[topic], timeout_ms=20_000)
            assert wire.ask(request, 7).topics[0].error_code == 0
            wait_for(lambda wire=wire: _describe(wire, TOPIC).error_code == 0)
        # Brokers of these tests have it in their file.
        assert alter(ours, BROKER, "", ("log.retention.ms", SET, "-1")) is None
        yield Both(apache, ours)


def _describe(wire: Wire, kind: int) -> Any:
    resource = DescribeConfigsRequest.Resource(
        resource_type=kind, resource_name=KINDS[kind], configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    return wire.ask(request, 4).results[0]


def _defaults(wire: Wire, kind: int) -> dict[str, tuple[Any, ...]]:
    """Return type, access and default of each setting, and the names of its origins.

    A broker's own file of settings doesn't matter.
    """
    found = {}
    for each in _describe(wire, kind).configs:
        if each.name in ONLY_IN_FILE:
            continue
        last = each.synonyms[-1] if each.synonyms else None
        default = each.value if each.config_source == FROM_DEFAULT else None
        if last is not None and last.source == FROM_DEFAULT:
            default = last.value
        names = {one.name for one in each.synonyms if one.source == FROM_DEFAULT}
        found[each.name] = (each.config_type, each.read_only, each.is_sensitive, default, names)
    return found


@pytest.mark.parametrize("kind", list(KINDS))
def test_settings_are_those_of_apache_kafka(kind: int, both: Both) -> None:
    theirs, mine = _defaults(both.apache, kind), _defaults(both.ours, kind)
    assert mine.keys() == theirs.keys()
    different = {key: (theirs[key], mine[key]) for key in theirs if theirs[key] != mine[key]}
    assert not different


CHANGES: list[tuple[int, str, int, str | None]] = [
    (TOPIC, "colour", SET, "red"),
    (TOPIC, "retention.ms", SET, "x"),
    (TOPIC, "retention.ms", SET, "-2"),
    (TOPIC, "retention.ms", SET, "5000"),
    (TOPIC, "retention.ms", APPEND, "1"),
    (TOPIC, "retention.ms", SET, None),
    (TOPIC, "retention.ms", DELETE, None),
    (TOPIC, "cleanup.policy", SET, "nothing"),
    (TOPIC, "cleanup.policy", APPEND, "compact"),
    (TOPIC, "cleanup.policy", SUBTRACT, "delete"),
    (TOPIC, "compression.type", SET, "best"),
    (TOPIC, "preallocate", SET, "maybe"),
    (TOPIC, "segment.bytes", SET, "1"),
    (TOPIC, "min.insync.replicas", SET, "0"),
    (BROKER, "node.id", SET, "7"),
    (BROKER, "num.partitions", SET, "7"),
    (BROKER, "log.retention.ms", SET, "x"),
    (BROKER, "log.cleaner.threads", SET, "2"),
    (BROKER, "a.plugin's", SET, "x"),
    (GROUP, "colour", SET, "red"),
    (GROUP, "consumer.session.timeout.ms", SET, "50000"),
    (GROUP, "consumer.heartbeat.interval.ms", SET, "x"),
    (GROUP, "consumer.assignment.interval.ms", SET, "20000"),
    (GROUP, "share.auto.offset.reset", SET, "never"),
    (GROUP, "share.auto.offset.reset", SET, "earliest"),
    (GROUP, "share.auto.offset.reset", SET, "by_duration:PT1H"),
    (GROUP, "share.auto.offset.reset", SET, "by_duration:x"),
    (GROUP, "share.isolation.level", SET, "x"),
    (GROUP, "share.isolation.level", SET, "read_committed"),
    (GROUP, "share.record.lock.duration.ms", SET, "9"),
    (GROUP, "share.record.lock.duration.ms", SET, "20000"),
    (GROUP, "share.delivery.count.limit", SET, "1"),
    (GROUP, "share.delivery.count.limit", SET, "3"),
    (GROUP, "share.delivery.count.limit", SET, "11"),
    (GROUP, "share.partition.max.record.locks", SET, "1"),
    (GROUP, "share.partition.max.record.locks", SET, "4001"),
    (GROUP, "share.renew.acknowledge.enable", SET, "x"),
    (GROUP, "streams.num.standby.replicas", SET, "1"),
    (GROUP, "streams.num.standby.replicas", SET, "3"),
    (GROUP, "streams.initial.rebalance.delay.ms", SET, "-1"),
    (GROUP, "streams.assignor.name", SET, "x"),
    (METRICS, "interval.ms", SET, "1"),
    (METRICS, "interval.ms", SET, "1000"),
    (METRICS, "metrics", APPEND, "c"),
    (METRICS, "match", SET, "x"),
    (METRICS, "match", SET, "client_id=a"),
    (METRICS, "x", SET, "y"),
]


def test_changes_are_refused_with_the_same_errors(both: Both) -> None:
    different = []
    for kind, name, operation, value in CHANGES:
        theirs, mine = (alter(each, kind, KINDS[kind], (name, operation, value)) for each in both)
        if theirs != mine:
            different.append((name, value, theirs, mine))
    assert not different


def test_changed_values_have_the_same_origins(both: Both) -> None:
    def origins(wire: Wire) -> dict[str, list[tuple[str, int]]]:
        assert alter(wire, GROUP, "g", ("streams.session.timeout.ms", SET, "50000")) is None
        assert alter(wire, TOPIC, "a", ("retention.bytes", SET, "7")) is None
        assert alter(wire, BROKER, "", ("compression.type", SET, "zstd")) is None

        def shown() -> dict[str, list[tuple[str, int]]]:
            return {
                each.name: [
                    (one.name, one.source) for one in each.synonyms if one.source != FROM_FILE
                ]
                for kind in (GROUP, TOPIC)
                for each in _describe(wire, kind).configs
                if each.name
                in ("streams.session.timeout.ms", "retention.bytes", "compression.type")
            }

        # A broker learns the settings of all brokers a little later.
        wait_for(lambda: len(shown()["compression.type"]) == 2)
        return shown()

    assert origins(both.apache) == origins(both.ours)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (TOPIC, "none"),
        (TOPIC, ""),
        (BROKER, "77"),
        (BROKER, "x"),
        (METRICS, ""),
        (GROUP, ""),
        (99, "a"),
    ],
)
def test_unknown_resources_have_the_same_errors(kind: int, name: str, both: Both) -> None:
    resource = DescribeConfigsRequest.Resource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    theirs, mine = (
        wire.ask(DescribeConfigsRequest(resources=[resource]), 4).results[0].error_code
        for wire in both
    )
    assert ErrorCode(mine).name == ErrorCode(theirs).name != "NO_ERROR"


# Brokers use 83 to 87 among themselves. 88 and 93 are those of members of streams groups.
UNSERVED = {83, 84, 85, 86, 87, 88, 93}


def test_versions_are_those_of_apache_kafka(both: Both) -> None:
    def versions(wire: Wire) -> dict[int, tuple[int, int]]:
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        found = wire.ask(request, 4).api_keys
        return {each.api_key: (each.min_version, each.max_version) for each in found}

    theirs, mine = versions(both.apache), versions(both.ours)
    assert theirs.keys() - mine.keys() <= UNSERVED
    assert mine == {key: theirs.get(key) for key in mine}


def test_features_are_those_of_apache_kafka(both: Both) -> None:
    def features(wire: Wire) -> list[dict[str, tuple[int, int]]]:
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        answer = wire.ask(request, 4)
        return [
            {one.name: (one.min_version, one.max_version) for one in answer.supported_features},
            {
                one.name: (one.min_version_level, one.max_version_level)
                for one in answer.finalized_features
            },
        ]

    assert features(both.ours) == features(both.apache)


def test_internal_topics_are_those_of_apache_kafka(both: Both) -> None:
    def internal(wire: Wire) -> dict[str, set[tuple[str, str]]]:
        share_key = f"g:{'A' * 22}:0"
        for kind, key in ((0, "g"), (1, "t"), (2, share_key)):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            wait_for(lambda r=request: wire.ask(r, 6).coordinators[0].error_code == 0)
        topics = wire.ask(MetadataRequest(topics=None), 12).topics
        return {each.name: _own_settings(wire, each.name) for each in topics if each.is_internal}

    theirs, mine = internal(both.apache), internal(both.ours)
    assert len(theirs) == 3
    assert mine == theirs


def _own_settings(wire: Wire, topic: str) -> set[tuple[str, str]]:
    """Return a topic's own settings. Brokers of these tests have another min.insync.replicas."""
    resource = DescribeConfigsRequest.Resource(
        resource_type=TOPIC, resource_name=topic, configuration_keys=None
    )
    found = wire.ask(DescribeConfigsRequest(resources=[resource]), 4).results[0]
    assert found.error_code == 0
    return {
        (each.name, "" if each.name == "min.insync.replicas" else each.value)
        for each in found.configs
        if each.config_source == FROM_TOPIC
    }
