"""The mean of measured values, such as latencies.

Thread: the control thread only.
"""

from __future__ import annotations


class Mean:
    """The count, the sum and the maximum of values."""

    __slots__ = ("_new", "_taken")

    def __init__(self) -> None:
        """Starts without values."""
        self._new = self._taken = (0, 0.0, 0.0)

    def record(self, value: float) -> None:
        """Adds one value, 0 or more."""
        self.add(1, value, value)

    def add(self, count: int, total: float, maximum: float) -> None:
        """Adds the count, sum and maximum of several values."""
        self._new = _sum_of(self._new, (count, total, maximum))

    def take(self) -> tuple[int, float, float]:
        """Returns count, sum and maximum of all values since the last `settle()`."""
        self._taken = _sum_of(self._taken, self._new)
        self._new = (0, 0.0, 0.0)
        return self._taken

    def settle(self) -> None:
        """Drops the values that `take()` returned: the broker has them. Keeps newer ones."""
        self._taken = (0, 0.0, 0.0)


def _sum_of(
    left: tuple[int, float, float], right: tuple[int, float, float]
) -> tuple[int, float, float]:
    return left[0] + right[0], left[1] + right[1], max(left[2], right[2])
