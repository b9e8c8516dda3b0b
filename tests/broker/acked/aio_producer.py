"""aiokafka's producer with the calls of the other clients, for the process of a run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.broker.acked.peer_producer import OnDelivery, PeerProducer

NAMES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "bootstrap.servers": ("bootstrap_servers", str),
    "client.id": ("client_id", str),
    "enable.idempotence": ("enable_idempotence", bool),
    "acks": ("acks", lambda value: value if value == "all" else int(value)),
    "linger.ms": ("linger_ms", int),
    "compression.type": ("compression_type", lambda value: None if value == "none" else value),
}
"""aiokafka's names. It has no counterparts of the other properties."""
START_S = 60.0


class Message(NamedTuple):
    """A message that waits for `send()`."""

    topic: str
    value: bytes
    partition: int
    on_delivery: OnDelivery


class AioProducer(PeerProducer):
    """Runs aiokafka in an event loop of its own. Reports come from `poll()` and `flush()`."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        super().__init__()
        known = {NAMES[name][0]: NAMES[name][1](conf[name]) for name in NAMES if name in conf}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        started: Future[None] = Future()
        self._task = asyncio.run_coroutine_threadsafe(self._send_all(known, started), self._loop)
        started.result(START_S)

    async def _send_all(self, conf: dict[str, Any], started: Future[None]) -> None:
        """Send one message after the other, so that each partition's messages keep their order."""
        producer = AIOKafkaProducer(**conf)
        try:
            await producer.start()
        except Exception as error:
            started.set_exception(error)
            return
        started.set_result(None)
        while True:
            message = await self._messages.get()
            try:
                sent = await producer.send(
                    message.topic, message.value, partition=message.partition
                )
            except KafkaError as error:
                self._report(message.on_delivery, error, None)
            else:
                sent.add_done_callback(partial(self._done, message))

    def _done(self, message: Message, sent: asyncio.Future[Any]) -> None:
        error = sent.exception()
        offset = None if error else sent.result().offset
        self._report(message.on_delivery, error, offset)

    def produce(self, topic: str, value: bytes, partition: int, on_delivery: OnDelivery) -> None:
        """Queue a message. Raise BufferError if too many have no report."""
        if self._task.done():
            self._task.result()  # the error that has ended it
        self._begin()
        message = Message(topic, value, partition, on_delivery)
        self._loop.call_soon_threadsafe(self._messages.put_nowait, message)
