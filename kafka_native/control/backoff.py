"""Exponential back-off with jitter (KIP-580)."""

from __future__ import annotations

import random
from collections.abc import Callable

JITTER = 0.2


class Backoff:
    """Delays that double from ``first_s`` to ``max_s`` seconds, each drawn from +-20 % around its value.

    A ``max_s`` below ``first_s`` counts as ``first_s``: the delay stays the same then.
    """

    def __init__(self, first_s: float, max_s: float, uniform: Callable[[float, float], float] = random.uniform) -> None:
        """``uniform`` is replaced by tests."""
        self.first_s = first_s
        self._max_s = max(first_s, max_s)
        self._uniform = uniform
        self.failures = 0

    def next_s(self) -> float:
        """The delay before the next attempt, in seconds."""
        delay = min(self.first_s * float(1 << min(self.failures, 30)), self._max_s)
        self.failures += 1
        return delay * self._uniform(1 - JITTER, 1 + JITTER)

    def reset(self) -> None:
        """It worked: start over."""
        self.failures = 0
