"""One module a client. Each has the scenarios it can run as functions of a `Task`, and returns a `Figures`.

A function is called in a process of its own, so the CPU time is the client's alone.
"""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass, field

ADAPTERS = ("kafka_native", "confluent_kafka", "raw")
SCENARIOS = ("produce", "many", "callback", "consume", "latency", "call")


@dataclass(frozen=True)
class Task:
    """What to do: ``count`` messages of ``size`` bytes, the topic has ``partitions``."""

    bootstrap: str
    topic: str
    count: int
    size: int
    partitions: int
    acks: str = "1"
    idempotent: bool = False


@dataclass
class Figures:
    """What came of it. ``percentiles`` in milliseconds, for latency; ``call_ns`` for call."""

    count: int
    seconds: float
    cpu_seconds: float
    percentiles: dict[str, float] = field(default_factory=dict)
    call_ns: float = 0.0

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.count / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU microseconds a message."""
        return self.cpu_seconds / self.count * 1e6


class Stopwatch:
    """Wall and CPU time of this process from its making on."""

    def __init__(self) -> None:
        self._cpu = self._used()
        self._started = time.perf_counter()

    @staticmethod
    def _used() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    def figures(self, count: int) -> Figures:
        """The times so far."""
        return Figures(count, time.perf_counter() - self._started, self._used() - self._cpu)


def percentiles(milliseconds: list[float]) -> dict[str, float]:
    """p50, p99 and p99.9."""
    ordered = sorted(milliseconds)
    shares = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
    return {name: ordered[min(len(ordered) - 1, int(len(ordered) * share))] for name, share in shares.items()}
