"""The size of a micro-batch: ``maxOffsetsPerTrigger`` and ``minOffsetsPerTrigger``.

The rules are those of Spark's own connector, so that a job behaves the same with both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafka_native.spark.offsets import Key


def share_out(starts: Mapping[Key, int], ends: Mapping[Key, int], limit: int) -> dict[Key, int]:
    """The end of a micro-batch of about ``limit`` offsets.

    The limit is shared in proportion to the partitions' sizes. Each partition with new offsets gets
    at least one, so that a large one never starves a small one. With more partitions than ``limit``
    the batch is larger than ``limit``.

    :param starts: The micro-batch's start for each partition of ``ends``.
    :param ends: The partitions' ends.
    :param limit: A number of offsets, at least 1.
    :return: An offset for each partition of ``ends``, not beyond the end.
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
    """Delays micro-batches until there are enough offsets or the last batch is too long ago."""

    def __init__(self, longest_s: float, clock: Callable[[], float]) -> None:
        """``longest_s``: seconds, from ``maxTriggerDelay``; ``clock`` returns monotonic seconds."""
        self._longest_s = longest_s
        self._clock = clock
        self._last_s: float | None = None

    def has_enough(self, starts: Mapping[Key, int], ends: Mapping[Key, int], least: int) -> bool:
        """Whether to start a micro-batch now.

        True starts the delay again. The first call is True.
        """
        now = self._clock()
        there = sum(max(0, end - starts[key]) for key, end in ends.items())
        if there < least and self._last_s is not None and now - self._last_s < self._longest_s:
            return False
        self._last_s = now
        return True
