"""Messages at a steady rate: the load of a run, not the subject of its rules."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import kafka_native
from tests.broker.cluster import Cluster, quiet


class Load(threading.Thread):
    """Produces with idempotence until it is stopped."""

    step_s = 0.02
    """The time between two steps."""

    def __init__(
        self, cluster: Cluster, rate: int, message: Callable[[int], dict[str, Any]], **conf: Any
    ) -> None:
        """``message`` makes the arguments of produce() for a message number, from 0 on."""
        super().__init__(daemon=True)
        base = {
            "bootstrap.servers": cluster.bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": 180_000,
        }
        self._producer = kafka_native.Producer(quiet({**base, **conf}))
        self._rate, self._message = rate, message
        self._ended = threading.Event()
        self.failed: list[str] = []
        self.sent = 0

    def acked(self, number: int, message: Any) -> None:
        """A message was written. For subclasses."""

    def run(self) -> None:
        """Produce in the thread."""
        try:
            self._produce_on()
        except Exception as error:
            self.failed.append(f"the load ended: {error}")

    def _produce_on(self) -> None:
        count = max(1, int(self._rate * self.step_s))
        next_at = time.monotonic()
        while not self._ended.is_set():
            self._produce_some(count)
            next_at = max(next_at + self.step_s, time.monotonic() - 1)
            self._ended.wait(max(next_at - time.monotonic(), 0))

    def _produce_some(self, count: int) -> None:
        """Produce the messages of a step."""
        for _ in range(count):
            self._produce(self.sent)
            self.sent += 1
        self._producer.poll(0)

    def _produce(self, number: int) -> None:
        def on_delivery(error: Any, message: Any) -> None:
            if error is not None:
                self.failed.append(str(error))
            else:
                self.acked(number, message)

        arguments = self._message(number)
        while True:
            try:
                self._producer.produce(**arguments, on_delivery=on_delivery)
                return
            except BufferError:
                self._producer.poll(0.1)

    def end(self, timeout_s: float = 90.0) -> None:
        """Stop, and wait until every message has an outcome."""
        self._ended.set()
        self.join(60)
        left = self._producer.flush(timeout_s)
        assert left == 0, f"{left} messages were not settled"
        assert not self.failed, f"{len(self.failed)} messages failed: {self.failed[0]}"
        self._producer.close()
