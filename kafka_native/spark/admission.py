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


class TriggerDelay:
    """Delays a micro-batch until there are enough offsets, or ``maxTriggerDelay`` is over."""

    def __init__(self, delay_max_s: float, clock: Callable[[], float]) -> None:
        """``delay_max_s``: ``maxTriggerDelay`` in seconds; ``clock`` returns monotonic seconds."""
        self._delay_max_s = delay_max_s
        self._clock = clock
        self._last_s: float | None = None

    def is_due(self, starts: Mapping[Key, int], ends: Mapping[Key, int], offsets_min: int) -> bool:
        """Whether to start a micro-batch now.

        The first call returns True. Each True starts the delay again.
        """
        now = self._clock()
        there = sum(max(0, end - starts[key]) for key, end in ends.items())
        waits = self._last_s is not None and now - self._last_s < self._delay_max_s
        if waits and there < offsets_min:
            return False
        self._last_s = now
        return True
