"""The rules at the end of a run. Each yields a sentence for each violation.

The names in parentheses are those of the goals for reliability.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.broker.acked.ledger import NOT_PERSISTED, PERSISTED, Result
from tests.harness.runs import Rule, broken

EXAMPLES = 5


def readers_agree(result: Result) -> Iterator[str]:
    """Every reader has the same records at the same places."""
    (first, expected), *others = result.logs.items()
    for name, found in others:
        for partition in sorted({*expected, *found}):
            if expected.get(partition, []) != found.get(partition, []):
                counts = len(found.get(partition, [])), len(expected.get(partition, []))
                yield f"[{partition}]: {name} has {counts[0]} records, {first} {counts[1]}"


def acked_is_there(result: Result) -> Iterator[str]:
    """(I1) A message that is reported as written is in the log, at the reported offset.

    A report has no offset if only a later batch proves that its own was written.
    """
    there = {
        (partition, offset): number
        for partition, records in result.log().items()
        for offset, number in records
    }
    known = {(partition, number) for (partition, _), number in there.items()}
    for life in result.lives:
        for report in life.reports:
            if report.status == PERSISTED and report.offset < 0:
                if (report.partition, report.number) not in known:
                    yield (
                        f"life {life.name}: message {report.number} was reported in "
                        f"[{report.partition}], the log doesn't have it"
                    )
            elif report.status == PERSISTED:
                found = there.get((report.partition, report.offset))
                if found != report.number:
                    yield (
                        f"life {life.name}: message {report.number} was reported at "
                        f"[{report.partition}] @{report.offset}, the log has {found} there"
                    )


def nothing_twice(result: Result) -> Iterator[str]:
    """(I2) A message is in the log at most once."""
    for number, places in result.places().items():
        if len(places) > 1:
            yield f"message {number} is at {places}"


def in_order(result: Result) -> Iterator[str]:
    """(I3) The messages of a life are in each partition in the order of its produce() calls."""
    order = {number: position for life in result.lives for position, number in enumerate(life.sent)}
    owner = {number: life.name for life in result.lives for number in life.sent}
    for partition, records in result.log().items():
        last: dict[int, int] = {}
        for offset, number in records:
            name = owner.get(number)
            if name is None:
                continue
            if order[number] < last.get(name, -1):
                yield f"[{partition}] @{offset}: message {number} of life {name} is behind a later one"
            last[name] = max(order[number], last.get(name, -1))


def failures_are_honest(result: Result) -> Iterator[str]:
    """(I5) A message that is reported as not written isn't in the log."""
    places = result.places()
    for life in result.lives:
        for report in life.reports:
            if report.status == NOT_PERSISTED and report.number in places:
                yield f"message {report.number} is at {places[report.number]}, reported as not written"


def one_report_each(result: Result) -> Iterator[str]:
    """(I6) Each message has one report, and a life that ended well has no message without one."""
    for life in result.lives:
        counts = Counter(report.number for report in life.reports)
        for number, count in counts.items():
            if count > 1:
                yield f"life {life.name}: message {number} has {count} reports"
            if number not in life.sent:
                yield f"life {life.name}: message {number} was reported, and never sent"
        missing = [] if life.killed else [number for number in life.sent if number not in counts]
        if missing:
            yield f"life {life.name}: {len(missing)} messages have no report: {missing[:EXAMPLES]}"


def reports_in_order(result: Result) -> Iterator[str]:
    """(I6) Reports of a partition's written messages come in the order of their offsets."""
    for life in result.lives:
        last: dict[int, int] = {}
        for report in life.reports:
            if report.status == PERSISTED and report.offset >= 0:
                if report.offset < last.get(report.partition, -1):
                    yield f"life {life.name}: the report of {report.number} came behind a later one"
                last[report.partition] = report.offset


def every_byte_is_its_own(result: Result) -> Iterator[str]:
    """(I13) Each record has the value that was produced for its topic and partition."""
    yield from result.damaged
    sent = {number: place for life in result.lives for number, place in life.sent.items()}
    for partition, records in result.log().items():
        for offset, number in records:
            if sent.get(number) != partition:
                yield f"[{partition}] @{offset}: message {number} was sent to {sent.get(number)}"


def settles(result: Result) -> Iterator[str]:
    """(I11) After the last fault every message has its outcome in time, and close() returns."""
    yield from result.late


RULES: tuple[Rule[Result], ...] = (
    *(readers_agree, acked_is_there, nothing_twice, in_order, failures_are_honest),
    *(one_report_each, reports_in_order, every_byte_is_its_own, settles),
)


def violations(result: Result) -> list[str]:
    """Return the violations, a few examples for each rule."""
    return broken(RULES, result, EXAMPLES)
