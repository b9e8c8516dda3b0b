"""Makes clients and topics for the cluster under test."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from kafka_native import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from kafka_native._native.engine import Engine
from kafka_native.config import parse
from kafka_native.control.settings import connection_settings, consumer_settings, producer_settings
from kafka_native.mock import MockCluster
from tests.waiting import PROGRAM_S, WAIT_S

ROOT = Path(__file__).resolve().parents[2]
NOWHERE: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1", "error_cb": lambda error: None}
"""The configuration of a client without any broker."""
_numbers = itertools.count()


def without_addresses(value: object) -> str:
    """Return a parameter for a test's name, which must be equal in all processes of `pytest -n`."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


@dataclass
class Client:
    """Makes clients of one cluster, with short timings."""

    cluster: MockCluster

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap_servers

    def topic(self, partitions: int = 1) -> str:
        """Create a new topic, and return its name."""
        name = f"topic-{next(_numbers)}"
        self.cluster.create_topic(name, partitions)
        return name

    def producer(self, **conf: Any) -> Producer:
        """Return a producer whose messages time out, so that a failed test ends when it closes."""
        if not conf.keys() & {"message.timeout.ms", "delivery.timeout.ms"}:
            lingers_ms = max(conf.get(name, 0) for name in ("linger.ms", "queue.buffering.max.ms"))
            conf["message.timeout.ms"] = int(WAIT_S * 1000 + lingers_ms)
        return Producer({"bootstrap.servers": self.bootstrap, "reconnect.backoff.ms": 20, **conf})

    def consumer(self, **conf: Any) -> Consumer:
        return Consumer({"bootstrap.servers": self.bootstrap, "reconnect.backoff.ms": 20, **conf})


def partitions_of(topic: str, count: int, offset: int = OFFSET_INVALID) -> list[TopicPartition]:
    """Return the first partitions of a topic."""
    return [TopicPartition(topic, number, offset) for number in range(count)]


def assigned(
    client: Client, topic: str, partitions: int = 1, *, offset: int = OFFSET_BEGINNING, **conf: Any
) -> Consumer:
    """Return a consumer at this offset of every partition."""
    consumer = client.consumer(**conf)
    consumer.assign(partitions_of(topic, partitions, offset))
    return consumer


def deliver(producer: Producer, topic: str, value: Any = b"", **how: Any) -> None:
    """Produce a message, and wait until all messages of the producer are reported."""
    producer.produce(topic, value, **how)
    unreported = producer.flush(WAIT_S)
    assert unreported == 0


def errors_into(reports: list[Any]) -> Callable[[KafkaError | None, Message], None]:
    """Return an ``on_delivery`` that appends the error of each report to a list."""
    return lambda error, message: reports.append(error)


def client_threads() -> set[str]:
    """Return the names of the threads of all clients. Each client has its own names."""
    names = (thread.name for thread in threading.enumerate())
    return {name for name in names if name.startswith("kafka-native")}


