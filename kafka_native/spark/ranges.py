"""Which task reads what: ranges of offsets, and how they are split."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql.datasource import InputPartition

from kafka_native.spark.offsets import Key


@dataclass(frozen=True, order=True)
class OffsetRange(InputPartition):
    """The records of one partition with offsets from ``start`` to before ``end``: what one task reads."""

    topic: str
    partition: int
    start: int
    end: int
    split: int = 0
    """Which of the pieces of its partition it is, from 0 on."""
    topic_id: str = field(default="", compare=False)
    """The id of the topic that the offsets belong to: one that is made anew has another. Empty: it isn't known."""
    lost: str = field(default="", compare=False)
    """Why nothing of it can be read, where that is known already: it is only to be recorded as skipped."""

    @property
    def key(self) -> Key:
        """The topic and the partition of the range."""
        return self.topic, self.partition

    @property
    def size(self) -> int:
        """How many offsets it has; there may be fewer records."""
        return self.end - self.start

    def __str__(self) -> str:
        """For errors and logs."""
        return f"{self.topic} [{self.partition}] from offset {self.start} to {self.end}"


def ranges_of(
    starts: Mapping[Key, int], ends: Mapping[Key, int], topic_ids: Mapping[str, str] | None = None
) -> list[OffsetRange]:
    """The ranges between two sets of offsets, in order; partitions with nothing to read are left out.

    :param topic_ids: The ids of topics, as far as they are known.
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
    """Splits ranges as Spark's own connector does: first by size, then until there are as many as asked for.

    :param ranges: At most one for each partition. Empty ones are left out.
    :param min_partitions: How many tasks there should be at least (about: sizes are rounded); None: as many as ranges.
    :param max_records: How many offsets a task may read at most; None: no limit.
    :return: Ranges that together are the same, those of a partition in order and numbered.
    """
    whole = [each for each in ranges if each.size > 0]
    counts = [1 if max_records is None else -(-each.size // max_records) for each in whole]
    if min_partitions is not None and min_partitions > sum(counts):
        pieces = [piece for each, count in zip(whole, counts, strict=True) for piece in _pieces(each, count)]
        parts = _counts(pieces, min_partitions)
        counts = _sums(whole, pieces, parts)
    return [piece for each, count in zip(whole, counts, strict=True) for piece in _pieces(each, count)]


def _counts(pieces: list[OffsetRange], wanted: int) -> list[int]:
    """How many parts each piece is cut into: those above the average size share what the others leave."""
    total = sum(each.size for each in pieces)
    large = [each.size * wanted > total for each in pieces]
    large_total = sum(each.size for each, is_large in zip(pieces, large, strict=True) if is_large)
    left = wanted - large.count(False)
    return [
        max(1, int(each.size * left / large_total + 0.5)) if is_large else 1
        for each, is_large in zip(pieces, large, strict=True)
    ]


def _sums(whole: list[OffsetRange], pieces: list[OffsetRange], parts: list[int]) -> list[int]:
    """Parts by partition."""
    found = dict.fromkeys((each.key for each in whole), 0)
    for piece, count in zip(pieces, parts, strict=True):
        found[piece.key] += count
    return [found[each.key] for each in whole]


def _pieces(whole: OffsetRange, count: int) -> list[OffsetRange]:
    """``count`` pieces whose sizes differ by one at most; fewer if there aren't as many offsets."""
    count = min(count, whole.size)
    edges = [whole.start + whole.size * number // count for number in range(count + 1)]
    return [
        replace(whole, start=start, end=end, split=number)
        for number, (start, end) in enumerate(itertools.pairwise(edges))
    ]
