"""Members of consumer groups for tests: ours, librdkafka's and Java's.

All of them report their partitions and messages. A member reads until it is stopped. Any thread may
read ``owned`` and ``read`` at any time.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import confluent_kafka

import kafka_native
from tests.broker import java
from tests.broker.cluster import Cluster, quiet
from tests.harness.processes import guarded
from tests.waiting import wait_for

JAVA_ASSIGNORS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
STOP_SECONDS = 120.0
HEARTBEAT_MS = 300
"""A classic member learns of a rebalance with its next heartbeat."""

Place = tuple[int, int]
"""Partition and offset."""


class Member(ABC):
    """One member of a group that reads one topic."""

    kind = ""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.owned: set[int] = set()
        self.read: Counter[Place] = Counter()
        self.problems: list[str] = []
        self.log: list[str] = []

    @abstractmethod
    def stop(self) -> None:
        """Leave the group properly, and return afterwards."""


class PythonMember(Member):
    """A consumer in a thread: ours, or librdkafka's, which has the same methods."""

    def __init__(self, kind: str, cluster: Cluster, topic: str, group: str, **config: str) -> None:
        super().__init__(topic)
        self.kind = kind
        base: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
            "topic.metadata.refresh.interval.ms": 1000,
        }
        if config.get("group.protocol") != "consumer":
            base |= {"heartbeat.interval.ms": HEARTBEAT_MS, "session.timeout.ms": 10_000}
        base |= config
        self.consumer: Any = (
            kafka_native.Consumer(base) if kind == "ours" else confluent_kafka.Consumer(quiet(base))
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._run, daemon=True, name=f"{kind} member of {group}"
        )
        self._thread.start()

    def _run(self) -> None:
        try:
            self.consumer.subscribe(
                [self.topic],
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_lost,
            )
            while not self._ended.is_set():
                for message in self.consumer.consume(500, 0.1):
                    if message.error() is not None:
                        self.problems.append(str(message.error()))
                    else:
                        self.read[message.partition(), message.offset()] += 1
        except BaseException as error:
            self.problems.append(repr(error))
            raise
        finally:
            self.consumer.close()

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        self._change("assign", partitions)
        self.owned |= {each.partition for each in partitions}

    def _on_revoke(self, consumer: Any, partitions: list[Any]) -> None:
        self._change("revoke", partitions)
        self.owned -= {each.partition for each in partitions}

    def _on_lost(self, consumer: Any, partitions: list[Any]) -> None:
        self._change("lose", partitions)
        self.owned -= {each.partition for each in partitions}

    def _change(self, what: str, partitions: list[Any]) -> None:
        self.log.append(f"{what} {sorted(each.partition for each in partitions)}")

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(STOP_SECONDS)
        assert not self._thread.is_alive(), (
            f"{self.kind}: close() takes longer than {STOP_SECONDS} s"
        )


