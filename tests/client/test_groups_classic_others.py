"""Classic groups with members of other clients, and heartbeats while no thread runs Python."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import kafka
import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from kafka_native import Consumer, Producer
from tests.waiting import WAIT_S, wait_for

from .classic_support import Key, Readers
from .support import Client


def is_shared(group: Readers, others: list[Any]) -> bool:
    """Return whether each partition has one owner, and each member of any client has some."""
    members = [*group.readers, *others]
    owned = [key for member in members for key in tuple(member.owned)]
    return sorted(owned) == sorted(group.all) and all(member.owned for member in members)


def wait_shared(group: Readers, others: list[Any]) -> None:
    wait_for(
        lambda: is_shared(group, others),
        lambda: f"{group.readers}, {[sorted(other.owned) for other in others]}",
    )


class Confluent:
    """A confluent_kafka member that polls in a thread."""

    def __init__(self, group: Readers, strategy: str) -> None:
        self.owned: set[Key] = set()
        self.values: list[int] = []
        self.errors: list[Any] = []
        self._stop = threading.Event()
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": group.client.bootstrap,
                "group.id": group.id,
                "partition.assignment.strategy": strategy,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 100,
            }
        )
        self.consumer.subscribe(
            [group.topic], on_assign=self._take, on_revoke=self._give, on_lost=self._give
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _take(self, consumer: Any, partitions: list[Any]) -> None:
        self.owned |= {(each.topic, each.partition) for each in partitions}

    def _give(self, consumer: Any, partitions: list[Any]) -> None:
        self.owned -= {(each.topic, each.partition) for each in partitions}

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self.consumer.poll(0.05)
            if message is None:
                continue
            if message.error():
                self.errors.append(message.error())
            else:
                self.values.append(int(message.value()))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        self.consumer.close()
        self.owned = set()


@pytest.mark.parametrize(
    "strategy",
    [
        "range",
        "roundrobin",
        pytest.param("cooperative-sticky", marks=pytest.mark.slow),
        "range,roundrobin",
    ],
)
@pytest.mark.parametrize("ours_first", [True, False])
def test_confluent_members_in_the_same_group(client: Client, strategy: str, ours_first: bool):
    with Readers(client, strategy) as group:
        group.fill(600)
        others: list[Confluent] = []
        try:
            if ours_first:  # the first member is the leader
                group.add()
                wait_shared(group, others)
            others.append(Confluent(group, strategy))
            wait_for(lambda: others[0].owned)
            group.add()
            wait_shared(group, others)
            group.add()
            wait_shared(group, others)
            others.append(Confluent(group, strategy))
            wait_shared(group, others)
            wait_for(lambda: len({*group.values(), *others[0].values, *others[1].values}) == 600)
            others.pop(0).stop()
            wait_shared(group, others)
        finally:
            for other in others:
                other.stop()
        others.clear()
        group.settle()
        assert [reader.errors for reader in group.readers] == [[]] * len(group.readers)


class KafkaPython:
    """A member of kafka-python."""

    def __init__(self, group: Readers, assignor: Any) -> None:
        self.owned: set[Key] = set()
        self._stop = threading.Event()
        self.consumer = kafka.KafkaConsumer(
            group.topic,
            bootstrap_servers=group.client.bootstrap.split(","),
            group_id=group.id,
            heartbeat_interval_ms=100,
            partition_assignment_strategy=[assignor],
        )
        # A leader without metadata of the topic would assign nothing, also later.
        wait_for(lambda: self.consumer.partitions_for_topic(group.topic))
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.consumer.poll(timeout_ms=50)
            self.owned = {(one.topic, one.partition) for one in self.consumer.assignment()}
        self.consumer.close()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        self.owned = set()


@pytest.mark.parametrize(
    ("strategy", "theirs"),
    [
        ("range", RangePartitionAssignor),
        ("roundrobin", RoundRobinPartitionAssignor),
        ("sticky", StickyPartitionAssignor),
    ],
)
def test_kafka_python_members_in_the_same_group(client: Client, strategy: str, theirs: Any):
    with Readers(client, strategy) as group:
        other = KafkaPython(group, theirs)
        try:
            wait_shared(group, [other])  # the member of kafka-python is the leader
            first = group.add()
            wait_shared(group, [other])
            group.add()
            wait_shared(group, [other])
        finally:
            other.stop()
        group.settle()  # our member is the leader
        other = KafkaPython(group, theirs)
        try:
            wait_shared(group, [other])
        finally:
            other.stop()
        group.settle()
        assert first.errors == []


@pytest.fixture
def own_process() -> Iterator[str]:
    """Yield the bootstrap servers of a mock cluster in another process."""
    command = [sys.executable, "-m", "kafka_native.mock", "--brokers", "1", "--topics", "t:2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip().removeprefix("bootstrap.servers=")
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [4, 30])
def test_heartbeats_go_on_while_the_interpreter_lock_is_held(own_process: str, seconds: int):
    session_s = 2 if seconds < 10 else 8
    events: list[str] = []
    conf = {
        "bootstrap.servers": own_process,
        "group.id": "held",
        "session.timeout.ms": session_s * 1000,
        "heartbeat.interval.ms": 300,
        "auto.offset.reset": "earliest",
    }
    with Consumer(conf) as consumer, Producer({"bootstrap.servers": own_process}) as producer:
        consumer.subscribe(
            ["t"],
            on_assign=lambda consumer, partitions: events.append("assign"),
            on_revoke=lambda consumer, partitions: events.append("revoke"),
            on_lost=lambda consumer, partitions: events.append("lose"),
        )
        producer.produce("t", "first", partition=0)
        message = consumer.poll(30)
        assert message is not None
        assert message.value() == b"first"
        began = time.monotonic()
        ctypes.PyDLL(None).sleep(seconds)  # a C call that keeps the interpreter lock
        assert time.monotonic() - began > session_s + 1
        producer.produce("t", "second", partition=0)
        message = consumer.poll(30)
        assert message is not None
        assert message.value() == b"second"
        # an expelled member would get an error with its next heartbeat
        assert consumer.poll(session_s) is None
        assert events == ["assign"]
