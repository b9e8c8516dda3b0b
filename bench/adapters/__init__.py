"""Adapters: one module for each client.

An adapter has a function for each scenario that it can run. It takes a `Task` and returns
`Figures`. It runs in a new process, so the CPU time is the client's alone.
"""

from __future__ import annotations

import json
import os
import random
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

ADAPTERS = (
    "kafka_native",
    "confluent_kafka",
    "aiokafka",
    "kafka_python",
    "kafkarrow",
    "librdkafka",
    "java",
    "franz_go",
    "krafka",
    "rdkafka",
    "raw",
)
PYTHON = ("kafka_native", "confluent_kafka", "aiokafka", "kafka_python", "kafkarrow")
PROGRAMS = ("librdkafka", "java", "franz_go", "krafka", "rdkafka")
"""Adapters of programs in other languages."""
PLAINTEXT = "plaintext"  # the name of kafka_native without TLS, next to the TLS measurements
QUEUE_MESSAGES = 2_000_000
LARGE_BYTES = 900_000
# A value of 1 MB needs more than the clients' default limit. It fits into the broker's.
LARGE_LIMIT = 1_040_000
VALUES = 10_000
PRODUCING = ("produce", "many", "produce_arrow", "callback", "spread", "aio_produce")
# Scenarios that read the result of one produce run.
READING = ("consume", "group", "poll", "iterate", "memory", "arrow", "aio_poll", "copy")
SCENARIOS = (
    *PRODUCING,
    *READING,
    "latency",
    "round_trip",
    "call",
    "end_to_end",
    "cold",
    "wide",
    "transaction",
    "imports",
)
LATENCIES = ("latency", "round_trip", "end_to_end", "transaction")
RATE = 1000  # messages per second of end_to_end and round_trip
BURST_S = 1e-3
COLD_STARTS = 5
IDLE_S = 5.0


@dataclass(frozen=True)
class Task:
    """The parameters of a measurement: ``count`` messages of ``size`` bytes, and so on.

    ``protocol`` is the group's. ``second_topic`` is the target of copy, and for wide a topic with
    one partition for the comparison. ``tls`` is a listener with TLS, and ``ca`` the file of its
    authority. ``pids`` are the processes of a broker that the benchmark has started. ``batch`` is
    the largest number of messages in a batch, 0 for the client's default. ``member``: consumers
    join a group. ``rate``: messages per second of a steady producer. ``whole``: the figures are
    those of the whole process, from its start, and nothing runs before the clock.
    """

    bootstrap: str
    topic: str
    count: int
    size: int
    partitions: int
    acks: str = "1"
    idempotent: bool = False
    codec: str = "none"
    payload: str = "x"
    threads: int = 1
    topics: int = 1
    protocol: str = "classic"
    second_topic: str = ""
    tls: str = ""
    ca: str = ""
    pids: tuple[int, ...] = ()
    batch: int = 0
    member: bool = False
    rate: int = RATE
    whole: bool = False

    @property
    def servers(self) -> dict[str, str]:
        """The properties of the connection."""
        if not self.tls:
            return {"bootstrap.servers": self.bootstrap}
        return {
            "bootstrap.servers": self.tls,
            "security.protocol": "ssl",
            "ssl.ca.location": self.ca,
        }

    def group(self, number: int = 0) -> dict[str, Any]:
        """The properties of a consumer that reads a topic from the beginning in a new group."""
        return {
            **self.servers,
            "group.id": f"{self.topic}-{os.getpid()}-{number}",
            "auto.offset.reset": "earliest",
            **({} if self.protocol == "classic" else {"group.protocol": self.protocol}),
        }

    @property
    def config(self) -> dict[str, Any]:
        """The properties of a producer, with a queue for loops that are faster than the broker."""
        conf = {
            **self.servers,
            "compression.type": self.codec,
            "queue.buffering.max.messages": QUEUE_MESSAGES,
        }
        if self.size > LARGE_BYTES:
            conf["message.max.bytes"] = LARGE_LIMIT
        if self.batch:
            conf["batch.num.messages"] = self.batch
        acks = "all" if self.idempotent else self.acks
        return conf | {"acks": acks, "enable.idempotence": self.idempotent}

    def warm_up(self, messages: int) -> int:
        """How many messages a steady producer sends first: up to two seconds of them."""
        return min(messages, 2 * self.rate)

    def names(self) -> list[str]:
        """The topics of spread, which exist before it starts."""
        return [f"{self.topic}-{number}" for number in range(self.topics)]

    def values(self) -> list[bytes]:
        """The values to produce in turn, the same for each client and run."""
        if self.payload == "x":
            return [b"x" * self.size]
        chance = random.Random(1)
        return [_event(chance, number) for number in range(VALUES)]


