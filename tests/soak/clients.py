"""One class for each kind of client, with the same few methods: begin some work, finish it, close.

An asyncio client lives in an event loop of its own thread, which `Loop` has.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any, ClassVar, TypeVar

from kafka_native import Client, Consumer, KafkaException, Producer, ShareConsumer
from kafka_native.admin import AdminClient
from kafka_native.aio import AIOConsumer, AIOProducer
from tests.waiting import WAIT_S

T = TypeVar("T")

_numbers = itertools.count()


DRAIN_S = 0.1


def unique(name: str) -> str:
    """Return a name that no client of any process had."""
    return f"{name}-{os.getpid()}-{next(_numbers)}"


def ignore(*_: object) -> None:
    """A callback that does nothing."""


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        """Start the thread."""
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = 2 * WAIT_S) -> T:
        """Run a coroutine to its end, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout_s)

    def start(self, work: Coroutine[Any, Any, object]) -> None:
        """Start a coroutine."""
        asyncio.run_coroutine_threadsafe(work, self.loop)

    def close(self) -> None:
        """Cancel all tasks, and end the thread."""
        self.run(self._cancel_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _cancel_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class Opened(ABC):
    """A client in use. ``topic`` has messages."""

    name: ClassVar[str]
    traits: ClassVar[frozenset[str]] = frozenset()
    """Of "produces", "consumes", "pauses", "transactional", "aio"."""
    own: ClassVar[Mapping[str, Any]] = {}
    """Properties of this kind."""

    def __init__(self, conf: Mapping[str, Any], topic: str, loop: Loop | None) -> None:
        """``loop`` is for asyncio clients. It belongs to the caller."""
        self.topic, self._loop = topic, loop
        base = {"reconnect.backoff.ms": 20, "error_cb": ignore, "log_cb": ignore}
        if "consumes" in self.traits:
            base["group.id"] = unique("g")
        if "transactional" in self.traits:
            base["transactional.id"] = unique("t")
        wanted = {**base, **self.own, **conf}
        if "consumes" not in self.traits:
            wanted = {key: value for key, value in wanted.items() if not key.startswith("group.")}
        if "transactional" not in self.traits:
            wanted.pop("transactional.id", None)
        if "produces" not in self.traits:
            wanted = {key: value for key, value in wanted.items() if key not in PRODUCER_ONLY}
        self.client: Any = self._make(wanted)

    @abstractmethod
    def _make(self, conf: dict[str, Any]) -> Any:
        """Make the client."""

    @abstractmethod
    def begin(self) -> None:
        """Begin work without waiting for it."""

    @abstractmethod
    def finish(self) -> None:
        """Wait until work has succeeded once. Raises KafkaException or AssertionError."""

    @abstractmethod
    def close(self, timeout_s: float) -> None:
        """Close it."""

    def pause(self) -> None:
        """Pause what it consumes. It raises if that isn't possible."""
        raise TypeError(f"{self.name} pauses nothing")

    def drain(self) -> None:  # noqa: B027 - many kinds have no messages
        """Take all messages that have arrived, after `begin()`."""

    def abandon(self) -> None:
        """Drop the client without closing it."""
        self.client = None

    @property
    def _running(self) -> Loop:
        assert self._loop is not None
        return self._loop


PRODUCER_ONLY = ("linger.ms", "enable.gapless.guarantee", "enable.idempotence")


class ProducerOpened(Opened):
    """A Producer."""

    name, traits = "producer", frozenset({"produces"})

    def _make(self, conf: dict[str, Any]) -> Any:
        return Producer(conf)

    def begin(self) -> None:
        self.client.produce(self.topic, b"begun", on_delivery=ignore)

    def finish(self) -> None:
        failed: list[Any] = []
        self.client.produce(
            self.topic, b"x", on_delivery=lambda error, message: failed.append(error)
        )
        assert self.client.flush(WAIT_S) == 0, "not delivered"
        assert failed == [None], failed

    def close(self, timeout_s: float) -> None:
        self.client.close(timeout_s)


class TransactionalOpened(ProducerOpened):
    """A transactional Producer. It begins a transaction, and doesn't end it."""

    name, traits = "transactional", frozenset({"produces", "transactional"})

    def begin(self) -> None:
        with suppress(KafkaException):  # no broker answers yet
            self.client.init_transactions(0.05)
            self.client.begin_transaction()
            super().begin()

    def finish(self) -> None:
        self.client.init_transactions(WAIT_S)
        self.client.begin_transaction()
        super().finish()


class AioProducerOpened(Opened):
    """An AIOProducer."""

    name, traits = "aio_producer", frozenset({"produces", "aio"})

    def _make(self, conf: dict[str, Any]) -> Any:
        async def make() -> AIOProducer:
            return AIOProducer(conf)

        return self._running.run(make())

    def begin(self) -> None:
        self._running.start(self._produce())

    async def _produce(self) -> None:
        with suppress(KafkaException, RuntimeError):  # closed meanwhile
            await (await self.client.produce(self.topic, b"begun"))

    def finish(self) -> None:
        async def deliver() -> None:
            await (await self.client.produce(self.topic, b"x"))

        self._running.run(deliver())

    def close(self, timeout_s: float) -> None:
        self._running.run(self.client.close(timeout_s))


class ConsumerOpened(Opened):
    """A Consumer in a group of the consumer protocol."""

    name, traits = "consumer", frozenset({"consumes", "pauses"})
    own: ClassVar[Mapping[str, Any]] = {
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
    }

    def _make(self, conf: dict[str, Any]) -> Any:
        return Consumer(conf)

    def begin(self) -> None:
        self.client.subscribe([self.topic])
        self.client.poll(0)

    def finish(self) -> None:
        self.client.subscribe([self.topic])
        deadline = time.monotonic() + WAIT_S
        while (message := self.client.poll(0.2)) is None or message.error() is not None:
            assert time.monotonic() < deadline, f"no message: {message and message.error()}"

    def pause(self) -> None:
        self.client.pause(self.client.assignment())

    def drain(self) -> None:
        self.client.consume(1000, DRAIN_S)

    def close(self, timeout_s: float) -> None:
        self.client.close(timeout_s)


class ClassicOpened(ConsumerOpened):
    """A Consumer in a classic group."""

    name = "classic"
    own: ClassVar[Mapping[str, Any]] = {
        "group.protocol": "classic",
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 100,
        "session.timeout.ms": 6000,
    }


class AioConsumerOpened(Opened):
    """An AIOConsumer."""

    name, traits = "aio_consumer", frozenset({"consumes", "pauses", "aio"})
    own = ConsumerOpened.own

    def _make(self, conf: dict[str, Any]) -> Any:
        async def make() -> AIOConsumer:
            return AIOConsumer(conf)

        return self._running.run(make())

    def begin(self) -> None:
        async def poll() -> None:
            await self.client.subscribe([self.topic])
            with suppress(KafkaException, RuntimeError):  # closed meanwhile
                await self.client.poll(0.2)

        self._running.start(poll())

    def finish(self) -> None:
        async def poll() -> None:
            await self.client.subscribe([self.topic])
            deadline = time.monotonic() + WAIT_S
            while (message := await self.client.poll(0.2)) is None or message.error() is not None:
                assert time.monotonic() < deadline, f"no message: {message and message.error()}"

        self._running.run(poll())

    def pause(self) -> None:
        async def pause() -> None:
            await self.client.pause(await self.client.assignment())

        self._running.run(pause())

    def drain(self) -> None:
        self._running.run(self.client.consume(1000, DRAIN_S))

    def close(self, timeout_s: float) -> None:
        self._running.run(self.client.close(timeout_s))


class ShareOpened(Opened):
    """A ShareConsumer."""

    name, traits = "share", frozenset({"consumes"})

    def _make(self, conf: dict[str, Any]) -> Any:
        return ShareConsumer(conf)

    def begin(self) -> None:
        self.client.subscribe([self.topic])
        self.client.poll(0)

    def finish(self) -> None:
        self.client.subscribe([self.topic])
        deadline = time.monotonic() + WAIT_S
        while not self.client.poll(0.2):
            assert time.monotonic() < deadline, "no message"

    def drain(self) -> None:
        self.client.poll(DRAIN_S)

    def close(self, timeout_s: float) -> None:
        self.client.close(timeout_s)


class AdminOpened(Opened):
    """An AdminClient."""

    name = "admin"

    def _make(self, conf: dict[str, Any]) -> Any:
        return AdminClient(conf)

    def begin(self) -> None:
        self.client.describe_cluster()

    def finish(self) -> None:
        self.client.describe_cluster().result(WAIT_S)

    def close(self, timeout_s: float) -> None:
        self.client.close()


class SharedOpened(Opened):
    """A shared client with a producer and a consumer."""

    name, traits = "shared", frozenset({"consumes", "pauses"})

    def _make(self, conf: dict[str, Any]) -> Any:
        group = {key: conf.pop(key) for key in list(conf) if key.startswith("group.")}
        host = Client(conf)
        self.producer = host.producer()
        self.consumer = host.consumer({**group, "auto.offset.reset": "earliest"})
        return host

    def begin(self) -> None:
        self.producer.produce(self.topic, b"begun", on_delivery=ignore)
        self.consumer.subscribe([self.topic])
        self.consumer.poll(0)

    def finish(self) -> None:
        self.producer.produce(self.topic, b"x")
        assert self.producer.flush(WAIT_S) == 0, "not delivered"
        self.consumer.subscribe([self.topic])
        assert self.consumer.poll(WAIT_S) is not None, "no message"

    def pause(self) -> None:
        self.consumer.pause(self.consumer.assignment())

    def drain(self) -> None:
        self.producer.produce(self.topic, b"x", on_delivery=ignore)
        self.producer.poll(0)
        self.consumer.consume(1000, DRAIN_S)

    def close(self, timeout_s: float) -> None:
        self.client.close(timeout_s)

    def abandon(self) -> None:
        del self.producer, self.consumer
        super().abandon()


KINDS: tuple[type[Opened], ...] = (
    ProducerOpened,
    TransactionalOpened,
    ConsumerOpened,
    ClassicOpened,
    ShareOpened,
    AdminOpened,
    AioProducerOpened,
    AioConsumerOpened,
    SharedOpened,
)
