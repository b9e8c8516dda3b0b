"""Java's producer with the calls of the other clients, for the process of a run.

It runs in a Java process of its own (java/AckedProducer.java), which faults meet together with this
one.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.broker import java
from tests.broker.acked.peer_producer import OnDelivery, PeerProducer
from tests.harness.processes import guarded
from tests.waiting import PROGRAM_S

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


class JavaProducer(PeerProducer):
    """Runs Java's producer. Reports come from `poll()` and `flush()`."""

    def __init__(self, conf: Mapping[str, Any], topic: str, classes: Path) -> None:
        """``classes``: the folder with the compiled source. It writes to one topic only."""
        super().__init__()
        values = {NAMES[name]: conf[name] for name in NAMES if name in conf}
        words = [f"{name}={str(value).lower()}" for name, value in values.items()]
        command = java.java_command(
            "AckedProducer", topic, *words, options=OPTIONS, plugins=classes
        )
        self._process = subprocess.Popen(
            guarded(*command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr
        )
        self._sent: dict[int, OnDelivery] = {}
        self._count = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        """Queue the reports: a message's number, and its offset or -1."""
        assert self._process.stdout is not None
        while len(data := self._process.stdout.read(REPORT.size)) == REPORT.size:
            number, offset = REPORT.unpack(data)
            error = None if offset >= 0 else "Java's producer has reported an error"
            self._report(self._sent.pop(number), error, None if error else offset)

    def produce(self, topic: str, value: bytes, partition: int, on_delivery: OnDelivery) -> None:
        """Send a message. Raise BufferError if too many have no report."""
        del topic  # the one that the constructor was given
        self._begin()
        assert self._process.stdin is not None
        self._sent[self._count] = on_delivery
        self._count += 1
        self._process.stdin.write(MESSAGE.pack(partition, len(value)) + value)

    def poll(self, timeout: float = 0) -> int:
        """Pass the messages on, then see `PeerProducer.poll`."""
        assert self._process.stdin is not None
        self._process.stdin.flush()
        return super().poll(timeout)

    def close(self) -> None:
        """End the Java process. Messages without a report may be lost."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PROGRAM_S)
        self._reader.join()
        self._process.stdout.close()
