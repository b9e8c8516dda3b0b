"""The figures of a run."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from statistics import median

from tests.broker.chaos.history import FOREVER, Assignment, History, Span, overlapping
from tests.broker.chaos.verify import deliveries
from tests.harness.runs import counted


def without_owner(assignments: list[Assignment]) -> list[Span]:
    """Return the spans without an owner between a partition's first and last owner."""
    spans = []
    end = assignments[0].end
    for each in assignments[1:]:
        if each.start > end:
            spans.append((end, each.start))
        end = max(end, each.end)
    return spans


def rebalances(history: History) -> list[Span]:
    """Return the spans in which partitions changed owners. Spans that touch are joined."""
    spans = sorted(span for each in history.by_partition().values() for span in without_owner(each))
    joined: list[Span] = []
    for start, end in spans:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def first_message_s(history: History) -> list[float]:
    """Return the seconds from each assignment to its first message."""
    return [each.got[0][0] - each.start for each in history.assignments() if each.got]


def overlaps(history: History) -> int:
    """Return the number of assignments that began before an expelled member noticed."""
    return sum(
        1
        for each in history.by_partition().values()
        for index in range(len(each))
        for _ in overlapping(each, index)
    )


def members_max(history: History) -> int:
    """Return the largest number of members that were subscribed at once."""
    joined = [(life.ready, 1) for life in history.lives if life.ready is not None]
    left = [(life.ended, -1) for life in history.lives if life.ready is not None]
    return max(accumulate(change for _, change in sorted([*joined, *left])), default=0)


def recorded(history: History) -> dict[str, float]:
    """Return the figures of the published record."""
    return {
        "rebalances": history.generations,
        "rebalances_per_minute": round(history.generations / (history.seconds / 60), 1),
        "members": members_max(history),
        "migrations": len(history.migrations),
        "members_killed": sum(life.how == "killed" for life in history.lives),
    }


def span_of(values: list[float]) -> str:
    """Return median and maximum as text."""
    return f"median {median(values):.2f} s, longest {max(values):.2f} s" if values else "none"


def lines(history: History) -> list[str]:
    seen = deliveries(history)
    times = sum(len(times) for offsets in seen.values() for times in offsets.values())
    different = sum(len(offsets) for offsets in seen.values())
    callbacks: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for life in history.lives:
        callbacks.update(life.callbacks)
        refused.update(text.split(":")[0] for _, text in life.refused)
        errors.update(text.split(":")[0] for _, text, _ in life.errors)
    ends = Counter(life.how for life in history.lives)
    closings = [life.closing for life in history.lives if life.closing is not None]
    closes = [end - start for start, end in closings if end < FOREVER]
    away = [end - start for start, end in rebalances(history)]
    acked = sum(map(len, history.acked.values()))
    settled = [each.settled - each.healed for each in history.rounds if each.settled is not None]
    return [
        f"{history.seconds:.0f} s, faults: {counted(history.faults)}",
        f"messages: {acked} acked, {different} handed out, {times - different} of them again",
        f"members: {len(history.lives)}, at once {members_max(history)}, ended: {counted(ends)}",
        (
            f"generations (the broker's count): {history.generations}, migrations: "
            f"{len(history.migrations)}; callbacks: {counted(callbacks)}"
        ),
        f"partitions without an owner: {len(away)} times, {span_of(away)}",
        f"from on_assign to the first message: {span_of(first_message_s(history))}",
        f"assignments that began before an expelled member knew: {overlaps(history)}",
        f"rounds: {len(history.rounds)}, stable after the last fault: {span_of(settled)}",
        f"close(): {span_of(closes)}",
        f"commits in the broker's log: {len(history.commits)}; refused: {counted(refused)}",
        f"errors shown to the application: {counted(errors)}",
    ]
