"""What is recorded between two pushes of client metrics, and isn't lost when a push fails.

Thread: the control thread only.
"""

from __future__ import annotations


class Mean:
    """How many values there were, their sum and the greatest."""

    __slots__ = ("_new", "_taken")

    def __init__(self) -> None:
        """None yet."""
        self._new = self._taken = (0, 0.0, 0.0)

    def record(self, value: float) -> None:
        """One value, 0 or more."""
        self.add(1, value, value)

    def add(self, count: int, total: float, most: float) -> None:
        """Several at once."""
        self._new = _sum_of(self._new, (count, total, most))

    def take(self) -> tuple[int, float, float]:
        """Count, sum and greatest of all that isn't settled."""
        self._taken = _sum_of(self._taken, self._new)
        self._new = (0, 0.0, 0.0)
        return self._taken

    def settle(self) -> None:
        """What was taken has arrived; what came since is for the next time."""
        self._taken = (0, 0.0, 0.0)


def _sum_of(left: tuple[int, float, float], right: tuple[int, float, float]) -> tuple[int, float, float]:
    return left[0] + right[0], left[1] + right[1], max(left[2], right[2])
