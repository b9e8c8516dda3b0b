"""The records that a share consumer has acquired and not finished, and their acknowledgements.

Each record has one status byte in its range (`_native.share_core`). The application's thread writes
it. `HeldRecords.collect()` makes acknowledgements of the statuses for the control thread, which
owns the sessions.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from kafka_native._native.share_core import (
    ACCEPT,
    GAP,
    RELEASE,
    UNDECIDED,
    find_finished,
    set_types,
)
from kafka_native.errors import KafkaError

ShareKey: TypeAlias = tuple[bytes, int]
"""A partition by topic id. A recreated topic has another id."""

Batch: TypeAlias = tuple[int, int, bytes]
"""The first and last offset, and the acknowledgement types: one byte for all records, or one each.
"""

Place: TypeAlias = tuple[str | None, int | None, int | None]
"""The topic, partition and offset of a Message."""

LAST_EPOCH = 0x7FFFFFFF

SENT = 0xFE  # the status byte of a record whose acknowledgement was sent
RENEWED = 0xFD  # and of one whose renewal was sent: it has no final acknowledgement yet
UNREADABLE = 0xFC  # of one that the client releases, because it can't be read
KEPT = 0xFB  # of one that the running collect() doesn't accept
_ROWS = bytes(status == UNDECIDED for status in range(256))
_UNREADABLE_OF_RELEASE = bytes(UNREADABLE if status == RELEASE else status for status in range(256))
_RELEASE_OF_UNREADABLE = bytes(RELEASE if status == UNREADABLE else status for status in range(256))
_FINISHED = bytes([GAP, SENT, UNREADABLE])
_FINISHED_OR_EXPIRED = bytes([GAP, SENT, UNREADABLE, RENEWED])
_FINAL = re.compile(rb"[\x00-\x03\xFC]+")
_RENEWALS = re.compile(rb"\x04+")


@dataclass(slots=True, eq=False)
class HeldRange:
    """Adjacent records that were acquired together. ``statuses`` has one byte for each."""

    session: Session
    key: ShareKey
    first: int
    statuses: bytearray
    until: float = float("inf")
    """When the locks of renewed records expire (monotonic seconds)."""

    @property
    def is_held(self) -> bool:
        """Whether any record still needs a final acknowledgement."""
        return UNDECIDED in self.statuses or (
            RENEWED in self.statuses and time.monotonic() < self.until
        )

    @property
    def finished(self) -> bytes:
        """The statuses of records that can't be acknowledged."""
        return _FINISHED if time.monotonic() < self.until else _FINISHED_OR_EXPIRED

    def accepts(self, index: int) -> bool:
        """Whether the record of this index can be acknowledged."""
        return self.statuses[index] not in self.finished

    def take_final(self, *, accept: bool) -> list[Batch]:
        """Takes the final acknowledgements, and marks them as sent.

        ``accept``: also accepts the records without an acknowledgement.
        """
        if accept:
            self.statuses = self.statuses.replace(bytes([UNDECIDED]), bytes([ACCEPT]))
        return self._take(_FINAL, SENT)

    def take_renewals(self) -> list[Batch]:
        """Takes the renewals. The records stay held, until the reply at least."""
        batches = self._take(_RENEWALS, RENEWED)
        if batches:
            self.until = float("inf")
        return batches

    def _take(self, statuses: re.Pattern[bytes], then: int) -> list[Batch]:
        found = []
        for run in statuses.finditer(self.statuses):
            types = bytes(run.group()).translate(_RELEASE_OF_UNREADABLE)
            one = types.count(types[0]) == len(types)
            found.append(
                (self.first + run.start(), self.first + run.end() - 1, types[:1] if one else types)
            )
        for first, last, _ in found:
            index, count = first - self.first, last - first + 1
            self.statuses[index : index + count] = bytes([then]) * count
        return found


@dataclass(slots=True, eq=False)
class Session:
    """One session with one leader."""

    node: int
    epoch: int = 0
    partitions: set[ShareKey] = field(default_factory=set)
    waiting: list[Acknowledgement] = field(default_factory=list)
    busy: bool = False
    asked: bool = False  # a fetch was sent since the application wanted records
    closing: bool = False
    over: bool = False

    def advance(self) -> None:
        """Takes the next epoch after a successful reply."""
        self.epoch = self.epoch + 1 if self.epoch < LAST_EPOCH else 1

    def take(self) -> list[Acknowledgement]:
        """The acknowledgements of the next request. One per partition: ranges might overlap.

        Renewals come first and alone: they are urgent, and an older broker refuses them.
        """
        renews = any(each.renewed for each in self.waiting)
        taken: dict[ShareKey, Acknowledgement] = {}
        self.waiting = [
            each
            for each in self.waiting
            if bool(each.renewed) != renews or taken.setdefault(each.key, each) is not each
        ]
        return list(taken.values())


@dataclass(slots=True, eq=False)
class Acquired:
    """Acquired records of one partition, as the broker sent them."""

    session: Session
    key: ShareKey
    topic: str
    records: bytes | memoryview
    ranges: list[tuple[int, int, int]]
    """The first and last offset and the delivery count, in offset order."""
    until: float
    """When the lock expires (monotonic seconds)."""


