"""A topic is deleted and recreated while it is read. The new one is read from its beginning."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_native import KafkaError, KafkaException, Message, TopicPartition
from kafka_native.mock import MockCluster
from kafka_native.mock.membership import Committed
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S

from .support import Client, assigned, fill, raises_code

WAYS = {
    "by hand": {},
    "eager": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
VERSIONS: dict[str, dict[int, int]] = {
    "offsets by id": {},
    "offsets by name": {ApiKey.OFFSET_COMMIT: 9, ApiKey.OFFSET_FETCH: 9},
}
FETCHED_BY_NAME = {ApiKey.OFFSET_COMMIT: 9, ApiKey.OFFSET_FETCH: 9, ApiKey.FETCH: 12}
"""The versions of Apache Kafka before 3.1. Since 2.8 metadata contain topic ids."""


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda name: name.replace(" ", "_"))
def cluster(request: pytest.FixtureRequest) -> Iterator[MockCluster]:
    with MockCluster(brokers=2, max_versions=VERSIONS[request.param]) as running:
        running.offsets_by_id = request.param == "offsets by id"  # type: ignore[attr-defined]
        yield running


class Reader:
    """A consumer that reads a topic in some way, and its callbacks' arguments."""

    def __init__(self, client: Client, topic: str, way: str, **conf: Any) -> None:
        self.topic, self.way = topic, way
        self.group = f"{topic}-{way}"
        self.rebalances: list[str] = []
        self.committed: list[tuple[KafkaError | None, list[TopicPartition]]] = []
        own = {
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 100,
            "topic.metadata.refresh.interval.ms": 1000,
            **WAYS[way],
            **conf,
        }
        self.consumer = client.consumer(
            **own, on_commit=lambda error, partitions: self.committed.append((error, partitions))
        )
        if way == "by hand":
            self.consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        else:
            self.consumer.subscribe(
                [topic],
                on_assign=lambda consumer, partitions: self.rebalances.append("assign"),
                on_revoke=lambda consumer, partitions: self.rebalances.append("revoke"),
                on_lost=lambda consumer, partitions: self.rebalances.append("lose"),
            )

    def read(self, count: int) -> list[int]:
        """Return the values of so many messages of partition 0. Any error fails."""
        found: list[Message] = []
        until = time.monotonic() + WAIT_S
        while len(found) < count and time.monotonic() < until:
            message = self.consumer.poll(0.1)
            if message is not None:
                assert (
                    message.error() is None or message.error() == KafkaError.UNKNOWN_TOPIC_OR_PART
                ), message.error()
                if message.error() is None and message.partition() == 0:
                    found.append(message)
        return [int(message.value() or b"") for message in found]

    def wait_committed(self, offset: int) -> None:
        """Poll until the group's offset of partition 0 is this."""
        until = time.monotonic() + WAIT_S
        while self.committed_offset() != offset:
            assert time.monotonic() < until, self.committed_offset()
            self.consumer.poll(0.05)

    def committed_offset(self) -> int:
        [found] = self.consumer.committed([TopicPartition(self.topic, 0)], timeout=WAIT_S)
        return found.offset


def recreate(cluster: MockCluster, topic: str, partitions: int = 2) -> None:
    cluster.delete_topic(topic)
    cluster.create_topic(topic, partitions)


def commit_by_name(cluster: MockCluster, reader: Reader, offset: int) -> None:
    """Commit the old topic's offset by name, before the client knows the new topic."""
    group = cluster.groups.find(reader.group)
    assert group is not None
    group.offsets[reader.topic, 0] = Committed(offset, -1, "")


@pytest.mark.parametrize("way", WAYS)
def test_new_topic_is_read_from_its_beginning(
    cluster: MockCluster, client: Client, way: str
) -> None:
    topic = client.topic(2)
    fill(client, topic, 10, partition=0)
    reader = Reader(client, topic, way)
    with reader.consumer as consumer:
        assert reader.read(10) == list(range(10))
        reader.wait_committed(10)
        recreate(cluster, topic)
        fill(client, topic, 60, partition=0, start=100)
        if not cluster.offsets_by_id and way != "consumer":  # type: ignore[attr-defined]
            commit_by_name(cluster, reader, 10)
        assert reader.read(60) == list(range(100, 160))
        reader.wait_committed(60)
        assert [each.offset for each in consumer.position([TopicPartition(topic, 0)])] == [60]
    if way != "by hand":
        first, second, third, *_ = reader.rebalances
        assert (first, third) == ("assign", "assign")
        assert second == "revoke" if way == "eager" else second in ("lose", "revoke")


