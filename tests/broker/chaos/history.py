"""The data of a run: members' logs, faults, acked messages, and commits in the broker's log.

All times are seconds of the machine's wall clock, which the brokers' timestamps use too.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

Key = tuple[str, int]
Span = tuple[float, float]
FOREVER = float("inf")


@dataclass
class Assignment:
    """A member's ownership of a partition: from the start of on_assign to the end of on_revoke,
    on_lost, or the process.

    ``got``: the delivered messages in order, as (time, offset, number).
    """

    member: str
    key: Key
    start: float
    end: float = FOREVER
    how: str = ""  # revoked, lost, killed, closed, died; empty until its end
    got: list[tuple[float, int, int]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.member} {self.key[0]} [{self.key[1]}] {self.start:.3f}-{self.end:.3f} {self.how}".rstrip()


@dataclass(frozen=True)
class Commit:
    """One record of the broker's log of commits. ``by`` is the member, which it wrote into the
    metadata.
    """

    at: float
    key: Key
    offset: int
    by: str


@dataclass
class Life:
    """One process of a member, from its start to its end.

    A slot that crashes and comes back is another life.
    """

    name: str
    slot: int
    path: Path
    started: float
    client: str = "ours"
    protocol: str = "classic"
    output: Path | None = None
    """What its process prints, which other members may share."""
    ended: float = FOREVER
    how: str = ""  # killed, closed, died
    pauses: list[Span] = field(default_factory=list)  # stopped by a signal
    stalls: list[Span] = field(default_factory=list)  # the application didn't poll
    closing: Span | None = None
    ready: float | None = None  # its consumer has subscribed
    assignments: list[Assignment] = field(default_factory=list)
    owned: dict[Key, Assignment] = field(default_factory=dict)
    strays: list[tuple[float, Key, int, int]] = field(
        default_factory=list
    )  # delivered without an assignment
    doubled: list[tuple[float, Key]] = field(
        default_factory=list
    )  # assigned a partition that it owned
    foreign: list[tuple[float, Key]] = field(
        default_factory=list
    )  # revoked a partition that it didn't own
    reported: list[tuple[float, Key, int]] = field(
        default_factory=list
    )  # commits that the client called successful
    errors: list[tuple[float, str, bool]] = field(
        default_factory=list
    )  # time, code and text, whether fatal
    refused: list[tuple[float, str]] = field(default_factory=list)  # commits that failed
    callbacks: dict[str, int] = field(default_factory=dict)
    _tail: bytes = b""
    _read: int = 0

    def feed(self) -> None:
        """Read the log's new lines."""
        try:
            with self.path.open("rb") as log:
                log.seek(self._read)
                more = log.read()
        except FileNotFoundError:
            return
        self._read += len(more)
        *lines, self._tail = (self._tail + more).split(b"\n")  # a killed member leaves a half line
        for line in lines:
            self.take(json.loads(line))

    def take(self, event: dict[str, Any]) -> None:
        """Handle one event of the log."""
        name, at = event["e"], float(event["t"])
        if name in ("assigned", "revoked", "lost"):
            self.callbacks[name] = self.callbacks.get(name, 0) + 1
            for topic, number in event["p"]:
                (self._assigned if name == "assigned" else self._given_up)(
                    (topic, number), at, name
                )
        elif name == "got":
            for topic, number, first, numbers in event["m"]:
                self._got((topic, number), at, first, numbers)
        elif name == "committed":
            self.reported += [(at, (topic, number), offset) for topic, number, offset in event["o"]]
        elif name == "refused":
            self.refused.append((at, event["text"]))
        elif name == "error":
            self.errors.append((at, event["text"], event["fatal"]))
        elif name == "ready":
            self.ready = at
        elif name == "stalling":
            self.stalls.append((at, FOREVER))
        elif name == "stalled":
            self.stalls[-1] = (self.stalls[-1][0], at)
        elif name == "closing":
            self.closing = (at, FOREVER)
        elif name == "closed":
            self.closing = ((self.closing or (at, at))[0], at)
            self._end_all(at, "closed")

    def end(self, at: float, how: str) -> None:
        """End the life with its process. No event follows."""
        self.feed()
        self.ended, self.how = at, how
        self._end_all(at, how)

    def _end_all(self, at: float, how: str) -> None:
        for key in list(self.owned):
            self._given_up(key, at, how)

    def _assigned(self, key: Key, at: float, _: str) -> None:
        if key in self.owned:
            self.doubled.append((at, key))
            return
        self.owned[key] = Assignment(self.name, key, at)
        self.assignments.append(self.owned[key])

    def _given_up(self, key: Key, at: float, how: str) -> None:
        assignment = self.owned.pop(key, None)
        if assignment is None:
            self.foreign.append((at, key))
            return
        assignment.end, assignment.how = at, how

    def _got(self, key: Key, at: float, first: int, numbers: list[int]) -> None:
        assignment = self.owned.get(key)
        messages = [(at, first + index, number) for index, number in enumerate(numbers)]
        if assignment is None:
            self.strays += [(at, key, offset, number) for at, offset, number in messages]
        else:
            assignment.got += messages

    @property
    def unanswered(self) -> bool:
        """Return whether a request got no answer from a broker in time."""
        said = self.output or self.path.with_suffix(".out")
        lines = said.read_text().splitlines() if said.exists() else []
        return any(f"{self.name}#" in line and "no response in time" in line for line in lines)

    @property
    def is_closed(self) -> bool:
        """Return whether its close() has returned."""
        return self.closing is not None and self.closing[1] < FOREVER

    @property
    def alive(self) -> bool:
        """Return whether the process exists, even if stopped."""
        return not self.how


