"""Java's producer with the calls of the other clients, for the process of a run.

It runs in a Java process of its own (java/AckedProducer.java), which faults meet together with this
one.
"""

from __future__ import annotations

import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.broker import java
from tests.broker.acked.peer_producer import WAITING_MAX, PeerProducer, Written
from tests.harness.processes import guarded

SOURCE = Path(__file__).parents[1] / "java" / "AckedProducer.java"
NAMES = {
    "bootstrap.servers": "bootstrap.servers",
    "client.id": "client.id",
    "enable.idempotence": "enable.idempotence",
    "acks": "acks",
    "linger.ms": "linger.ms",
    "compression.type": "compression.type",
    "reconnect.backoff.max.ms": "reconnect.backoff.max.ms",
    "message.timeout.ms": "delivery.timeout.ms",
    "socket.timeout.ms": "request.timeout.ms",
}
"""Java's names. It has no counterparts of the other properties."""
OPTIONS = ["-Xmx1g"]
"""A quarter of a usual machine's memory. A false length in a frame can ask for more."""
MESSAGE, REPORT = struct.Struct(">ii"), struct.Struct(">qq")


class Report(NamedTuple):
    """What Java says of a message: its number, and its offset or -1."""

    number: int
    offset: int


class JavaProducer(PeerProducer):
    """Runs Java's producer. Reports come from `poll()` and `flush()`."""

    def __init__(self, conf: Mapping[str, Any], topic: str, classes: Path) -> None:
        """``classes``: the folder with the compiled source. It writes to one topic only."""
        values = {NAMES[name]: conf[name] for name in NAMES if name in conf}
        words = [f"{name}={str(value).lower()}" for name, value in values.items()]
        command = java.java_command(
            "AckedProducer", topic, *words, options=OPTIONS, plugins=classes
        )
        self._process = subprocess.Popen(
            guarded(*command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr
        )
        self._waiting: dict[int, Callable[[Any, Any], None]] = {}
        self._count = 0
        self._reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        while len(data := self._process.stdout.read(REPORT.size)) == REPORT.size:
            self._reports.put(Report(*REPORT.unpack(data)))

    def __len__(self) -> int:
        return len(self._waiting)

    def produce(
        self, topic: str, value: bytes, partition: int, on_delivery: Callable[[Any, Any], None]
    ) -> None:
        """Send a message. Raise BufferError if too many have no report."""
        del topic  # the one that the constructor was given
        if len(self._waiting) >= WAITING_MAX:
            raise BufferError("too many messages without a report")
        assert self._process.stdin is not None
        self._waiting[self._count] = on_delivery
        self._count += 1
        self._process.stdin.write(MESSAGE.pack(partition, len(value)) + value)

    def poll(self, timeout: float = 0) -> int:
        """See `PeerProducer.poll`."""
        assert self._process.stdin is not None
        self._process.stdin.flush()
        count = 0
        while True:
            try:
                report = self._reports.get(timeout=timeout) if timeout else self._reports.get(False)
            except queue.Empty:
                return count
            error = None if report.offset >= 0 else "Java's producer has reported an error"
            self._waiting.pop(report.number)(error, Written(None if error else report.offset))
            count, timeout = count + 1, 0
