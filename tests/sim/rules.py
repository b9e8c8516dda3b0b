"""The rules at the end of a simulated run: those of the acked runs, of groups and of copies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.broker.acked import verify
from tests.broker.acked.ledger import Life, Log, Report
from tests.broker.acked.ledger import Result as Acked
from tests.harness.runs import Rule, broken

EXAMPLES = 5


@dataclass
class Result:
    """What a run did. ``taken``: the partition and the offsets of each assignment of a member."""

    acked: Acked
    copied: Log = field(default_factory=dict)
    taken: list[tuple[int, list[int]]] = field(default_factory=list)
    committed: list[dict[int, int]] = field(default_factory=list)


def _log(found: dict[str, list[list[int]]]) -> Log:
    return {
        int(partition): [(offset, number) for offset, number in records]
        for partition, records in found.items()
    }


def result_of(found: dict[str, Any]) -> Result:
    """Read what the simulated program has printed."""
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
    return Result(
        Acked(lives, logs, late=found["problems"]),
        _log(found["copy"]),
        [(each["partition"], each["offsets"]) for each in found["taken"]],
        [{int(key): offset for key, offset in each.items()} for each in found["committed"]],
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


OWN_RULES: tuple[Rule[Result], ...] = (
    group_reads_all,
    none_is_skipped,
    commits_follow,
    copied_once,
)


def violations(result: Result) -> list[str]:
    """Return the violations, a few examples for each rule."""
    return verify.violations(result.acked) + broken(OWN_RULES, result, EXAMPLES)
