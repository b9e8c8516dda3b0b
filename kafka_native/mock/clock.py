"""The time by which sessions, transactions and locks of the mock cluster end."""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """A monotonic clock, the machine's by default, and what a test has moved it forward by."""

    def __init__(self, source: Callable[[], float] = time.monotonic) -> None:
        """Agree with the source."""
        self._source = source
        self._ahead_seconds = 0.0

    def now(self) -> float:
        """Seconds, comparable with each other only."""
        return self._source() + self._ahead_seconds

    def advance(self, seconds: float) -> None:
        """Move forward. Raises ``ValueError`` for a negative number."""
        if not seconds >= 0:
            raise ValueError("time only moves forward")
        self._ahead_seconds += seconds