@dataclass
class Figures:
    """The result of a measurement.

    ``percentiles`` are in milliseconds. ``call_ns`` is the result of the scenario call. ``more``
    has figures with the unit in their names. The runner adds the last three: the CPU time of the
    broker while the client's process ran, the bytes that both sent over the loopback interface, and
    the peak of the client's resident memory. They are 0 if they were not measured.
    """

    count: int
    seconds: float
    cpu_seconds: float
    percentiles: dict[str, float] = field(default_factory=dict)
    call_ns: float = 0.0
    more: dict[str, float] = field(default_factory=dict)
    broker_cpu_seconds: float = 0.0
    wire_bytes: int = 0
    peak_mib: float = 0.0

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.count / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU microseconds per message."""
        return self.cpu_seconds / self.count * 1e6

    @property
    def broker_cpu_us(self) -> float:
        """CPU microseconds of the broker per message."""
        return self.broker_cpu_seconds / self.count * 1e6


class Stopwatch:
    """Measures wall time and CPU time of this process since it was made."""

    def __init__(self) -> None:
        self._cpu = self._used()
        self._started = time.perf_counter()

    @staticmethod
    def _used() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    def figures(self, count: int) -> Figures:
        """The figures until now."""
        return Figures(count, time.perf_counter() - self._started, self._used() - self._cpu)


def _event(chance: random.Random, number: int) -> bytes:
    """A JSON event of a web shop: about 175 bytes, which gzip reduces to a sixth."""
    return json.dumps(
        {
            "id": 1_000_000 + number,
            "user": f"user-{chance.randrange(1_000_000)}",
            "type": chance.choice(["view", "click", "cart", "buy"]),
            "page": f"/products/{chance.randrange(5000)}",
            "country": chance.choice(["de", "fr", "us", "jp"]),
            "price": round(chance.random() * 100, 2),
            "at": 1_700_000_000_000 + number * 7 + chance.randrange(7),
            "session": f"{chance.getrandbits(32):08x}",
            "mobile": chance.random() < 0.5,
        }
    ).encode()


def percentiles(milliseconds: list[float]) -> dict[str, float]:
    """The percentiles p50, p99 and p99.9."""
    ordered = sorted(milliseconds)
    shares = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
    return {
        name: ordered[min(len(ordered) - 1, int(len(ordered) * share))]
        for name, share in shares.items()
    }


def steadily(rate: int, count: int, send: Callable[[float], object]) -> None:
    """Call a function at a steady rate, each time with the time now.

    It has a thread of its own, and another thread polls without a short timeout. Some clients round
    a timeout below a millisecond to 0: one thread for both would use a whole core for them.

    A delay isn't followed by a burst. At high rates up to a millisecond's messages follow at once:
    a loop in Python is late for each of them.
    """
    burst_s = BURST_S if rate > RATE else 0.0
    due = time.perf_counter()
    for _ in range(count):
        now = time.perf_counter()
        if now < due:
            time.sleep(due - now)
            now = time.perf_counter()
        send(now)
        due = max(due + 1 / rate, now - burst_s)