def run_program(
    program: str,
    *arguments: str,
    timeout_s: float = PROGRAM_S,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.CompletedProcess[str]:
    """Run a Python program that can import this repository, and return its outcome."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def fill(
    client: Client, topic: str, count: int, *, partition: int = -1, start: int = 0, **conf: Any
) -> None:
    """Produce the numbers from ``start`` on as text."""
    with client.producer(**conf) as producer:
        for number in range(start, start + count):
            producer.produce(topic, str(number), partition=partition)


def filled(client: Client, count: int, partitions: int = 1, **conf: Any) -> str:
    """Create a topic with so many messages in each partition, and return its name."""
    topic = client.topic(partitions)
    for partition in range(partitions):
        fill(client, topic, count, partition=partition, **conf)
    return topic


def read_all(
    client: Client, topic: str, count: int, timeout: float = 20.0, **conf: Any
) -> list[Message]:
    """Return ``count`` messages from the beginning of every partition. Any error fails."""
    with client.consumer(**conf) as consumer:
        partitions = consumer.list_topics(topic, timeout).topics[topic].partitions
        consumer.assign(partitions_of(topic, len(partitions), OFFSET_BEGINNING))
        messages = consumer.consume(count, timeout)
    assert [message.error() for message in messages if message.error()] == []
    assert len(messages) == count
    return messages


def code_of(call: Callable[[], object], match: str | None = None) -> int:
    """Return the code of the KafkaException that a call raises. ``match`` is a part of its text."""
    with pytest.raises(KafkaException, match=match) as caught:
        call()
    code: int = caught.value.args[0].code()
    return code


@contextmanager
def raises_code(
    code: int, match: str | None = None
) -> Iterator[pytest.ExceptionInfo[KafkaException]]:
    """Expect a KafkaException with this code."""
    with pytest.raises(KafkaException, match=match) as caught:
        yield caught
    assert caught.value.args[0].code() == code


class Interrupted(Exception):
    """A signal handler of a test raises it."""


@contextmanager
def interrupted(after_s: float) -> Iterator[pytest.ExceptionInfo[Interrupted]]:
    """Expect that the exception of a signal handler ends the block."""

    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, after_s)
    try:
        with pytest.raises(Interrupted) as caught:
            yield caught
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def takes(less_than_s: float, at_least_s: float = 0.0) -> Iterator[None]:
    """Check how long the block takes."""
    started = time.monotonic()
    yield
    assert at_least_s <= time.monotonic() - started < less_than_s


def together(*works: Callable[[], object]) -> list[object]:
    """Run functions in parallel threads, and return their results or exceptions."""
    outcomes: list[object] = [None] * len(works)
    barrier = threading.Barrier(len(works))

    def run(index: int, work: Callable[[], object]) -> None:
        barrier.wait()
        try:
            outcomes[index] = work()
        except BaseException as error:
            outcomes[index] = error

    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in enumerate(works)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + WAIT_S
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    return outcomes


def check_refused(
    call: Callable[[Any], object], error: type[Exception], *wrong: Any, match: str | None = None
) -> None:
    """Check that a call raises this error for each of these arguments."""
    for each in wrong:
        with pytest.raises(error, match=match):
            call(each)


def stored(cluster: MockCluster, topic: str, partition: int = 0) -> list[str]:
    """Return the values in a partition."""
    return [record.value.decode() for record in cluster.messages(topic, partition)]


class Reports:
    """Messages with unique values, and the report of each."""

    def __init__(self, producer: Producer, topic: str = "", **how: Any) -> None:
        """``how`` are the default arguments of produce()."""
        self.producer, self._how = producer, {"topic": topic, **how}
        self.errors: dict[str, KafkaError | None] = {}
        self.offsets: dict[str, int | None] = {}
        self.partitions: dict[str, int | None] = {}

    def send(self, *values: str, **how: Any) -> None:
        for value in values:
            self.producer.produce(value=value, on_delivery=self._note, **{**self._how, **how})

    def deliver(self, *values: str, **how: Any) -> None:
        """Send, and wait until all messages of the producer are reported."""
        self.send(*values, **how)
        unreported = self.producer.flush(WAIT_S)
        assert unreported == 0

    def _note(self, error: KafkaError | None, message: Message) -> None:
        value = message.value().decode()
        assert value not in self.errors, f"{value} is reported twice"
        self.errors[value] = error
        self.offsets[value] = message.offset()
        self.partitions[value] = message.partition()

    def acked(self) -> list[str]:
        return [value for value, error in self.errors.items() if error is None]

    def failed(self) -> dict[str, int]:
        return {value: error.code() for value, error in self.errors.items() if error is not None}

    def codes(self) -> dict[str, int | None]:
        return {
            value: None if error is None else error.code() for value, error in self.errors.items()
        }


def bare_engine() -> Engine:
    """Return a consumer's engine without a client."""
    config = parse({}, "consumer")
    settings: dict[str, Any] = {
        **connection_settings(config),
        **producer_settings(config, 0, False),
        **consumer_settings(config),
    }
    return Engine(settings, lambda status, code, text: AssertionError(text))  # type: ignore[arg-type,return-value]
