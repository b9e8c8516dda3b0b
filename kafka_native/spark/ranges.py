"""Ranges of offsets for tasks, and how they are split."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql.datasource import InputPartition

from kafka_native.spark.offsets import Key


@dataclass(frozen=True, order=True)
class OffsetRange(InputPartition):
    """A range of one partition's offsets, for one task. ``end`` is exclusive."""

    topic: str
    partition: int
    start: int
    end: int
    split: int = 0
    """The number of this piece of its partition, from 0 on."""
    topic_id: str = field(default="", compare=False)
    """The id of the topic that the offsets belong to. A recreated topic has another id.

    Empty: unknown.
    """
    lost: str = field(default="", compare=False)
    """The reason why the range can't be read, if it is known. Such a range is only reported."""

    @property
    def key(self) -> Key:
        """The topic and the partition."""
        return self.topic, self.partition

    @property
    def size(self) -> int:
        """The number of offsets. There may be fewer records."""
        return self.end - self.start

    def __str__(self) -> str:
        """A text for errors and logs."""
        return f"{self.topic} [{self.partition}] from offset {self.start} to {self.end}"


def ranges_of(
    starts: Mapping[Key, int], ends: Mapping[Key, int], topic_ids: Mapping[str, str] | None = None
) -> list[OffsetRange]:
    """The ranges between two sets of offsets, in order, without empty ones.

    :param topic_ids: The known ids of topics.
    """
    found = [
        OffsetRange(*key, start, ends[key], topic_id=(topic_ids or {}).get(key[0], ""))
        for key, start in sorted(starts.items())
        if key in ends
    ]
    return [each for each in found if each.size > 0]


def split(
    ranges: Iterable[OffsetRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Split ranges like Spark's own connector: first by ``max_records``, then for more tasks.

    :param ranges: One for each partition at most. Empty ones are dropped.
    :param min_partitions: The smallest number of tasks, approximately; None: one for each range.
    :param max_records: The largest number of offsets of a task; None: no limit.
    :return: Ranges with the same offsets. Those of a partition are in order and numbered.
    """
    whole = [each for each in ranges if each.size > 0]
    counts = [1 if max_records is None else -(-each.size // max_records) for each in whole]
    if min_partitions is not None and min_partitions > sum(counts):
        pieces = [
            piece
            for each, count in zip(whole, counts, strict=True)
            for piece in _pieces(each, count)
        ]
        parts = _counts(pieces, min_partitions)
        counts = _sums(whole, pieces, parts)
    return [
        piece for each, count in zip(whole, counts, strict=True) for piece in _pieces(each, count)
    ]


def _counts(pieces: list[OffsetRange], wanted: int) -> list[int]:
    """The number of parts of each piece.

    Pieces above the average size share the parts that the others leave.
    """
    total = sum(each.size for each in pieces)
    large = [each.size * wanted > total for each in pieces]
    large_total = sum(each.size for each, is_large in zip(pieces, large, strict=True) if is_large)
    left = wanted - large.count(False)
    return [
        max(1, int(each.size * left / large_total + 0.5)) if is_large else 1
        for each, is_large in zip(pieces, large, strict=True)
    ]


def _sums(whole: list[OffsetRange], pieces: list[OffsetRange], parts: list[int]) -> list[int]:
    """Add up the parts of each partition."""
    found = dict.fromkeys((each.key for each in whole), 0)
    for piece, count in zip(pieces, parts, strict=True):
        found[piece.key] += count
    return [found[each.key] for each in whole]


def _pieces(whole: OffsetRange, count: int) -> list[OffsetRange]:
    """Cut a range into ``count`` pieces of nearly equal size, or fewer if it has fewer offsets."""
    count = min(count, whole.size)
    edges = [whole.start + whole.size * number // count for number in range(count + 1)]
    return [
        replace(whole, start=start, end=end, split=number)
        for number, (start, end) in enumerate(itertools.pairwise(edges))
    ]
