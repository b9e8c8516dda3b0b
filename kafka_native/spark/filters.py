"""Filters of a query that reduce the offsets to read. PySpark 4.1 and newer pass them to readers.

Filters on topic, partition and offset are applied exactly, so Spark doesn't apply them again. A
minimum timestamp moves the start to the first record that is new enough. Spark still filters the
records after it, because timestamps aren't sorted. A maximum timestamp changes nothing: older
records may follow a newer one, and brokers can't find the last record before a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Final

from kafka_native.spark.offsets import Key

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NEVER_NULL: Final = frozenset(
    {"topic", "partition", "offset", "timestamp", "timestampType", "start_offset", "end_offset"}
)
_OFFSET_MAX: Final = (1 << 63) - 1


@dataclass
class PushedFilters:
    """The topics, partitions, offsets and times that a query's filters keep. It can be pickled."""

    topics: frozenset[str] | None = None
    """None: all topics."""
    partitions: frozenset[int] | None = None
    """None: all partitions."""
    offset_min: int = 0
    end_offset: int = _OFFSET_MAX
    """The first offset that the query doesn't need."""
    timestamp_min_ms: int | None = None
    """The minimum timestamp in milliseconds since 1970; None: no limit."""
    others: frozenset[str] = frozenset()
    """Columns that only have the name of one of the source's: fields of decoded records."""

    def take(self, wanted: object) -> bool:
        """Apply a filter of PySpark's if possible. Returns True if Spark needn't apply it again."""
        name = type(wanted).__name__
        attribute: tuple[str, ...] = getattr(wanted, "attribute", ())
        if len(attribute) != 1:
            return False
        column = attribute[0]
        if column in self.others:
            return False
        if name == "IsNotNull":
            return column in _NEVER_NULL
        value = getattr(wanted, "value", None)
        take = _FILTER_HANDLERS.get(column)
        return take is not None and value is not None and take(self, name, value)

    def keeps(self, key: Key) -> bool:
        """Whether the filters keep the partition."""
        topic, partition = key
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )

    def narrow(
        self,
        starts: Mapping[Key, int],
        ends: Mapping[Key, int],
        at_times: Callable[[Mapping[Key, int]], Mapping[Key, int | None]],
    ) -> tuple[dict[Key, int], dict[Key, int]]:
        """Reduce starts and ends to the offsets that the filters keep.

        :param at_times: Returns the first offset of partitions at a time, like
            `OffsetReader.at_times`. It is called after the ends are known: a record that it doesn't
            find is after them.
        """
        keys = [key for key in starts if self.keeps(key)]
        first = {key: max(starts[key], self.offset_min) for key in keys}
        end = {key: min(ends[key], self.end_offset) for key in keys}
        if self.timestamp_min_ms is not None:
            asked = {key: self.timestamp_min_ms for key in keys if first[key] < end[key]}
            for key, offset in at_times(asked).items():
                first[key] = end[key] if offset is None else max(first[key], offset)
        return first, end


def _take_members(field: str, kind: type) -> Callable[[PushedFilters, str, object], bool]:
    """Make the handler of filters that compare a column with values of a type."""

    def take(into: PushedFilters, name: str, value: object) -> bool:
        values: Iterable[object] = (value,) if name in ("EqualTo", "EqualNullSafe") else ()
        if name == "In" and isinstance(value, Iterable):
            values = value
        found = frozenset(values)
        if not found or not all(type(each) is kind for each in found):
            return False
        before = getattr(into, field)
        setattr(into, field, found if before is None else before & found)
        return True

    return take


def _take_offset(into: PushedFilters, name: str, value: object) -> bool:
    if type(value) is not int:
        return False
    if name in ("EqualTo", "EqualNullSafe", "GreaterThanOrEqual", "GreaterThan"):
        into.offset_min = max(into.offset_min, value + (name == "GreaterThan"))
    if name in ("EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual"):
        into.end_offset = min(into.end_offset, value + (name != "LessThan"))
    return name in (
        "EqualTo",
        "EqualNullSafe",
        "GreaterThanOrEqual",
        "GreaterThan",
        "LessThan",
        "LessThanOrEqual",
    )


def _take_timestamp(into: PushedFilters, name: str, value: object) -> bool:
    """Take a minimum timestamp. Spark must still filter: older records may follow."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return False
    if name in ("EqualTo", "EqualNullSafe", "GreaterThanOrEqual", "GreaterThan"):
        micros = (value - _EPOCH) // timedelta(microseconds=1)
        least = micros // 1000 + 1 if name == "GreaterThan" else -(-micros // 1000)
        if least >= 0 and (into.timestamp_min_ms is None or least > into.timestamp_min_ms):
            into.timestamp_min_ms = least
    return False


_FILTER_HANDLERS: Final[Mapping[str, Callable[[PushedFilters, str, object], bool]]] = {
    "topic": _take_members("topics", str),
    "partition": _take_members("partitions", int),
    "offset": _take_offset,
    "timestamp": _take_timestamp,
}
