"""Consumers of one group for tests, polled in turn by the test's own thread."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from kafka_native import Consumer, KafkaError, TopicPartition
from tests.waiting import WAIT_S

from .support import Client

_numbers = itertools.count()


class Reader:
    """One consumer, with its callbacks' arguments and its messages."""

    def __init__(self, workers: Workers, topics: list[str], **conf: Any) -> None:
        self.log: list[tuple[str, list[tuple[str, int]]]] = []
        self.owned: set[tuple[str, int]] = set()
        self.read: Counter[tuple[str, int, int]] = Counter()
        self.errors: list[KafkaError] = []
        self.polls = True
        self.on_call: Callable[[str, Consumer, list[TopicPartition]], None] = (
            lambda what, consumer, partitions: None
        )
        self.consumer = workers.client.consumer(**{**workers.conf, **conf})
        self.subscribe(topics)

    def subscribe(self, topics: list[str]) -> None:
        self.consumer.subscribe(
            topics,
            on_assign=self._recorder("assign"),
            on_revoke=self._recorder("revoke"),
            on_lost=self._recorder("lost"),
        )

    def _recorder(self, what: str) -> Callable[[Consumer, list[TopicPartition]], None]:
        def callback(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            keys = sorted((each.topic, each.partition) for each in partitions)
            self.log.append((what, keys))
            if what == "assign":
                self.owned |= set(keys)
            else:
                self.owned -= set(keys)
            self.on_call(what, consumer, partitions)

        return callback

    def poll(self) -> None:
        for message in self.consumer.consume(200, 0.02):
            error = message.error()
            if error is not None:
                self.errors.append(error)
            else:
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                assert topic is not None
                assert partition is not None
                assert offset is not None
                self.read[topic, partition, offset] += 1

    def calls(self, what: str) -> list[list[tuple[str, int]]]:
        """Return the partitions of each call of this callback."""
        return [keys for kind, keys in self.log if kind == what]

    @property
    def member_id(self) -> str:
        return self.consumer.memberid() or ""


class Workers:
    """All consumers of a group. As a context manager it closes the remaining ones."""

    def __init__(self, client: Client, **conf: Any) -> None:
        self.client = client
        self.group = f"group-{next(_numbers)}"
        self.conf: dict[str, Any] = {
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            **conf,
        }
        self.readers: list[Reader] = []
        self.left: list[Reader] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for reader in self.readers:
            reader.consumer.close()

    def join(self, *topics: str, **conf: Any) -> Reader:
        self.readers.append(Reader(self, list(topics), **conf))
        return self.readers[-1]

    def start(self, partitions: int, **conf: Any) -> tuple[str, Reader]:
        """Create a topic and join one reader, and wait until it owns all partitions."""
        topic = self.client.topic(partitions)
        reader = self.join(topic, **conf)
        self.settle(*keys(topic, partitions))
        return topic, reader

    def leave(self, reader: Reader) -> None:
        self.readers.remove(reader)
        self.left.append(reader)
        reader.consumer.close()

    def until(self, condition: Callable[[], Any], what: str, timeout_s: float = WAIT_S) -> None:
        """Poll all consumers until the condition is true."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not in {timeout_s} s; {self.state()}"
            for reader in self.readers:
                if reader.polls:
                    reader.poll()

    def state(self) -> str:
        return "; ".join(
            f"{sorted(each.owned)} {each.errors} {each.log[-4:]}" for each in self.readers
        )

    def settle(self, *keys: tuple[str, int]) -> None:
        """Wait until every member owns something, and all together own exactly these partitions."""

        def settled() -> bool:
            owned = sorted(key for reader in self.readers for key in reader.owned)
            return owned == sorted(keys) and all(reader.owned for reader in self.readers)

        self.until(settled, f"the partitions {keys}")
        for reader in self.readers:
            assert {
                (each.topic, each.partition) for each in reader.consumer.assignment()
            } == reader.owned

    def read(self) -> Counter[tuple[str, int, int]]:
        """Return the messages of all members, including those that left."""
        total: Counter[tuple[str, int, int]] = Counter()
        for reader in [*self.readers, *self.left]:
            total.update(reader.read)
        return total

    def expect_read(self, topic: str, counts: dict[int, int]) -> None:
        """Check that each message was read once. ``counts`` has their number by partition."""
        places = {
            (topic, partition, offset)
            for partition, count in counts.items()
            for offset in range(count)
        }
        self.until(lambda: places <= set(self.read()), f"all messages of {topic}")
        assert self.read() == Counter(places)


def keys(topic: str, count: int) -> list[tuple[str, int]]:
    """Return the partitions of a topic."""
    return [(topic, number) for number in range(count)]
