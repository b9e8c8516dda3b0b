"""Members of classic groups for tests. Each polls in its own thread and records its partitions."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

from kafka_native import Consumer, KafkaError, KafkaException, TopicPartition
from kafka_native.mock import MockCluster
from tests.waiting import wait_for

from .support import Client, fill

_groups = itertools.count()

Key = tuple[str, int]


class Owners:
    """The owner of each partition, from the callbacks of all members."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.of: dict[Key, Any] = {}
        self.conflicts: list[tuple[Key, str, str]] = []

    def take(self, member: Reader, keys: set[Key]) -> None:
        with self.lock:
            for key in keys:
                other = self.of.get(key)
                if other is not None and other is not member:
                    self.conflicts.append((key, other.name, member.name))
                self.of[key] = member

    def give(self, member: Reader, keys: set[Key]) -> None:
        with self.lock:
            for key in keys:
                if self.of.get(key) is member:
                    del self.of[key]


class Reader:
    """A member that polls in its own thread, and records events, messages and errors."""

    def __init__(self, group: Readers, name: str, topics: list[str], **conf: Any) -> None:
        self.name = name
        self.group = group
        self.events: list[tuple[str, list[Key]]] = []
        self.owned: set[Key] = set()
        self.messages: list[Any] = []
        self.errors: list[KafkaError] = []
        self.threads: set[int] = set()
        self.pause = threading.Event()
        self.jobs: list[Callable[[Consumer], None]] = []
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        self._close = True
        self.consumer = Consumer(group.settings(conf))
        self.subscribe(topics)
        self._thread = threading.Thread(target=self._run, name=f"reader {name}")
        self._thread.start()

    def subscribe(self, topics: list[str]) -> None:
        self.consumer.subscribe(
            topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def _note(self, kind: str, partitions: list[TopicPartition]) -> set[Key]:
        keys = {(each.topic, each.partition) for each in partitions}
        self.events.append((kind, sorted(keys)))
        self.threads.add(threading.get_ident())
        return keys

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        keys = self._note("assign", partitions)
        self.group.owners.take(self, keys)
        self.owned |= keys

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        keys = self._note("revoke", partitions)
        self.group.owners.give(self, keys)
        self.owned -= keys

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        keys = self._note("lose", partitions)
        self.group.owners.give(self, keys)
        self.owned -= keys

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                while self.jobs:
                    self.jobs.pop(0)(self.consumer)
                if self.pause.is_set():
                    time.sleep(0.01)
                    continue
                message = self.consumer.poll(0.02)
                if message is None:
                    continue
                if message.error():
                    self.errors.append(message.error())
                else:
                    self.messages.append(message)
        except BaseException as failure:
            self.failure = failure
        finally:
            if self._close:
                self.consumer.close()

    def stop(self, *, leave: bool = True) -> None:
        """Close the member.

        Without ``leave`` its connections end without LeaveGroup, like a killed process.
        """
        if not leave:
            self._close = False
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive(), f"{self.name} doesn't end"
        if not leave:
            self.consumer._client.close()
            self.group.owners.give(self, set(self.owned))
            with suppress(KafkaException, RuntimeError):
                self.consumer.close()
        self.group.readers.remove(self)

    def do(self, job: Callable[[Consumer], Any]) -> Any:
        """Run a job in the reader's thread, and return its result."""
        done = threading.Event()
        result: list[Any] = []

        def work(consumer: Consumer) -> None:
            try:
                result.append(job(consumer))
            finally:
                done.set()

        self.jobs.append(work)
        assert done.wait(30), f"{self.name} is stuck"
        return result[0]

    def __repr__(self) -> str:
        return (
            f"{self.name}: owns {sorted(self.owned)}, {self.events}, {self.errors}, {self.failure}"
        )


class Readers:
    """One group: its members, and the topic that they share."""

    def __init__(
        self, client: Client, strategy: Any = "range", *, partitions: int = 6, **conf: Any
    ) -> None:
        self.client = client
        self.cluster: MockCluster = client.cluster
        self.id = f"group-{next(_groups)}"
        self.strategy = strategy
        self.topic = client.topic(partitions)
        self.partitions = partitions
        self.conf = conf
        self.owners = Owners()
        self.readers: list[Reader] = []
        self._names = itertools.count(1)

    def settings(self, conf: dict[str, Any]) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.client.bootstrap,
            "group.id": self.id,
            "partition.assignment.strategy": self.strategy,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 100,
            "session.timeout.ms": 6000,
            "reconnect.backoff.ms": 20,
            **self.conf,
            **conf,
        }

    def add(self, *topics: str, **conf: Any) -> Reader:
        reader = Reader(self, f"m{next(self._names)}", list(topics) or [self.topic], **conf)
        self.readers.append(reader)
        return reader

    @property
    def all(self) -> set[Key]:
        return {(self.topic, number) for number in range(self.partitions)}

    def shared(self) -> bool:
        """Return whether each partition has one owner, and every member has its fair share."""
        owned = [key for reader in self.readers for key in tuple(reader.owned)]
        least = self.partitions // len(self.readers)
        fair = all(len(reader.owned) >= least for reader in self.readers)
        return len(owned) == len(set(owned)) and set(owned) == self.all and fair

    def add_and_settle(self, *topics: str, **conf: Any) -> Reader:
        """Add a member, and wait until each partition has its owner."""
        reader = self.add(*topics, **conf)
        self.settle()
        return reader

    def wait(self, condition: Callable[[], Any], **options: Any) -> None:
        """Wait for a condition. A timeout shows the members."""
        wait_for(condition, lambda: repr(self.readers), **options)

    def settle(self) -> None:
        """Wait until each partition has its owner."""
        self.wait(self.shared)

    def fill(self, count: int, start: int = 0) -> None:
        """Produce the numbers from ``start`` on, to all partitions."""
        fill(self.client, self.topic, count, start=start)

    def values(self) -> list[int]:
        return sorted(
            int(message.value()) for reader in self.readers for message in tuple(reader.messages)
        )

    def __enter__(self) -> Readers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for reader in list(self.readers):
            reader.pause.clear()
            reader.stop()
        if error is None:
            assert self.owners.conflicts == []
