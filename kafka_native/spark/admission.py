"""How much of what is there a micro-batch takes: ``maxOffsetsPerTrigger`` and ``minOffsetsPerTrigger``.

The rules are those of Spark's own connector, so that a job behaves the same with either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafka_native.spark.offsets import Key


def share_out(starts: Mapping[Key, int], ends: Mapping[Key, int], limit: int) -> dict[Key, int]:
    """Where a micro-batch ends that takes about ``limit`` offsets: of each partition in proportion to what it has.

    A partition that has anything gives one offset at least, so that a large one never starves a small one; with more
    partitions than ``limit`` the batch is that much larger.

    :param starts: Where the micro-batch starts, for each partition of ``ends``.
    :param ends: The partitions' ends.
    :param limit: Offsets, at least 1.
    :return: An offset for each partition of ``ends``, never beyond it.
    """
    sizes = {key: max(0, end - starts[key]) for key, end in ends.items()}
    total = sum(sizes.values())
    if total <= limit:
        return dict(ends)
    return {
        key: starts[key] + max(1, limit * sizes[key] // total) if sizes[key] else end
        for key, end in ends.items()
    }


class Patience:
    """Puts micro-batches off until there is enough for one, or the last one is long enough ago."""

    def __init__(self, longest_s: float, clock: Callable[[], float]) -> None:
        """``longest_s``: seconds, of ``maxTriggerDelay``; ``clock``: monotonic seconds."""
        self._longest_s = longest_s
        self._clock = clock
        self._last_s: float | None = None

    def has_enough(self, starts: Mapping[Key, int], ends: Mapping[Key, int], least: int) -> bool:
        """Whether a micro-batch is to be made now; it counts as made then. The first one always is."""
        now = self._clock()
        there = sum(max(0, end - starts[key]) for key, end in ends.items())
        if there < least and self._last_s is not None and now - self._last_s < self._longest_s:
            return False
        self._last_s = now
        return True
