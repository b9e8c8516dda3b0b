"""Filters of a query that narrow what is read: Spark hands them to batch readers (PySpark 4.1 and newer).

Those on topic, partition and offset are kept exactly, so Spark needn't look again. A least timestamp moves the start of
a range to the first record that is as young, and Spark still filters what follows: producers' clocks aren't in order.
For the same reason a greatest timestamp narrows nothing: behind the first record that is too young there may be older
ones, and a broker doesn't tell the last one that is old enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from kafka_native.spark.offsets import Key

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NEVER_NULL: Final = frozenset(
    {"topic", "partition", "offset", "timestamp", "timestampType", "start_offset", "end_offset"}
)
_OFFSET_MAX: Final = (1 << 63) - 1


@dataclass
class Narrowing:
    """What a query's filters leave to be read. It can be pickled."""

    topics: frozenset[str] | None = None
    """None: all."""
    partitions: frozenset[int] | None = None
    """None: all."""
    least_offset: int = 0
    end_offset: int = _OFFSET_MAX
    """The first offset that isn't wanted."""
    least_ms: int | None = None
    """The least timestamp, in milliseconds since 1970; None: any."""

    def take(self, wanted: Any) -> bool:
        """Takes a filter of PySpark's into account, if it is of use; whether Spark needn't apply it again."""
        name = type(wanted).__name__
        attribute: tuple[str, ...] = getattr(wanted, "attribute", ())
        if len(attribute) != 1:
            return False
        column = attribute[0]
        if name == "IsNotNull":
            return column in _NEVER_NULL
        value = getattr(wanted, "value", None)
        take = _FILTER_HANDLERS.get(column)
        return take is not None and value is not None and take(self, name, value)

    def keeps(self, key: Key) -> bool:
        """Whether anything of a partition may be wanted."""
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
        """Starts and ends with what the filters leave out taken away.

        :param at_times: The first offset of partitions at a time, as `OffsetReader.at_times()`. It is asked after the
        ends are known: what it doesn't find can't be before them.
        """
        keys = [key for key in starts if self.keeps(key)]
        first = {key: max(starts[key], self.least_offset) for key in keys}
        end = {key: min(ends[key], self.end_offset) for key in keys}
        if self.least_ms is not None:
            asked = {key: self.least_ms for key in keys if first[key] < end[key]}
            for key, offset in at_times(asked).items():
                first[key] = end[key] if offset is None else max(first[key], offset)
        return first, end


def _take_members(field: str, kind: type) -> Callable[[Narrowing, str, Any], bool]:
    """Takes equalities of a column that are kept as a set in this field, with values of this type."""

    def take(into: Narrowing, name: str, value: Any) -> bool:
        values: Iterable[Any] = value if name == "In" else (value,) if name in ("EqualTo", "EqualNullSafe") else ()
        found = frozenset(values)
        if not found or not all(type(each) is kind for each in found):
            return False
        before = getattr(into, field)
        setattr(into, field, found if before is None else before & found)
        return True

    return take


def _take_offset(into: Narrowing, name: str, value: Any) -> bool:
    if type(value) is not int:
        return False
    if name in ("EqualTo", "EqualNullSafe", "GreaterThanOrEqual", "GreaterThan"):
        into.least_offset = max(into.least_offset, value + (name == "GreaterThan"))
    if name in ("EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual"):
        into.end_offset = min(into.end_offset, value + (name != "LessThan"))
    return name in ("EqualTo", "EqualNullSafe", "GreaterThanOrEqual", "GreaterThan", "LessThan", "LessThanOrEqual")


def _take_timestamp(into: Narrowing, name: str, value: Any) -> bool:
    """Never exact: what follows the first young record may be older."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return False
    if name in ("EqualTo", "EqualNullSafe", "GreaterThanOrEqual", "GreaterThan"):
        micros = (value - _EPOCH) // timedelta(microseconds=1)
        least = micros // 1000 + 1 if name == "GreaterThan" else -(-micros // 1000)
        if least >= 0 and (into.least_ms is None or least > into.least_ms):
            into.least_ms = least
    return False


_FILTER_HANDLERS: Final[Mapping[str, Callable[[Narrowing, str, Any], bool]]] = {
    "topic": _take_members("topics", str),
    "partition": _take_members("partitions", int),
    "offset": _take_offset,
    "timestamp": _take_timestamp,
}
