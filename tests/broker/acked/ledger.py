"""The ledger of a producer's life: a file of lines, which survives ``kill -9`` of its process.

    s NUMBER PARTITION                  before produce()
    r NUMBER PARTITION OFFSET STATUS    the report

A number is unique in a run: `number_of` joins the life and a count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

LIFE_SHIFT = 32
COUNT_MASK = (1 << LIFE_SHIFT) - 1
PERSISTED, NOT_PERSISTED, POSSIBLY_PERSISTED = "persisted", "not-persisted", "possibly-persisted"


def number_of(life: int, count: int) -> int:
    """Return the number of a life's message."""
    return life << LIFE_SHIFT | count


class Report(NamedTuple):
    """The report of a message. The offset is -1 if it isn't persisted, or the client doesn't know it."""

    number: int
    partition: int
    offset: int
    status: str


@dataclass
class Life:
    """What one producer did.

    ``killed``: it has no end, so reports may be missing. ``sent``: the partition of each message,
    in the order of the calls.
    """

    name: int
    killed: bool = False
    sent: dict[int, int] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)

    def take(self, lines: Iterable[str]) -> None:
        """Add whole lines of the file."""
        for line in lines:
            kind, *words = line.split()
            if kind == "s":
                self.sent[int(words[0])] = int(words[1])
            else:
                number, partition, offset, status = words
                self.reports.append(Report(int(number), int(partition), int(offset), status))

    @classmethod
    def read(cls, name: int, path: Path, killed: bool) -> Life:
        """Read a life from its file, up to the last whole line."""
        life = cls(name, killed)
        text = path.read_text() if path.exists() else ""
        life.take(text[: text.rfind("\n") + 1].splitlines())
        return life


Log = dict[int, list[tuple[int, int]]]
"""Offset and number of each record of a partition, in the order of the log."""


@dataclass
class Result:
    """The data that the rules check. ``damaged``: what a reader couldn't take for one of ours."""

    lives: list[Life] = field(default_factory=list)
    logs: dict[str, Log] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    """What took longer than it may after the last fault, and errors that ended a producer."""

    def log(self) -> Log:
        """Return the log as the first reader found it."""
        return next(iter(self.logs.values()), {})

    def places(self) -> dict[int, list[tuple[int, int]]]:
        """Return where each number is: partitions and offsets."""
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for partition, records in self.log().items():
            for offset, number in records:
                found[number].append((partition, offset))
        return found