@dataclass(slots=True, eq=False)
class Acknowledgement:
    """Acknowledgements of one partition. ``batches`` are in offset order and don't overlap."""

    session: Session
    key: ShareKey
    topic: str
    """Empty if the application has never seen the records."""
    batches: list[Batch]
    on_done: Callable[[KafkaError | None], None] = lambda error: None
    """Called on the control thread with the outcome."""
    renewed: list[HeldRange] = field(default_factory=list)
    """The ranges of the records whose locks it renews. Empty: it is final."""


class HeldRows(NamedTuple):
    """The rows of one range in a batch of columns."""

    held: HeldRange
    is_row: bytes
    """One byte for each status: 1 if the record has a row."""


Outcome: TypeAlias = tuple[Acknowledgement, KafkaError | None]


class HeldRecords:
    """The records that one share consumer holds. Thread: the application's."""

    def __init__(self) -> None:
        """Starts without any record."""
        self._ranges: dict[tuple[str, int], list[HeldRange]] = {}

    def add(self, acquired: Acquired, statuses: list[bytearray]) -> list[HeldRows]:
        """Adds records, with their status bytes by range. Returns their rows."""
        ranges = self._ranges.setdefault((acquired.topic, acquired.key[1]), [])
        rows = []
        for (first, _, _), status in zip(acquired.ranges, statuses, strict=True):
            # open_acquired() releases what can't be read; the application can't change that
            status = status.translate(_UNREADABLE_OF_RELEASE)
            held = HeldRange(acquired.session, acquired.key, first, status)
            ranges.append(held)
            rows.append(HeldRows(held, bytes(status.translate(_ROWS))))
        return rows

    def clear(self) -> None:
        """Forgets all records. Batches of columns may still have some of them."""
        for ranges in self._ranges.values():
            for each in ranges:
                each.statuses = bytearray([SENT]) * len(each.statuses)
        self._ranges.clear()

    def count_undecided(self) -> int:
        """The number of records without an acknowledgement since they were delivered."""
        ranges = (each for ranges in self._ranges.values() for each in ranges)
        return sum(each.statuses.count(UNDECIDED) for each in ranges)

    def acknowledge(self, topic: str, partition: int, offset: int, kind: int) -> bool:
        """Sets the acknowledgement of a record. False: it isn't held."""
        for each in reversed(self._ranges.get((topic, partition), [])):
            index = offset - each.first
            if 0 <= index < len(each.statuses) and each.accepts(index):
                each.statuses[index] = kind
                return True
        return False

    def acknowledge_rows(
        self, ranges: Sequence[HeldRows], types: bytes
    ) -> tuple[HeldRange, int] | None:
        """Sets the acknowledgements of rows: one type for each, or UNDECIDED for no change.

        If a record isn't held, nothing changes, and the result is its range and index.
        """
        row = 0
        for held, is_row in ranges:
            index = find_finished(held.statuses, is_row, types, row, held.finished)
            if index >= 0:
                return held, index
            row += is_row.count(1)
        row = 0
        for held, is_row in ranges:
            set_types(held.statuses, is_row, types, row)
            row += is_row.count(1)
        return None

    def collect(
        self, *, accept: bool, renew: bool = True, keep: Iterable[Place] = ()
    ) -> list[Acknowledgement]:
        """Takes the acknowledgements that weren't sent yet, and marks them as sent.

        ``accept``: also accepts the records without an acknowledgement, except those in ``keep``.
        ``renew``: also takes renewals, which are for sessions that go on.
        """
        kept = [found for place in keep if (found := self._find_undecided(*place))]
        for held, index in kept:
            held.statuses[index] = KEPT
        pending: dict[tuple[str, ShareKey, int, bool], Acknowledgement] = {}
        for (topic, _), ranges in self._ranges.items():
            for each in ranges:
                final = each.take_final(accept=accept)
                renewals = each.take_renewals() if renew else []
                for batches, renewed in ((final, []), (renewals, [each])):
                    if batches:
                        name = (topic, each.key, id(each.session), bool(renewed))
                        piece = pending.setdefault(
                            name, Acknowledgement(each.session, each.key, topic, [])
                        )
                        piece.batches += batches
                        piece.renewed += renewed
        for held, index in kept:
            held.statuses[index] = UNDECIDED
        self._forget_finished()
        for piece in pending.values():
            piece.batches.sort()
        return list(pending.values())

    def _find_undecided(
        self, topic: str | None, partition: int | None, offset: int | None
    ) -> tuple[HeldRange, int] | None:
        """The oldest range with this record, and its index there."""
        if topic is None or partition is None or offset is None:
            return None
        for each in self._ranges.get((topic, partition), []):
            index = offset - each.first
            if 0 <= index < len(each.statuses) and each.statuses[index] == UNDECIDED:
                return each, index
        return None

    def _forget_finished(self) -> None:
        for name, ranges in list(self._ranges.items()):
            held = [each for each in ranges if each.is_held]
            if held:
                self._ranges[name] = held
            else:
                del self._ranges[name]


def offsets_of(batches: list[Batch]) -> Iterator[int]:
    """The offsets of acknowledged records, without gaps."""
    for first, last, types in batches:
        if len(types) == 1:
            yield from range(first, last + 1) if types[0] != GAP else ()
        else:
            yield from (first + index for index, kind in enumerate(types) if kind != GAP)
