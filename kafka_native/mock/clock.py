"""The clock that ends sessions, transactions and locks of the mock cluster."""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """A monotonic clock that a test can move forward. Its default source is the machine's clock."""

    def __init__(self, source: Callable[[], float] = time.monotonic) -> None:
        """Start at the time of the source."""
        self._source = source
        self._ahead_seconds = 0.0

    def now(self) -> float:
        """Return the time in seconds. Only differences have a meaning."""
        return self._source() + self._ahead_seconds

    def advance(self, seconds: float) -> None:
        """Move the clock forward. Raises ``ValueError`` for a negative number."""
        if not seconds >= 0:
            raise ValueError("time only moves forward")
        self._ahead_seconds += seconds
