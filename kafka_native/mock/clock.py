"""The clock that ends sessions, transactions and locks of the mock cluster."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock:
    """The machine's clock, which a test can move forward."""

    def __init__(self, source: Callable[[], float] = time.monotonic) -> None:
        """Start at the time of the source."""
        self._source = source
        self._ahead_seconds = 0.0
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    def now(self) -> float:
        """Return the time in seconds. Only differences have a meaning."""
        return self._source() + self._ahead_seconds

    def time_ms(self) -> int:
        """Return the time of day in milliseconds since 1970."""
        return int((self._time_of_day() + self._ahead_seconds) * 1000)

    def advance(self, seconds: float) -> None:
        """Move the clock forward, and end everything in its clusters that is due.

        Raises ``ValueError`` for a negative number.
        """
        if not seconds >= 0:
            raise ValueError("time only moves forward")
        with self._lock:
            self._ahead_seconds += seconds
            callbacks = list(self._callbacks)
        for callback in callbacks:
            callback()

    def subscribe(self, callback: Callable[[], None]) -> None:
        """Call a function after each ``advance()``, until ``unsubscribe()``."""
        with self._lock:
            self._callbacks.append(callback)

    def unsubscribe(self, callback: Callable[[], None]) -> None:
        """End ``subscribe()``. An unknown function is ignored."""
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

    def _time_of_day(self) -> float:
        return time.time()


class VirtualClock(Clock):
    """A clock that stands still until ``advance()``.

    Several clusters can share one.

    :param start: The time of day at which it starts, in seconds since 1970. None means now.
    """

    def __init__(self, start: float | None = None) -> None:
        """Stand still at the start."""
        super().__init__(lambda: 0.0)
        self._start = time.time() if start is None else float(start)

    def _time_of_day(self) -> float:
        return self._start


class RequestWait:
    """How long a request waits for records: on the cluster's clock, and on the machine's.

    The first that is over ends the wait. So a client gets its answer also while a virtual clock
    stands still.
    """

    def __init__(self, clock: Clock, milliseconds: int) -> None:
        """Start a wait of this length. A negative one is over at once."""
        seconds = max(milliseconds, 0) / 1000
        self._clock = clock
        self._end = clock.now() + seconds
        self._machine_end = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds that are left, or 0."""
        return max(min(self._end - self._clock.now(), self._machine_end - time.monotonic()), 0.0)
