"""The rules at the end of a simulated run: those of the acked runs, of groups and of copies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from tests.broker.acked import verify
from tests.broker.acked.ledger import PERSISTED, POSSIBLY_PERSISTED, Life, Log, Report
from tests.broker.acked.ledger import Result as Acked
from tests.harness.runs import Rule, broken

EXAMPLES = 5


@dataclass
class Result:
    """What a run did.

    ``taken``: the partition and the offsets of each assignment of a member. ``side``: what writers
    and readers of the topic "side" know. ``removed``: its messages that the cluster has taken back.
    ``got``: partition and number of the messages that its reader has got.
    """

    acked: Acked
    copied: Log = field(default_factory=dict)
    taken: list[tuple[int, list[int]]] = field(default_factory=list)
    committed: list[dict[int, int]] = field(default_factory=list)
    side: Acked = field(default_factory=Acked)
    removed: set[int] = field(default_factory=set)
    got: set[tuple[int, int]] = field(default_factory=set)


def _log(found: dict[str, list[list[int]]]) -> Log:
    return {
        int(partition): [(offset, number) for offset, number in records]
        for partition, records in found.items()
    }


def _acked(found: dict[str, Any], late: list[str]) -> Acked:
    lives = [
        Life(
            each["name"],
            each["killed"],
            sent=dict(each["sent"]),
            reports=[Report(*report) for report in each["reports"]],
        )
        for each in found["lives"]
    ]
    logs = {reader: _log(log) for reader, log in found["logs"].items()}
    return Acked(lives, logs, late=late)


def result_of(found: dict[str, Any]) -> Result:
    """Read what the simulated program has printed."""
    side = found["side"]
    return Result(
        _acked(found, found["problems"]),
        _log(found["copy"]),
        [(each["partition"], each["offsets"]) for each in found["taken"]],
        [{int(key): offset for key, offset in each.items()} for each in found["committed"]],
        _acked(side, []),
        set(side["removed"]),
        {(partition, number) for partition, number in side["got"]},
    )


def group_reads_all(result: Result) -> Iterator[str]:
    """(I7) The members of a group get every message."""
    for partition, records in result.acked.log().items():
        got = {
            offset for place, offsets in result.taken if place == partition for offset in offsets
        }
        missing = [offset for offset, _ in records if offset not in got]
        if missing:
            yield f"[{partition}]: no member got {len(missing)} messages: {missing[:EXAMPLES]}"


def none_is_skipped(result: Result) -> Iterator[str]:
    """(I7) During an assignment, a member gets the messages in order, and skips none."""
    for partition, records in result.acked.log().items():
        following = dict(pairwise(offset for offset, _ in records))
        for place, offsets in result.taken:
            if place != partition:
                continue
            for last, offset in pairwise(offsets):
                if following.get(last) != offset:
                    yield f"[{partition}]: @{offset} came after @{last}"


def commits_follow(result: Result) -> Iterator[str]:
    """(I7) An assignment begins at or before what the group has got: no commit is ahead."""
    for partition, records in result.acked.log().items():
        got = records[0][0] if records else 0
        for place, offsets in result.taken:
            if place == partition and offsets:
                if offsets[0] > got:
                    yield f"[{partition}]: an assignment began @{offsets[0]}, got was up to @{got}"
                got = max(got, offsets[-1] + 1)


def copied_once(result: Result) -> Iterator[str]:
    """(I9) The copy has each message of the ledger once, in its order."""
    for partition, records in result.acked.log().items():
        expected = [number for _, number in records]
        copied = [number for _, number in result.copied.get(partition, [])]
        if copied != expected:
            place = next(
                (
                    i
                    for i, pair in enumerate(zip(expected, copied, strict=False))
                    if len({*pair}) > 1
                ),
                min(len(expected), len(copied)),
            )
            yield (
                f"[{partition}]: {len(copied)} copies of {len(expected)} messages, "
                f"the first difference is at message {place}"
            )


def side_is_kept(result: Result) -> Iterator[str]:
    """(I1 to I6) The acked rules hold for "side". The cluster may take messages back."""
    lives = [
        replace(
            life,
            reports=[
                report
                if report.number not in result.removed or report.status != PERSISTED
                else report._replace(status=POSSIBLY_PERSISTED)
                for report in life.reports
            ],
        )
        for life in result.side.lives
    ]
    yield from broken(SIDE_RULES, replace(result.side, lives=lives), EXAMPLES)


def side_is_read(result: Result) -> Iterator[str]:
    """(I7) The reader of "side" gets what is there at the end, and nothing that never was."""
    there = {
        (partition, number)
        for partition, records in result.side.log().items()
        for _, number in records
    }
    missing = sorted(there - result.got)
    if missing:
        yield f"the reader didn't get {len(missing)} messages: {missing[:EXAMPLES]}"
    unknown = [each for each in sorted(result.got - there) if each[1] not in result.removed]
    if unknown:
        yield f"the reader got {len(unknown)} messages that never were there: {unknown[:EXAMPLES]}"


SIDE_RULES = tuple(rule for rule in verify.RULES if rule is not verify.reports_in_order)
"""After a truncation, later messages have lower offsets."""
OWN_RULES: tuple[Rule[Result], ...] = (
    group_reads_all,
    none_is_skipped,
    commits_follow,
    copied_once,
    side_is_kept,
    side_is_read,
)


def violations(result: Result) -> list[str]:
    """Return the violations, a few examples for each rule."""
    return verify.violations(result.acked) + broken(OWN_RULES, result, EXAMPLES)