class JavaMember(Member):
    """Kafka's own VerifiableConsumer: a process that prints its events, and commits its
    messages.
    """

    kind = "java"

    def __init__(
        self, cluster: Cluster, topic: str, group: str, folder: Path, **config: str
    ) -> None:
        super().__init__(topic)
        options = ["--bootstrap-server", cluster.bootstrap, "--topic", topic, "--group-id", group]
        settings = {"metadata.max.age.ms": "1000"}
        if config.get("group.protocol") == "consumer":
            options += ["--group-protocol", "CONSUMER"]
        else:
            name = JAVA_ASSIGNORS[config["partition.assignment.strategy"]]
            options += ["--assignment-strategy", f"org.apache.kafka.clients.consumer.{name}"]
            options += ["--session-timeout", "10000"]
            settings["heartbeat.interval.ms"] = str(HEARTBEAT_MS)
        properties = folder / f"{group}.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        options += ["--command-config", str(properties)]
        self._errors = (folder / f"{group}.err").open("wb")
        command = java.java_command("org.apache.kafka.tools.VerifiableConsumer", *options)
        self._process = subprocess.Popen(
            guarded(*command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._thread = threading.Thread(
            target=self._run, daemon=True, name=f"java member of {group}"
        )
        self._thread.start()

    def _run(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(json.JSONDecodeError):  # a log line
                self._on_event(json.loads(line))

    def _on_event(self, event: dict[str, Any]) -> None:
        name = event.get("name")
        if name == "partitions_assigned":
            self.owned |= {each["partition"] for each in event["partitions"]}
        elif name == "partitions_revoked":
            self.owned -= {each["partition"] for each in event["partitions"]}
        elif name == "records_consumed":
            for each in event["partitions"]:
                first, last = each["minOffset"], each["maxOffset"]
                assert each["count"] == last - first + 1
                self.read.update((each["partition"], offset) for offset in range(first, last + 1))
        # A commit that fails during a cooperative rebalance is no problem: another one follows.

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        finally:
            self._process.kill()
            self._thread.join(STOP_SECONDS)
            self._errors.close()


class Members:
    """The members of one group, of any kind. Those that left are remembered."""

    def __init__(
        self, cluster: Cluster, topic: str, partitions: int, group: str, folder: Path
    ) -> None:
        self.cluster, self.topic, self.partitions, self.group, self.folder = (
            cluster,
            topic,
            partitions,
            group,
            folder,
        )
        self.present: list[Member] = []
        self.gone: list[Member] = []

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *_: object) -> None:
        for member in list(self.present):
            self.leave(member)

    def join(self, kind: str, **config: str) -> Member:
        """Add a member. `settle()` waits until it has partitions."""
        if kind == "java":
            member: Member = JavaMember(self.cluster, self.topic, self.group, self.folder, **config)
        else:
            member = PythonMember(kind, self.cluster, self.topic, self.group, **config)
        self.present.append(member)
        return member

    def leave(self, member: Member) -> None:
        """Stop a member normally."""
        self.present.remove(member)
        self.gone.append(member)
        member.stop()

    def settle(self, timeout: float = 60.0) -> None:
        """Wait until every member has partitions, and every partition exactly one member."""

        def settled() -> bool:
            owners = Counter(
                partition for member in self.present for partition in list(member.owned)
            )
            return owners == Counter(range(self.partitions)) and all(
                member.owned for member in self.present
            )

        def state() -> str:
            return ", ".join(
                f"{member.kind} {sorted(member.owned)} {member.problems}" for member in self.present
            )

        try:
            wait_for(settled, "everybody owns something", timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}: {state()}") from None

    @property
    def read(self) -> Counter[Place]:
        """Return the messages of all members, including those that left."""
        total: Counter[Place] = Counter()
        for member in [*self.present, *self.gone]:
            total.update(Counter(dict(member.read)))
        return total

    def expect_each_once(
        self, sent: dict[int, int], *, but: tuple[str, ...] = (), timeout: float = 60.0
    ) -> None:
        """Wait until ``sent`` messages of each partition were read once, without problems.

        Members of the kinds in ``but`` may hand partitions over without a full commit.
        """
        want = sum(sent.values())
        wait_for(lambda: len(self.read) >= want, f"{want} messages of {self.group}", timeout)
        everything = self.read
        assert set(everything) == {
            (partition, offset) for partition, end in sent.items() for offset in range(end)
        }
        excused = {
            place
            for member in [*self.present, *self.gone]
            if member.kind in but
            for place in member.read
        }
        twice = {
            place: times
            for place, times in everything.items()
            if times != 1 and place not in excused
        }
        assert twice == {}, f"read more than once: {self._readers(twice)}"
        for member in [*self.present, *self.gone]:
            assert member.problems == [], member.kind

    def _readers(self, places: Iterable[Place]) -> str:
        """Return which members read these messages, by ranges of each partition."""
        said = []
        for member in [*self.gone, *self.present]:
            mine = sorted(place for place in places if place in member.read)
            for partition in sorted({partition for partition, _ in mine}):
                offsets = [offset for number, offset in mine if number == partition]
                times = {member.read[partition, offset] for offset in offsets}
                said.append(
                    f"{member.kind} [{partition}] {offsets[0]}..{offsets[-1]} {times} "
                    f"{member.log[-12:]}"
                )
        return "; ".join(said)
