"""The rules at the end of a run. Each yields a sentence for each violation."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.harness.runs import Rule, broken

SHOWN = 5
DAMAGED = 1 << 62
"""The number of a record whose value isn't its key."""


@dataclass
class Records:
    """The records of a partition. The number of an aborted message is negative."""

    offsets: array[int] = field(default_factory=lambda: array("q"))
    numbers: array[int] = field(default_factory=lambda: array("q"))

    def add(self, message: Any) -> None:
        """Add a message of either client."""
        value = message.value()
        self.offsets.append(message.offset())
        self.numbers.append(int(value) if message.key() == value else DAMAGED)


Reading = list[Records]
"""The records of each partition."""


def read(messages: Iterable[Any], partitions: int) -> Reading:
    """Return the records of these messages."""
    found = [Records() for _ in range(partitions)]
    for message in messages:
        found[message.partition()].add(message)
    return found


def ends(reading: Reading) -> dict[int, int]:
    """Return the offset after the last record of each partition that has records."""
    return {
        partition: records.offsets[-1] + 1
        for partition, records in enumerate(reading)
        if records.offsets
    }


def size(reading: Reading) -> int:
    """Return the number of records."""
    return sum(len(records.numbers) for records in reading)


@dataclass
class Copy:
    """A topic that was copied.

    ``sent``: the numbers of the messages are those below it. A message's partition is the remainder
    of its number.
    """

    sent: int = 0
    input: Reading = field(default_factory=list)
    readings: dict[str, Reading] = field(default_factory=dict)
    """The copies that each committed reader found."""

    def all(self) -> Iterator[tuple[str, Reading]]:
        """Yield the input, and the copies by reader."""
        yield "the input", self.input
        yield from self.readings.items()


@dataclass
class Result(Copy):
    """The data that the rules check."""

    copied: dict[str, int] = field(default_factory=dict)
    """The messages that each copier has copied."""
    open_transactions: list[str] = field(default_factory=list)
    """The open transactions in the brokers' logs."""
    reader_errors: list[str] = field(default_factory=list)
    """The errors that ended the reader during the run."""


def readers_agree(copy: Copy) -> Iterator[str]:
    """Every reader has the same copies at the same places."""
    (first, expected), *others = copy.readings.items()
    for name, reading in others:
        for partition, (found, right) in enumerate(zip(reading, expected, strict=True)):
            if found != right:
                counts = len(found.numbers), len(right.numbers)
                yield f"[{partition}]: {name} has {counts[0]} copies, {first} {counts[1]}"


def times_of(copy: Copy, reading: Reading) -> bytearray:
    """Return how often each number is there: at most 255 times."""
    times = bytearray(copy.sent)
    for records in reading:
        for number in records.numbers:
            if 0 <= number < copy.sent and times[number] < 255:
                times[number] += 1
    return times


def nothing_lost(copy: Copy) -> Iterator[str]:
    """Each message has a copy."""
    for name, reading in copy.all():
        times = times_of(copy, reading)
        if missing := times.count(0):
            yield f"{name} has no copy of {missing} messages, the first is {times.index(0)}"


def nothing_twice(copy: Copy) -> Iterator[str]:
    """No message has two copies."""
    for name, reading in copy.all():
        twice = [number for number, count in enumerate(times_of(copy, reading)) if count > 1]
        if twice:
            yield f"{name} has {len(twice)} messages more than once: {twice[:SHOWN]}"


def in_order(copy: Copy) -> Iterator[str]:
    """The copies in a partition are in the order of the input."""
    for name, reading in copy.all():
        for partition, records in enumerate(reading):
            for offset, (before, number) in zip(
                records.offsets[1:], pairwise(records.numbers), strict=False
            ):
                if number < before:
                    yield f"{name} has [{partition}] @{offset} message {number} behind {before}"
                    break


def only_what_was_sent(copy: Copy) -> Iterator[str]:
    """Each copy is in the partition of its message, and has its key and value."""
    for name, reading in copy.all():
        for partition, records in enumerate(reading):
            wrong = [
                offset
                for offset, number in zip(records.offsets, records.numbers, strict=True)
                if number >= copy.sent or (number >= 0 and number % len(reading) != partition)
            ]
            if wrong:
                yield f"{name} has {len(wrong)} foreign records in [{partition}]: {wrong[:SHOWN]}"


def nothing_aborted_is_seen(copy: Copy) -> Iterator[str]:
    """No reader has a message that was written to be aborted."""
    for name, reading in copy.all():
        seen = sum(number < 0 for records in reading for number in records.numbers)
        if seen:
            yield f"{name} saw {seen} aborted messages"


def nothing_is_open(result: Result) -> Iterator[str]:
    """No log has a transaction without its end."""
    yield from result.open_transactions


def all_took_part(result: Result) -> Iterator[str]:
    """Each copier has copied messages."""
    for name, count in result.copied.items():
        if not count:
            yield f"{name} has copied nothing"
    if not result.copied:
        yield "no copier has ever started"


def reader_continues(result: Result) -> Iterator[str]:
    """No error ends the reader during the run."""
    yield from result.reader_errors


COPY_RULES: tuple[Rule[Copy], ...] = (
    *(readers_agree, nothing_lost, nothing_twice, in_order),
    *(only_what_was_sent, nothing_aborted_is_seen),
)
RULES: tuple[Rule[Result], ...] = (*COPY_RULES, nothing_is_open, all_took_part, reader_continues)


def violations(result: Result) -> list[str]:
    return broken(RULES, result, SHOWN)
