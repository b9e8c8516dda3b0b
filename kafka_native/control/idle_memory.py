"""Buffers that a consumer has needed and doesn't need now go back to the system.

Thread: the control thread only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native.control.requests import Call

if TYPE_CHECKING:
    from kafka_native._native.engine import Engine

KEPT_BYTES = 1 << 20
"""As much is always kept."""
CHECK_INTERVAL_S = 1.0
IDLE_CHECK_INTERVAL_S = 10.0
"""While there is nothing to give back."""


class IdleMemory:
    """Has the engine look for quiet times, as `Routing` does for a producer."""

    def __init__(self, engine: Engine) -> None:
        """Looks at ``engine.memory``."""
        self._engine = engine
        self._check_at = 0.0
        self._idle_bytes = 0

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        if now < self._check_at:
            return [], self._check_at
        before = self._idle_bytes
        queued_bytes, self._idle_bytes = self._engine.memory
        # What comes and goes between two looks is in use, even if nothing is queued in the very moment.
        if self._idle_bytes > KEPT_BYTES and self._idle_bytes == before and not queued_bytes:
            self._engine.expire()
        self._check_at = now + (CHECK_INTERVAL_S if self._idle_bytes > KEPT_BYTES else IDLE_CHECK_INTERVAL_S)
        return [], self._check_at
