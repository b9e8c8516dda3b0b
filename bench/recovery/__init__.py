"""How long clients take to recover from an outage, all in the same one.

Each client has a producer and a consumer, each a process. They log every success with the
monotonic clock of the machine, which all processes share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

PRODUCE, CONSUME = "produce", "consume"
ACK, FAILURE, MESSAGE, COMMIT, REFUSAL = "a", "f", "m", "c", "x"
EVERY_MS = 10
"""A producer sends a message to each partition at this interval."""
COMMIT_EVERY_MS = 50


@dataclass(frozen=True)
class Settings:
    """The task of a process. ``output`` is the file of its log."""

    client: str
    role: str
    servers: str
    topic: str
    partitions: int
    group: str
    commits: bool
    output: str
    every_ms: int = EVERY_MS
    commit_every_ms: int = COMMIT_EVERY_MS


class Event(NamedTuple):
    """A line of a log: the kind, the partition (-1 for commits), begin and end in nanoseconds.

    A message begins when it is passed to the producer.
    """

    kind: str
    partition: int
    begin: int
    end: int

    @property
    def seconds(self) -> float:
        return (self.end - self.begin) / 1e9


def read_log(path: Path) -> list[Event]:
    """Return the events of a log, without a last line that isn't complete."""
    if not path.exists():
        return []
    whole = path.read_text(encoding="utf-8").rpartition("\n")[0]
    found = []
    for line in whole.splitlines():
        kind, partition, begin, end, *_ = line.split(" ", 4)
        found.append(Event(kind, int(partition), int(begin), int(end)))
    return found


def first_after(
    events: Sequence[Event], kind: str, at: int, partitions: Sequence[int], *, begun: bool = True
) -> float | None:
    """Return the seconds from a time to the first success, or None.

    :param begun: Only successes that were also begun after this time.
    """
    ends = [
        event.end
        for event in events
        if event.kind == kind
        and event.partition in partitions
        and (event.begin if begun else event.end) >= at
    ]
    return (min(ends) - at) / 1e9 if ends else None


def longest(events: Sequence[Event], kind: str, since: int, until: int) -> float | None:
    """Return the longest time from begin to end of what was begun in this time, or None."""
    return max(
        (each.seconds for each in events if each.kind == kind and since <= each.begin <= until),
        default=None,
    )


def longest_behind(
    acks: Sequence[Event], messages: Sequence[Event], since: int, until: int
) -> float | None:
    """Return the longest time from the acknowledgement of a message to its consumption, or None.

    Both events of a message have the same partition and the same begin, which are in this time.
    """
    acked = {(each.partition, each.begin): each.end for each in acks if each.kind == ACK}
    return max(
        (
            max(each.end - acked[each.partition, each.begin], 0) / 1e9
            for each in messages
            if each.kind == MESSAGE
            and since <= each.begin <= until
            and (each.partition, each.begin) in acked
        ),
        default=None,
    )
