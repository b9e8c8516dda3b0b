"""The load: numbered values to every partition at a steady rate, and what of it was acked where."""

from __future__ import annotations

import threading
import time
from typing import Any

import kafka_native
from tests.broker import payload
from tests.broker.chaos.history import Key
from tests.broker.cluster import Cluster, quiet

STEP_S = 0.02


class Load(threading.Thread):
    """Produces until it is told to stop. With idempotence; it isn't what is judged here."""

    def __init__(self, cluster: Cluster, rate: int, acked: dict[Key, dict[int, int]]) -> None:
        super().__init__(daemon=True)
        conf = {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 5}
        self._producer = kafka_native.Producer(quiet({**conf, "message.timeout.ms": 120_000}))
        self._rate = rate
        self._acked = acked
        self._partitions: list[Key] = []
        self._ended = threading.Event()
        self.failed: list[str] = []
        self.ends: dict[Key, int] = {}  # one past the last acked
        self.sent = 0

    def widen(self, topic: str, count: int) -> None:
        """The topic has this many partitions now."""
        known = set(self._partitions)
        self._partitions = [*self._partitions, *((topic, n) for n in range(count) if (topic, n) not in known)]

    def run(self) -> None:
        try:
            self._produce_on()
        except Exception as error:
            self.failed.append(f"the load ended: {error}")

    def _produce_on(self) -> None:
        share = max(1, int(self._rate * STEP_S))
        next_at = time.monotonic()
        while not self._ended.is_set():
            partitions = self._partitions
            for _ in range(share):
                self._produce(partitions[self.sent % len(partitions)], self.sent)
                self.sent += 1
            self._producer.poll(0)
            next_at = max(next_at + STEP_S, time.monotonic() - 1)
            self._ended.wait(max(next_at - time.monotonic(), 0))

    def _produce(self, key: Key, number: int) -> None:
        def on_delivery(error: Any, message: Any) -> None:
            if error is not None:
                self.failed.append(str(error))
            else:
                self._acked.setdefault(key, {})[message.offset()] = number
                self.ends[key] = max(self.ends.get(key, 0), message.offset() + 1)

        value = payload.make(*key, number)
        while True:
            try:
                self._producer.produce(key[0], value, partition=key[1], on_delivery=on_delivery)
                return
            except BufferError:
                self._producer.poll(0.1)

    def end(self) -> None:
        """Stops, and waits until everything is settled."""
        self._ended.set()
        self.join(60)
        deadline = time.monotonic() + 90
        while len(self._producer) and time.monotonic() < deadline:
            self._producer.poll(0.2)
        assert not len(self._producer), f"{len(self._producer)} messages were not settled"
        assert not self.failed, f"{len(self.failed)} messages failed: {self.failed[0]}"
