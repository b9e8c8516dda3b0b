"""One producer as a process: it writes numbered messages and keeps the ledger.

    python -m tests.broker.acked.producer < settings, then commands

The command ``leave`` ends it: it waits for all reports, closes, and says how long that took.
`client_faults` has the other commands.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka

import kafka_native
from tests.broker import payload
from tests.broker.acked.aio_producer import AioProducer
from tests.broker.acked.java_producer import JavaProducer
from tests.broker.acked.ledger import (
    NOT_PERSISTED,
    PERSISTED,
    POSSIBLY_PERSISTED,
    number_of,
)
from tests.broker.acked.planted import BUGS, Bug
from tests.harness import client_faults
from tests.harness.processes import say

STEP_S = 0.02
FLUSH_S = 150.0


@dataclass
class Settings:
    """The settings of a producer. ``life`` is part of its messages' numbers.

    ``bug``: a mistake of `planted.BUGS` that it makes.
    """

    life: int
    client: str
    topic: str
    partitions: int
    rate: int
    size_bytes: int
    path: str
    conf: dict[str, Any]
    bug: str = ""
    classes: str = ""
    """The folder of Java's compiled producer."""

    def producer(self) -> Any:
        """Return a new producer of the client."""
        return CLIENTS[self.client](self)


CLIENTS: dict[str, Callable[[Settings], Any]] = {
    "ours": lambda settings: kafka_native.Producer(settings.conf),
    "confluent": lambda settings: confluent_kafka.Producer(settings.conf),
    "aiokafka": lambda settings: AioProducer(settings.conf),
    "java": lambda settings: JavaProducer(settings.conf, settings.topic, Path(settings.classes)),
}


class Producing:
    """Produces until it gets the command to leave."""

    def __init__(self, settings: Settings) -> None:
        self.leaving = threading.Event()
        self._settings = settings
        self._random = random.Random(settings.life)
        self._ledger = Path(settings.path).open("wb", buffering=1 << 20)  # noqa: SIM115
        self._producer: Any = settings.producer()
        self._bug = BUGS[settings.bug](self) if settings.bug else Bug(self)
        self._count = 0

    def run(self) -> None:
        """Return after the command to leave, when every message has its report."""
        share = max(1, int(self._settings.rate * STEP_S))
        next_at = time.monotonic()
        while not self.leaving.is_set():
            self._step(share)
            next_at = max(next_at + STEP_S, time.monotonic() - 1)
            self.leaving.wait(max(next_at - time.monotonic(), 0))
        began = time.monotonic()
        unsettled = self._producer.flush(FLUSH_S)
        flushed_s = time.monotonic() - began
        self._ledger.close()
        if self._settings.client == "ours":
            self._producer.close()
        say("left", unsettled=unsettled, flushed_s=flushed_s, seconds=time.monotonic() - began)

    def _step(self, share: int) -> None:
        """Write ``share`` messages to the ledger, then produce them."""
        batch = []
        for _ in range(share):
            number = number_of(self._settings.life, self._count)
            self._count += 1
            batch.append((number, self._random.randrange(self._settings.partitions)))
        for number, partition in batch:
            self._ledger.write(b"s %d %d\n" % (number, partition))
        self._ledger.flush()
        for number, partition in self._bug.order(batch):
            self._bug.send(number, partition)
        self._producer.poll(0)
        self._ledger.flush()

    def send(self, number: int, partition: int, value: bytes | None = None) -> None:
        """Produce a message, and wait while the queue is full."""
        topic, size_bytes = self._settings.topic, self._settings.size_bytes
        value = value or payload.make(topic, partition, number, size_bytes)

        def on_delivery(error: Any, message: Any) -> None:
            self._bug.report(number, partition, message.offset(), self._status(error, message))

        while True:
            try:
                self._producer.produce(topic, value, partition=partition, on_delivery=on_delivery)
                return
            except BufferError:
                self._producer.poll(0.1)
                self._ledger.flush()

    def value_for(self, number: int, partition: int) -> bytes:
        """Return a message's value, for planted bugs."""
        return payload.make(self._settings.topic, partition, number, self._settings.size_bytes)

    def write(self, number: int, partition: int, offset: int | None, status: str) -> None:
        """Write a report to the ledger."""
        place = -1 if offset is None or status != PERSISTED else offset
        self._ledger.write(b"r %d %d %d %s\n" % (number, partition, place, status.encode()))

    def is_refused(self) -> bool:
        """Use the producer in a forked child. Return whether it refuses that."""
        if self._settings.client != "ours":
            return True  # librdkafka doesn't refuse it
        try:
            self._producer.produce(self._settings.topic, b"of a forked child")
        except RuntimeError:
            return True
        return False

    def _status(self, error: Any, message: Any) -> str:
        if error is None:
            return PERSISTED
        if self._settings.client != "ours":
            return POSSIBLY_PERSISTED  # its Python client doesn't tell
        never = message.status() == kafka_native.MessageStatus.NOT_PERSISTED
        return NOT_PERSISTED if never else POSSIBLY_PERSISTED


def main() -> None:
    producing = Producing(Settings(**json.loads(sys.stdin.readline())))
    client_faults.listen(producing.leaving, producing.is_refused)
    try:
        producing.run()
    except Exception as error:
        say("error", text=repr(error))
        os._exit(1)
    os._exit(0)  # the listener still reads


if __name__ == "__main__":
    main()
