"""Topics that gain partitions, and topics that are deleted and recreated, while clients use them."""

from __future__ import annotations

import time
from typing import Any

import pytest

import kafka_native
from kafka_native import KafkaError, TopicPartition
from kafka_native.admin import AdminClient, NewPartitions
from tests.broker.cluster import Cluster
from tests.broker.support import (
    TopicMaker,
    create,
    delete,
    flush,
    our_consumer,
    our_producer,
    read,
    their_consumer,
)
from tests.waiting import WAIT_S

WAYS: dict[str, dict[str, Any]] = {
    "by hand": {},
    "eager": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}


def grow(cluster: Cluster, topic: str, partitions: int) -> None:
    """Add partitions. It returns with the controller's answer, and brokers learn of it a moment
    later.
    """
    with AdminClient(cluster.conf()) as admin:
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(WAIT_S)


def check_growth(cluster: Cluster, topic: str) -> None:
    """Add a partition twice. Clients that know the old number produce to it and read it at once."""
    reports: list[KafkaError | None] = []
    with (
        our_producer(cluster) as producer,
        our_consumer(cluster, group_id=f"{topic}-readers") as consumer,
    ):
        producer.produce(topic, b"0", partition=0)
        flush(producer)
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert [message.value() for message in consumer.consume(1, WAIT_S)] == [b"0"]
        for new in (1, 2):
            grow(cluster, topic, new + 1)
            for number in range(100):
                value = b"%d-%d" % (new, number)
                producer.produce(
                    topic,
                    value,
                    partition=new,
                    on_delivery=lambda error, message: reports.append(error),
                )
            consumer.assign([TopicPartition(topic, new, 0)])
            assert consumer.get_watermark_offsets(TopicPartition(topic, new), WAIT_S)[0] == 0
            flush(producer)
            found = consumer.consume(100, WAIT_S)
            assert [message.error() for message in found] == [None] * 100
            assert [message.value() for message in found] == [
                b"%d-%d" % (new, number) for number in range(100)
            ]
    assert reports == [None] * 200
    assert len(read(their_consumer(cluster), topic, range(3), 201)) == 201


def test_new_partitions_are_used_at_once(kafka: Cluster, new_topic: TopicMaker) -> None:
    check_growth(kafka, new_topic(kafka))


def test_new_partitions_are_used_at_once_on_three_brokers(
    kafka3: Cluster, new_topic: TopicMaker
) -> None:
    check_growth(kafka3, new_topic(kafka3))


class Reader:
    """A consumer that reads a topic in one of the ways in WAYS."""

    def __init__(self, cluster: Cluster, topic: str, way: str, **config: Any) -> None:
        self.topic, self.callbacks = topic, list[str]()
        group = f"{topic}-{way.replace(' ', '-')}"
        self.consumer = kafka_native.Consumer(
            cluster.conf(
                **{
                    "group.id": group,
                    "auto.offset.reset": "earliest",
                    "auto.commit.interval.ms": 100,
                    **WAYS[way],
                    **config,
                }
            )
        )
        if way == "by hand":
            self.consumer.assign([TopicPartition(topic, 0)])
        else:
            self.consumer.subscribe(
                [topic],
                on_assign=lambda consumer, partitions: self.callbacks.append("assign"),
                on_revoke=lambda consumer, partitions: self.callbacks.append("revoke"),
                on_lost=lambda consumer, partitions: self.callbacks.append("lose"),
            )

    def read(self, count: int) -> list[int]:
        found: list[int] = []
        until = time.monotonic() + 2 * WAIT_S
        while len(found) < count and time.monotonic() < until:
            message = self.consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append(int(message.value() or b""))
            elif message is not None:
                assert message.error() == KafkaError.UNKNOWN_TOPIC_OR_PART, message.error()
        return found

    def wait_committed(self, offset: int) -> None:
        until = time.monotonic() + WAIT_S
        while True:
            [kept] = self.consumer.committed([TopicPartition(self.topic, 0)], timeout=WAIT_S)
            if kept.offset == offset:
                return
            assert time.monotonic() < until, kept
            self.consumer.poll(0.1)


@pytest.mark.parametrize("way", WAYS)
def test_recreated_topic_is_read_from_its_beginning(
    kafka: Cluster, new_topic: TopicMaker, way: str
) -> None:
    topic = new_topic(kafka)
    with our_producer(kafka) as producer:
        for number in range(10):
            producer.produce(topic, b"%d" % number)
    reader = Reader(kafka, topic, way)
    with reader.consumer:
        assert reader.read(10) == list(range(10))
        reader.wait_committed(10)
        delete(kafka, topic)
        create(kafka, topic)
        with our_producer(kafka) as producer:
            for number in range(100, 160):
                producer.produce(topic, b"%d" % number)
        assert reader.read(60) == list(range(100, 160))
        reader.wait_committed(60)
    if way != "by hand":
        first, given_up, again, *_ = reader.callbacks
        assert (first, again) == ("assign", "assign")
        assert given_up in ("revoke", "lose")
