"""What a scenario does with a client whose memory runs out once: try again, and judge what comes of it."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from kafka_native import KafkaException
from kafka_native._native.engine import live_objects


class _Closable(Protocol):
    def close(self) -> object: ...


T = TypeVar("T")
Closable = TypeVar("Closable", bound=_Closable)

RECOVERABLE = (MemoryError, KafkaException, BufferError)
"""What a call may raise for want of memory."""
TRIES_MAX = 10
"""What raises more often does so for another reason; an error of a connection is told for each of its partitions."""
FREED_S = 5.0
"""Until nothing of a closed client is left."""


class BadEndingError(Exception):
    """A client did what it must not do, however little memory there is."""


class Run:
    """One scenario in one process. ``limit_s``: how long any single wait may take."""

    def __init__(self, conf: dict[str, Any], prefix: str, limit_s: float, has_failed: Callable[[], bool]) -> None:
        self._conf = conf
        self.prefix = prefix
        self.limit_s = limit_s
        self.has_failed = has_failed
        self.raised: list[str] = []
        self.acked: dict[str, list[str]] = {}

    def topic(self, name: str) -> str:
        """The name of a topic (group, transactional id) of this run alone."""
        return f"{self.prefix}-{name}"

    def conf(self, **conf: Any) -> dict[str, Any]:
        """A client's properties, with underscores for dots."""
        base = {**self._conf, "reconnect.backoff.ms": 20}
        return {**base, **{name.replace("_", ".") if name != "stats_cb" else name: conf[name] for name in conf}}

    def step(self, what: str, call: Callable[[], T]) -> T:
        """The call's value. Where it raises for want of memory it is made again, as a program would."""
        for _ in range(TRIES_MAX):
            began = time.monotonic()
            try:
                return call()
            except RECOVERABLE as error:
                self.raised.append(f"{what}: {error!r}")
                if not self.has_failed():
                    raise BadEndingError(f"{what} raised without a failed allocation: {error!r}") from error
            finally:
                self.check_time(what, began)
        raise BadEndingError(f"{what} fails again and again: {self.raised}")

    @contextmanager
    def client(self, what: str, make: Callable[[], Closable]) -> Iterator[Closable]:
        """A client, closed behind the block; not where that ends badly: one that hangs may do so in close(), too."""
        client = self.step(what, make)
        yield client
        self.step("close", client.close)

    def until(self, what: str, call: Callable[[], object], done: Callable[[], object]) -> None:
        """Makes the call until ``done()``, which has to be true in time."""
        began = time.monotonic()
        while not done():
            if time.monotonic() - began > self.limit_s:
                raise BadEndingError(f"{what}: nothing comes of it in {self.limit_s} s ({self.raised})")
            self.step(what, call)

    def check_time(self, what: str, began: float) -> None:
        """A wait that is too long is a lost deadline."""
        took_s = time.monotonic() - began
        if took_s > self.limit_s + 1:
            raise BadEndingError(f"{what} took {took_s:.1f} s")

    def check_freed(self) -> None:
        """Nothing may be left of clients that are closed and gone."""
        deadline = time.monotonic() + FREED_S
        while left := {kind: count for kind, count in live_objects().items() if count}:
            if time.monotonic() > deadline:
                raise BadEndingError(f"left behind: {left}")
            gc.collect()
            time.sleep(0.01)


class Reports:
    """Counts the delivery reports of messages that are named by their values."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.accepted: Counter[str] = Counter()
        self.reported: Counter[str] = Counter()

    def on_delivery(self, error: Any, message: Any) -> None:
        """The callback of each message."""
        name = message.value().decode().rstrip(".")
        self.reported[name] += 1
        if error is None:
            self._run.acked.setdefault(message.topic(), []).append(name)

    def check(self) -> None:
        """Each message that was taken has one report, and no other has any."""
        if self.reported != self.accepted:
            missing, excess = self.accepted - self.reported, self.reported - self.accepted
            raise BadEndingError(f"reports missing: {sorted(missing)[:5]} of {missing.total()}, too many: {excess}")
