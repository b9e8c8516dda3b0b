"""A producer or a consumer of a Python client: ``python -m bench.recovery.worker``.

Its standard input is a line of settings. It ends with the next line.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from bench.recovery import (
    ACK,
    COMMIT,
    FAILURE,
    MESSAGE,
    PRODUCE,
    REFUSAL,
    Settings,
)

FLUSH_S = 5.0
POLL_S = 0.02


class Worker:
    """Runs a client with its default settings until standard input has another line."""

    def __init__(self, settings: Settings, log: TextIO) -> None:
        self._settings, self._log = settings, log
        self._library = importlib.import_module(settings.client)
        self._ended = threading.Event()

    def run(self) -> None:
        """Produce or consume."""
        threading.Thread(target=self._wait_for_the_end, daemon=True).start()
        if self._settings.role == PRODUCE:
            self._produce()
        else:
            self._consume()

    def _wait_for_the_end(self) -> None:
        sys.stdin.readline()
        self._ended.set()

    def _write(self, kind: str, partition: int, begin: int, text: object = "") -> None:
        self._log.write(f"{kind} {partition} {begin} {time.monotonic_ns()} {text}".rstrip() + "\n")

    def _produce(self) -> None:
        settings = self._settings
        producer = self._library.Producer({"bootstrap.servers": settings.servers, "acks": "all"})
        next_at = time.monotonic()
        while not self._ended.is_set():
            for partition in range(settings.partitions):
                begin = time.monotonic_ns()
                report = partial(self._delivered, partition, begin)
                value = str(begin).encode()
                try:
                    producer.produce(settings.topic, value, partition=partition, on_delivery=report)
                except BufferError as error:
                    self._write(FAILURE, partition, begin, error)
            next_at += settings.every_ms / 1e3
            producer.poll(max(next_at - time.monotonic(), 0))
            time.sleep(max(next_at - time.monotonic(), 0))
        producer.flush(FLUSH_S)

    def _delivered(self, partition: int, begin: int, error: Any, message: Any) -> None:
        self._write(ACK if error is None else FAILURE, partition, begin, error or "")

    def _consume(self) -> None:
        settings = self._settings
        consumer = self._library.Consumer(
            {
                "bootstrap.servers": settings.servers,
                "group.id": settings.group,
                "auto.offset.reset": "latest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([settings.topic])
        commit_at = time.monotonic()
        while not self._ended.is_set():
            message = consumer.poll(POLL_S)
            if message is not None and message.error() is None:
                self._write(MESSAGE, message.partition(), int(message.value()))
            if settings.commits and time.monotonic() >= commit_at:
                self._commit(consumer)
                commit_at = time.monotonic() + settings.commit_every_ms / 1e3
        consumer.close()

    def _commit(self, consumer: Any) -> None:
        """Commit. The attempt after a failure comes at the usual time."""
        begin = time.monotonic_ns()
        try:
            consumer.commit(asynchronous=False)
        except self._library.KafkaException as error:
            self._write(REFUSAL, -1, begin, error)
        else:
            self._write(COMMIT, -1, begin)


def main() -> None:
    settings = Settings(**json.loads(sys.stdin.readline()))
    # A line at a time, so that a reader finds each event at once.
    with Path(settings.output).open("a", encoding="ascii", buffering=1) as log:
        Worker(settings, log).run()


if __name__ == "__main__":
    main()
