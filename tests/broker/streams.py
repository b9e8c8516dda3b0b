"""Continuous production and consumption during a test's changes to the cluster."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import kafka_native
from kafka_native import KafkaError
from tests.broker import payload
from tests.broker.cluster import Cluster
from tests.broker.support import end_of, flush, read, their_consumer
from tests.waiting import wait_for

SETTLE_SECONDS = 60
BACK_IN_SYNC = "the replicas of the broker that came back"


class DeliveryCounts(Counter[int]):
    """An on_delivery callback that counts the messages of each partition. Reports are in order."""

    def __call__(self, error: KafkaError | None, message: kafka_native.Message) -> None:
        assert error is None, error
        assert message.offset() == self[message.partition()]
        self[message.partition()] += 1


class Stream(threading.Thread):
    """Produces numbered values until it is stopped, and keeps every report."""

    def __init__(
        self, producer: kafka_native.Producer, topic: str, partitions: int, pause_s: float = 0.002
    ) -> None:
        super().__init__(daemon=True)
        self.producer, self.topic, self.partitions, self.pause_s = (
            producer,
            topic,
            partitions,
            pause_s,
        )
        self.acked: dict[int, tuple[int, int]] = {}  # number -> partition, offset
        self.failed: dict[int, KafkaError] = {}
        self.refused: list[KafkaError] = []
        self.sent = 0
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(self.pause_s):
            for _ in range(5):
                self._produce(self.sent)
                self.sent += 1
            self.producer.poll(0)

    def _produce(self, number: int) -> None:
        partition = number % self.partitions

        def on_delivery(error: KafkaError | None, message: kafka_native.Message) -> None:
            assert number not in self.acked
            assert number not in self.failed
            if error is None:
                self.acked[number] = (message.partition(), message.offset())
            else:
                self.failed[number] = error

        value = payload.make(self.topic, partition, number)
        try:
            self.producer.produce(self.topic, value, partition=partition, on_delivery=on_delivery)
        except kafka_native.KafkaException as error:
            self.refused.append(error.args[0])

    def __enter__(self) -> Stream:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join(60)

    def acked_after(self, number: int, partition: int | None = None) -> int:
        """Return how many messages from this number on are acked, in all partitions or in one."""
        acked = list(self.acked)  # copied in one step, while the thread continues
        return sum(n >= number and partition in (None, n % self.partitions) for n in acked)

    def wait_acked(self, count: int, what: str) -> None:
        """Wait until more than ``count`` messages from now on are acked."""
        start = self.sent
        wait_for(lambda: self.acked_after(start) > count, what, SETTLE_SECONDS)

    def check_all_acked(self) -> None:
        """Check that no message failed."""
        assert self.failed == {}
        assert self.refused == []

    def end(self) -> None:
        """Stop, and wait until every message has an outcome."""
        self._ended.set()
        self.join(60)
        flush(self.producer)
        assert len(self.acked) + len(self.failed) + len(self.refused) == self.sent


class Reader:
    """Reads all partitions of a topic and counts the numbers."""

    def __init__(self, consumer: kafka_native.Consumer, topic: str, partitions: int) -> None:
        self.seen: Counter[int] = Counter()
        self.partitions = partitions
        self._consumer, self._topic = consumer, topic
        self._next_offset = dict.fromkeys(range(partitions), 0)
        consumer.assign(
            [kafka_native.TopicPartition(topic, number, 0) for number in range(partitions)]
        )

    def read(self) -> None:
        """Take the current messages. Offsets rise without a gap."""
        for message in self._consumer.consume(1000, 0.1):
            assert message.error() is None, message.error()
            partition = message.partition()
            self.seen[payload.number_of(message.value(), self._topic, partition)] += 1
            assert message.offset() == self._next_offset[partition]
            self._next_offset[partition] += 1

    def until(self, condition: Callable[[], bool], what: str, timeout: float = 60.0) -> None:
        """Read until the condition is true."""

        def read_on() -> bool:
            self.read()
            return condition()

        wait_for(read_on, what, timeout)

    def until_all_go_on(self, stream: Stream, what: str, count: int = 20) -> None:
        """Read until ``count`` messages of each partition that are sent from now on were read."""
        start = stream.sent
        self.until(lambda: all_go_on(self, start, count), what, SETTLE_SECONDS)

    def until_in_sync(self, cluster: Cluster) -> None:
        """Read until every replica is in sync."""
        self.until(lambda: in_sync(cluster, self._topic), BACK_IN_SYNC, SETTLE_SECONDS)

    def finish(self, stream: Stream) -> None:
        """End the stream, and read until every acked message was read."""
        stream.end()
        self.until(
            lambda: stream.acked.keys() <= self.seen.keys(), "what was acked", SETTLE_SECONDS
        )


def wait_in_sync(cluster: Cluster, topic: str) -> None:
    wait_for(lambda: in_sync(cluster, topic), BACK_IN_SYNC, SETTLE_SECONDS)


def in_sync(cluster: Cluster, topic: str) -> bool:
    """Return whether every replica of every partition is in sync."""
    found = cluster.admin().list_topics(topic, timeout=10).topics[topic].partitions.values()
    return bool(found) and all(
        len(each.isrs) == len(each.replicas) == 3 and each.leader >= 0 for each in found
    )


def all_go_on(reader: Reader, after: int, count: int) -> bool:
    """Return whether so many messages of each partition were read that were sent after a number."""
    found = Counter(number % reader.partitions for number in reader.seen if number >= after)
    return all(found[partition] >= count for partition in range(reader.partitions))


def check_places(cluster: Cluster, stream: Stream) -> list[list[int]]:
    """Check with librdkafka that each acked message is at its reported place.

    Returns the numbers of each partition in order.
    """
    witness = their_consumer(cluster)
    topic, partitions = stream.topic, range(stream.partitions)
    ends = [end_of(witness, topic, number) for number in partitions]
    numbers: list[list[int]] = [[] for _ in partitions]
    for record in read(witness, topic, partitions, sum(ends)):
        assert record.offset == len(numbers[record.partition])
        numbers[record.partition].append(payload.number_of(record.value, topic, record.partition))
    witness.close()
    wrong = {n: place for n, place in stream.acked.items() if numbers[place[0]][place[1]] != n}
    assert wrong == {}
    return numbers