@dataclass(frozen=True)
class Round:
    """A round of faults. They ended at ``healed``; all rules of `_settle` held at ``settled``,
    or None if not in time.
    """

    healed: float
    settled: float | None
    why: str = ""


class Migration(NamedTuple):
    """A change of the group between the protocols, at a time of the broker's log."""

    at: float
    to_consumer: bool


@dataclass
class History:
    session_s: float
    max_poll_s: float
    settle_s: float
    lives: list[Life] = field(default_factory=list)
    acked: dict[Key, dict[int, int]] = field(default_factory=dict)  # offset -> number
    commits: list[Commit] = field(default_factory=list)  # in the broker's order
    outages: list[Span] = field(default_factory=list)  # a broker was away
    rounds: list[Round] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    generations: int = 0
    """The group's generations or epochs in the broker's log: its rebalances."""
    migrations: list[Migration] = field(default_factory=list)
    seconds: float = 0.0

    def feed(self) -> None:
        """Read the new log lines of all living members."""
        for life in self.lives:
            if life.alive:
                life.feed()

    def assignments(self) -> Iterator[Assignment]:
        """Yield the assignments of all lives."""
        for life in self.lives:
            yield from life.assignments

    def by_partition(self) -> dict[Key, list[Assignment]]:
        """Return each partition's assignments in the order of their starts."""
        found: dict[Key, list[Assignment]] = {}
        for each in sorted(self.assignments(), key=lambda each: each.start):
            found.setdefault(each.key, []).append(each)
        return found

    def upgrade(self, since: float, until: float) -> float | None:
        """Return the time of the last migration to the consumer protocol in between, or None."""
        times = [each.at for each in self.migrations if each.to_consumer]
        return max((at for at in times if since <= at <= until), default=None)

    def life(self, name: str) -> Life:
        return next(life for life in self.lives if life.name == name)

    def commits_of(self) -> dict[Key, list[Commit]]:
        """Return each partition's commits in order."""
        found: dict[Key, list[Commit]] = {}
        for commit in self.commits:
            found.setdefault(commit.key, []).append(commit)
        return found


def in_force(commits: list[Commit], since: float, until: float) -> set[int]:
    """Return every offset that was committed at some time in between. 0 stands for no commit, the
    start.
    """
    before = bisect_right(commits, since, key=lambda commit: commit.at)
    end = bisect_right(commits, until, key=lambda commit: commit.at)
    first = commits[before - 1].offset if before else 0
    return {first, *(commit.offset for commit in commits[before:end])}


def overlap(spans: Iterable[Span], since: float, until: float) -> float:
    """Return the longest part of any span between two times."""
    return max([0.0, *(min(end, until) - max(start, since) for start, end in spans)])


def overlapping(assignments: list[Assignment], index: int) -> Iterator[Assignment]:
    """Yield the assignments that begin after one of them and before its end.

    They are in the order of their starts.
    """
    for later in range(index + 1, len(assignments)):
        if assignments[later].start >= assignments[index].end:
            return
        yield assignments[later]