@pytest.mark.parametrize("way", WAYS)
def test_offset_of_the_old_topic_is_not_committed_for_the_new_one(
    cluster: MockCluster, client: Client, way: str
) -> None:
    """The application still processes an old message when the client finds the new topic."""
    topic = client.topic(2)
    fill(client, topic, 10, partition=0)
    reader = Reader(
        client, topic, way, **{"enable.auto.commit": False, "enable.auto.offset.store": False}
    )
    with reader.consumer as consumer:
        message = None
        while message is None or message.error() is not None:
            message = consumer.poll(1)
        consumer.store_offsets(message=message)
        old_id = cluster.topic_id(topic)
        recreate(cluster, topic)
        fill(client, topic, 5, partition=0, start=100)
        until = time.monotonic() + WAIT_S
        # until the client knows the new topic
        while consumer.position([TopicPartition(topic, 0)])[0].offset != -1001:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert cluster.topic_id(topic) != old_id
        with pytest.raises(KafkaException) as caught:
            consumer.commit(message=message, asynchronous=False)
        assert caught.value.args[0].code() in (KafkaError.UNKNOWN_TOPIC_ID, KafkaError._STATE)
        with raises_code(KafkaError._STATE):
            consumer.store_offsets(message=message)
        assert reader.committed_offset() == -1001
        assert reader.read(5) == list(range(100, 105))
        assert reader.committed_offset() == -1001


@pytest.mark.parametrize("way", WAYS)
def test_deleted_topic_that_is_recreated_later_is_read(
    cluster: MockCluster, client: Client, way: str
) -> None:
    topic = client.topic(2)
    fill(client, topic, 10, partition=0)
    reader = Reader(client, topic, way, **{"topic.metadata.propagation.max.ms": 200})
    with reader.consumer:
        assert reader.read(10) == list(range(10))
        cluster.delete_topic(topic)
        until = time.monotonic() + 2
        while time.monotonic() < until:
            reader.consumer.poll(0.1)
        cluster.create_topic(topic, 2)
        fill(client, topic, 20, partition=0, start=100)
        assert reader.read(20) == list(range(100, 120))


def test_closing_consumer_commits_nothing_for_a_deleted_topic(
    cluster: MockCluster, client: Client
) -> None:
    """A new topic has the name by then, but the client's metadata are older."""
    topic = client.topic(2)
    fill(client, topic, 10, partition=0)
    reader = Reader(client, topic, "cooperative", **{"auto.commit.interval.ms": 60_000})
    with reader.consumer:
        assert reader.read(10) == list(range(10))
        cluster.delete_topic(topic)
        cluster.clear_requests()
        cluster.wait_for_requests(ApiKey.METADATA, 2)  # the client knows since the first one
        cluster.delay_responses(None, WAIT_S, ApiKey.METADATA)
        cluster.create_topic(topic, 2)
    cluster.delay_responses(None, 0, ApiKey.METADATA)
    fill(client, topic, 20, partition=0, start=100)
    with Reader(client, topic, "cooperative").consumer as consumer:
        first = consumer.poll(WAIT_S)
        assert first is not None
        assert first.value() == b"100"


def test_auto_offset_reset_error_is_reported(
    cluster: MockCluster, client: Client, topic: str
) -> None:
    fill(client, topic, 3)
    with assigned(
        client, topic, **{"group.id": f"{topic}-error", "auto.offset.reset": "error"}
    ) as consumer:
        assert len(consumer.consume(3, WAIT_S)) == 3
        recreate(cluster, topic, 1)
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert message.error() == KafkaError._AUTO_OFFSET_RESET
        consumer.seek(TopicPartition(topic, 0, 0))
        fill(client, topic, 2, start=100)
        assert [int(each.value() or b"") for each in consumer.consume(2, WAIT_S)] == [100, 101]


@pytest.mark.parametrize("way", ["by hand", "eager", "cooperative"])
def test_new_topic_is_read_even_if_fetches_have_no_topic_ids(way: str) -> None:
    """Metadata show the new topic later: a part of it is read twice, and no part is skipped."""
    with MockCluster(brokers=1, max_versions=FETCHED_BY_NAME) as cluster:
        client = Client(cluster)
        topic = client.topic(2)
        fill(client, topic, 10, partition=0)
        reader = Reader(client, topic, way)
        with reader.consumer:
            assert reader.read(10) == list(range(10))
            recreate(cluster, topic)
            fill(client, topic, 60, partition=0, start=100)
            seen: set[int] = set()
            while not seen >= set(range(100, 160)):
                seen |= set(reader.read(1))


def test_offset_assigned_before_the_client_finds_the_new_topic_is_kept(
    cluster: MockCluster, client: Client, topic: str
) -> None:
    fill(client, topic, 3)
    with client.consumer(
        **{"group.id": f"{topic}-given", "auto.offset.reset": "latest"}
    ) as consumer:
        consumer.list_topics(topic, WAIT_S)
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert len(consumer.consume(3, WAIT_S)) == 3
        consumer.unassign()
        recreate(cluster, topic, 1)
        fill(client, topic, 6, start=100)
        consumer.assign(
            [TopicPartition(topic, 0, 2)]
        )  # the client's metadata are older than the topic
        values = [int(message.value() or b"") for message in consumer.consume(4, WAIT_S)]
        assert values == [102, 103, 104, 105]
