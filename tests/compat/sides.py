"""Runs a function with each library on the mock cluster or Apache Kafka, and compares results."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import itertools
import re
import time
import uuid
from collections.abc import Callable
from typing import Any, Protocol

import confluent_kafka

from kafka_native.compat.drop_in import confluent_kafka as drop_in
from tests.aio.support import run
from tests.broker.support import dotted
from tests.waiting import WAIT_S

Lib = Any
for name in ("admin", "aio"):  # as with the original, the package alone doesn't load them
    importlib.import_module(f"{drop_in.__name__}.{name}")
BOTH = (confluent_kafka, drop_in)
"""The original, and kafka_native as programs see it under `kafka_native.compat`."""
BASE_MS = 1_700_000_000_000
METADATA = "some metadata"
"""Metadata of an offset. librdkafka doesn't terminate it, so further bytes may follow."""
_RUN = uuid.uuid4().hex[:8]
_numbers = itertools.count()


class Stage(Protocol):
    """The part of a cluster that the calls need."""

    @property
    def bootstrap_servers(self) -> str: ...

    def create_topic(self, name: str, partitions: int) -> Any:
        """Create a topic, and return when its partitions have leaders."""


class Side:
    """One library on a topic of two partitions: 10 messages in partition 0, none in partition 1."""

    def __init__(self, lib: Lib, cluster: Stage) -> None:
        self.lib = lib
        self.servers = cluster.bootstrap_servers
        self.topic = f"side-by-side-{_RUN}-{next(_numbers):05}"
        self.group = f"group-of-{self.topic}"
        cluster.create_topic(self.topic, 2)

    def producing(self, **conf: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.servers, "log_level": 0, **dotted(conf)}

    def consuming(self, **conf: Any) -> dict[str, Any]:
        basics = {
            "bootstrap.servers": self.servers,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
        return {**basics, **dotted(conf)}

    def producer(self, **conf: Any) -> Any:
        return self.lib.Producer(self.producing(**conf))

    def consumer(self, **conf: Any) -> Any:
        return self.lib.Consumer(self.consuming(**conf))

    def fill(self) -> None:
        producer = self.producer()
        for number in range(10):
            producer.produce(
                self.topic,
                f"value {number}",
                f"key {number}",
                partition=0,
                timestamp=BASE_MS + number * 1000,
                headers=[("number", str(number)), ("number", None)],
            )
        assert producer.flush(WAIT_S) == 0

    def at(self, partition: int = 0, offset: int = -1001) -> Any:
        return self.lib.TopicPartition(self.topic, partition, offset)

    def plain(self, value: Any) -> Any:
        """Return a result in types that both libraries have, without topic and group names."""
        if isinstance(value, list | tuple):
            return [self.plain(each) for each in value]
        if isinstance(value, dict):
            return {self.plain(key): self.plain(each) for key, each in value.items()}
        if isinstance(value, self.lib.TopicPartition):
            metadata = METADATA if (value.metadata or "").startswith(METADATA) else value.metadata
            return [
                self.plain(value.topic),
                value.partition,
                value.offset,
                metadata,
                self.plain(value.error),
            ]
        if isinstance(value, self.lib.KafkaError):
            return (
                "error",
                value.name(),
                value.fatal(),
                value.retriable(),
                value.txn_requires_abort(),
            )
        if isinstance(value, self.lib.Message):
            names = (
                "topic",
                "partition",
                "offset",
                "key",
                "value",
                "headers",
                "timestamp",
                "error",
            )
            return [self.plain(getattr(value, name)()) for name in names]
        return (
            re.sub(rf"side-by-side-{_RUN}-\d+", "TOPIC", value) if isinstance(value, str) else value
        )

    def tried(self, call: Callable[[], Any]) -> Any:
        """Return the plain result of a call, or the class and text of its exception."""
        try:
            return self.plain(call())
        except (RuntimeError, TypeError, ValueError, BufferError, self.lib.KafkaException) as error:
            cause = error.args[0] if error.args else None
            text = self.plain(cause) if isinstance(cause, self.lib.KafkaError) else str(error)
            return type(error).__name__, text


def outcomes(cluster: Stage, use: Callable[[Side], Any]) -> list[Any]:
    """Return the results or exceptions of ``use``: confluent_kafka's and ours."""
    sides = [Side(lib, cluster) for lib in BOTH]
    return [side.tried(lambda side=side: use(side)) for side in sides]


def assert_same(cluster: Stage, use: Callable[[Side], Any]) -> None:
    """Check that both libraries have the same result."""
    theirs, ours = outcomes(cluster, use)
    assert ours == theirs, f"\n{ours} of kafka_native\n{theirs} of confluent_kafka"


def on_both(test: Callable[..., Any]) -> Callable[..., None]:
    """Run a test with each library, and check that both return or raise the same.

    The test gets a `Side` in place of the fixture ``cluster``. It may be a coroutine.
    """

    @functools.wraps(test)
    def compare(cluster: Stage, **given: Any) -> None:
        def use(side: Side) -> Any:
            result = test(side, **given)
            return run(result) if inspect.iscoroutine(result) else result

        assert_same(cluster, use)

    _, *others = inspect.signature(test).parameters.values()
    parameters = [inspect.Parameter("cluster", inspect.Parameter.POSITIONAL_OR_KEYWORD), *others]
    compare.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return compare


def next_message(consumer: Any) -> Any:
    """Return the next message. confluent_kafka's poll() may also return None early."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None:
            return message
    raise AssertionError("no message in time")


def installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
