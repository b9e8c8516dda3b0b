"""Steps of a scenario of which one call fails: retry, and judge the result."""

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
"""The exceptions that a method may raise after a failed call."""
TRIES_MAX = 10
"""More exceptions have another reason. A connection's error is reported for each partition."""
FREED_S = 5.0
"""After this time nothing of a closed client may be left."""


class BadEndingError(Exception):
    """A client did something that it must not do even after a failed call."""


class Run:
    """One scenario in one process. ``limit_s`` is the limit of any single wait."""

    def __init__(
        self, conf: dict[str, Any], prefix: str, limit_s: float, has_failed: Callable[[], bool]
    ) -> None:
        self._conf = conf
        self.prefix = prefix
        self.limit_s = limit_s
        self.has_failed = has_failed
        self.raised: list[str] = []
        self.acked: dict[str, list[str]] = {}

    def topic(self, name: str) -> str:
        """Return the name of a topic (group, transactional id) of this run only."""
        return f"{self.prefix}-{name}"

    def conf(self, **conf: Any) -> dict[str, Any]:
        """Return a client's properties, with underscores for dots."""
        base = {**self._conf, "reconnect.backoff.ms": 20}
        return {
            **base,
            **{name.replace("_", ".") if name != "stats_cb" else name: conf[name] for name in conf},
        }

    def step(self, what: str, call: Callable[[], T]) -> T:
        """Return a call's value. If it raises after a failed call, repeat it, as a program would."""
        for _ in range(TRIES_MAX):
            began = time.monotonic()
            try:
                return call()
            except RECOVERABLE as error:
                self.raised.append(f"{what}: {error!r}")
                if not self.has_failed():
                    raise BadEndingError(
                        f"{what} raised without a failed call: {error!r}"
                    ) from error
            finally:
                self.check_time(what, began)
        raise BadEndingError(f"{what} fails again and again: {self.raised}")

    @contextmanager
    def client(self, what: str, make: Callable[[], Closable]) -> Iterator[Closable]:
        """Yield a client, and close it unless the block failed:

        a hanging client may hang in close() too.
        """
        client = self.step(what, make)
        yield client
        self.step("close", client.close)

    def until(self, what: str, call: Callable[[], object], done: Callable[[], object]) -> None:
        """Repeat a call until ``done()``, which must be true in time."""
        began = time.monotonic()
        while not done():
            if time.monotonic() - began > self.limit_s:
                raise BadEndingError(
                    f"{what}: nothing comes of it in {self.limit_s} s ({self.raised})"
                )
            self.step(what, call)

    def check_time(self, what: str, began: float) -> None:
        """Check that a wait wasn't too long."""
        took_s = time.monotonic() - began
        if took_s > self.limit_s + 1:
            raise BadEndingError(f"{what} took {took_s:.1f} s")

    def check_freed(self) -> None:
        """Check that nothing of closed clients is left."""
        deadline = time.monotonic() + FREED_S
        while left := {kind: count for kind, count in live_objects().items() if count}:
            if time.monotonic() > deadline:
                raise BadEndingError(f"left behind: {left}")
            gc.collect()
            time.sleep(0.01)


class Reports:
    """Counts delivery reports by the messages' values."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.accepted: Counter[str] = Counter()
        self.reported: Counter[str] = Counter()

    def on_delivery(self, error: Any, message: Any) -> None:
        name = message.value().decode().rstrip(".")
        self.reported[name] += 1
        if error is None:
            self._run.acked.setdefault(message.topic(), []).append(name)

    def check(self) -> None:
        """Check that each accepted message has one report, and no other has any."""
        if self.reported != self.accepted:
            missing, excess = self.accepted - self.reported, self.reported - self.accepted
            raise BadEndingError(
                f"reports missing: {sorted(missing)[:5]} of {missing.total()}, too many: {excess}"
            )
