"""Which offset `list_offsets()` is to find, and what it has found."""

from __future__ import annotations

from typing import Any, ClassVar

EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3


class OffsetSpec:
    """An offset that is to be found: `earliest()`, `latest()`, `max_timestamp()` or `for_timestamp()`.

    ``OffsetSpec(number)`` makes the same: -2, -1, -3, or a timestamp.
    """

    _values: ClassVar[dict[int, OffsetSpec]] = {}
    _max_timestamp: ClassVar[OffsetSpec | None] = None
    _earliest: ClassVar[OffsetSpec | None] = None
    _latest: ClassVar[OffsetSpec | None] = None
    _value: int

    @classmethod
    def earliest(cls) -> OffsetSpec:
        """The first offset of the partition."""
        return cls._values[EARLIEST]

    @classmethod
    def latest(cls) -> OffsetSpec:
        """The offset behind the last record."""
        return cls._values[LATEST]

    @classmethod
    def max_timestamp(cls) -> OffsetSpec:
        """The offset of the record with the highest timestamp (KIP-734)."""
        return cls._values[MAX_TIMESTAMP]

    @classmethod
    def for_timestamp(cls, timestamp: int) -> OffsetSpec:
        """The offset of the first record of this time or later, in milliseconds since 1970."""
        return TimestampSpec(timestamp)

    def __new__(cls, index: int) -> OffsetSpec:
        """See the class."""
        return cls._values[index] if index < 0 else TimestampSpec(index)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, OffsetSpec):
            return NotImplemented
        return self._value < other._value

    def __reduce__(self) -> tuple[Any, ...]:
        return (OffsetSpec, (self._value,))


class TimestampSpec(OffsetSpec):
    """See `OffsetSpec.for_timestamp()`."""

    def __new__(cls, _: int) -> TimestampSpec:
        """Make one."""
        return object.__new__(cls)

    def __init__(self, timestamp: int) -> None:
        """Milliseconds since 1970."""
        self.timestamp = timestamp

    @property
    def _value(self) -> int:  # type: ignore[override]
        return self.timestamp


class MaxTimestampSpec(OffsetSpec):
    """See `OffsetSpec.max_timestamp()`."""

    _value = MAX_TIMESTAMP

    def __new__(cls) -> MaxTimestampSpec:
        """Make one."""
        return object.__new__(cls)


class LatestSpec(OffsetSpec):
    """See `OffsetSpec.latest()`."""

    _value = LATEST

    def __new__(cls) -> LatestSpec:
        """Make one."""
        return object.__new__(cls)


class EarliestSpec(OffsetSpec):
    """See `OffsetSpec.earliest()`."""

    _value = EARLIEST

    def __new__(cls) -> EarliestSpec:
        """Make one."""
        return object.__new__(cls)


OffsetSpec._max_timestamp = MaxTimestampSpec()
OffsetSpec._earliest = EarliestSpec()
OffsetSpec._latest = LatestSpec()
OffsetSpec._values.update(
    {MAX_TIMESTAMP: OffsetSpec._max_timestamp, EARLIEST: OffsetSpec._earliest, LATEST: OffsetSpec._latest}
)


class ListOffsetsResultInfo:
    """The offset that was found.

    :param offset: The offset; -1: there is none.
    :param timestamp: Its record's timestamp in milliseconds since 1970; -1 where it isn't told.
    :param leader_epoch: Its leader epoch; None where it isn't told.
    """

    def __init__(self, offset: int, timestamp: int, leader_epoch: int | None) -> None:
        """Make one; see the class for the arguments."""
        self.offset = offset
        self.timestamp = timestamp
        self.leader_epoch = leader_epoch
