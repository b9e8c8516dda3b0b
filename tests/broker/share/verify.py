"""The rules of a run with a share group.

A record's delivery count only grows, except that a new leader of its partition may know an older
one. A member holds a record from its delivery until the broker's success for an accept, reject or
release of this delivery. So a success shows that nobody else got the record in the meantime.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.broker.share.member import DONE, UNREPORTED, UNSURE, decide
from tests.harness.runs import Rule, broken

Place = tuple[int, int]
"""Partition and offset."""
Span = tuple[float, float]

EXAMPLES = 5
LATE_S = 20.0
"""The longest time from a delivery to its line in the log: a freeze, or a frozen broker's answer."""
OUTAGE_S = 20.0
"""The time after an outage in which partitions still change their leaders."""
FINAL = ("ACCEPT", "REJECT")
KEEPS = (*FINAL, "RENEW")


class Delivery(NamedTuple):
    """A line of a member about a record that it got."""

    at: float
    member: str
    number: int
    deliveries: int


class Answer(NamedTuple):
    """What a member knows about its acknowledgement of a delivery."""

    at: float
    member: str
    kind: str
    deliveries: int
    answer: str


@dataclass
class Result:
    """The data that the rules check. All times are those of the machine's monotonic clock."""

    limit: int
    """The group's limit of deliveries."""
    acked: dict[Place, int] = field(default_factory=dict)
    """The number of each record that was written."""
    got: dict[Place, list[Delivery]] = field(default_factory=lambda: defaultdict(list))
    answers: dict[Place, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    outages: list[Span] = field(default_factory=list)
    closed: set[str] = field(default_factory=set)
    """The members that left. All others were killed."""
    unfinished: str = ""
    """Why the group hasn't finished all records in time."""

    def done(self, place: Place, *kinds: str) -> list[Answer]:
        """Return the successes of a record, without late ones.

        When the group has finished a record and all before it, the broker ignores its further
        acknowledgements, and answers with a success.
        """
        found = [each for each in self.answers.get(place, []) if each.answer == DONE]
        final = [each for each in found if each.kind in FINAL]
        return [
            each
            for each in found
            if each.kind in kinds
            and not any(
                other.deliveries > each.deliveries and other.at < each.at for other in final
            )
        ]


def named(place: Place) -> str:
    return f"[{place[0]}] @{place[1]}"


def nothing_lost(result: Result) -> Iterator[str]:
    """Each record was processed, and then accepted or rejected.

    There is no success in two cases: a member was killed between a delivery and its answer, or got
    an error that leaves the outcome open.
    """
    for place in result.acked:
        seen, answers = result.got.get(place, []), result.answers.get(place, [])
        if not seen:
            yield f"{named(place)} was never processed"
            continue
        final = [each for each in answers if each.kind in FINAL]
        answered = {(each.member, each.deliveries) for each in answers if each.kind != "RENEW"}
        is_open = any(each.answer == UNSURE for each in final) or any(
            each.member not in result.closed and (each.member, each.deliveries) not in answered
            for each in seen
        )
        if not result.done(place, *FINAL) and not is_open:
            yield f"{named(place)} was neither accepted nor rejected: {answers[-3:]}"


def own_values(result: Result) -> Iterator[str]:
    """Each delivery has the value that was written at its offset."""
    for place, seen in result.got.items():
        for each in seen:
            if result.acked.get(place) != each.number:
                yield f"{named(place)}: {each}, written was {result.acked.get(place)}"


def done_once(result: Result) -> Iterator[str]:
    """No record was accepted or rejected twice with a success."""
    for place in result.answers:
        done = result.done(place, *FINAL)
        if len(done) > 1:
            yield f"{named(place)}: {done}"


def done_for_good(result: Result) -> Iterator[str]:
    """Nobody gets a record after the success of an accept or reject."""
    for place in result.answers:
        for done in result.done(place, *FINAL)[:1]:
            for each in result.got.get(place, []):
                if each.deliveries > done.deliveries and each.at > done.at + LATE_S:
                    yield f"{named(place)}: {each} after {done}"


def held_alone(result: Result) -> Iterator[str]:
    """Nobody gets a record while a member holds it.

    A later delivery has a higher count. After an outage a new leader may count from an older one.
    """
    for place in result.answers:
        for done in result.done(place, *KEEPS):
            for each in result.got.get(place, []):
                is_later = each.deliveries > done.deliveries and each.at < done.at
                if is_later and not in_outage(result, each.at, done.at):
                    yield f"{named(place)}: {each} before {done}"


def in_outage(result: Result, since: float, until: float) -> bool:
    """Return whether leaders may have changed between two times, or shortly before."""
    return any(start <= until and since - LATE_S <= end + OUTAGE_S for start, end in result.outages)


def counts_within_limits(result: Result) -> Iterator[str]:
    """Delivery counts go from 1 to the group's limit."""
    for place, seen in result.got.items():
        for each in seen:
            if not 1 <= each.deliveries <= result.limit:
                yield f"{named(place)}: {each}, the limit is {result.limit}"


def released_comes_again(result: Result) -> Iterator[str]:
    """A released record is accepted or rejected in a later delivery."""
    for place in result.answers:
        for done in result.done(place, *FINAL):
            for released in result.done(place, "RELEASE"):
                if released.deliveries >= done.deliveries:
                    yield f"{named(place)}: {done}, although {released}"


def decisions_hold(result: Result) -> Iterator[str]:
    """The broker took for each record what its number decides."""
    for place in result.answers:
        for done in result.done(place, *FINAL, "RELEASE"):
            number = result.acked.get(place)
            if number is not None and done.kind != decide(number, done.deliveries).name:
                yield f"{named(place)}, number {number}: {done}"


def every_answer_is_reported(result: Result) -> Iterator[str]:
    """commit_sync() returns an outcome for each acknowledged record."""
    for place, answers in result.answers.items():
        for each in answers:
            if each.answer == UNREPORTED:
                yield f"{named(place)}: {each}"


def finishes(result: Result) -> Iterator[str]:
    """The group finishes all records in time after the last fault."""
    if result.unfinished:
        yield result.unfinished


RULES: tuple[Rule[Result], ...] = (
    *(nothing_lost, own_values, done_once, done_for_good, held_alone, counts_within_limits),
    *(released_comes_again, decisions_hold, every_answer_is_reported, finishes),
)


def violations(result: Result) -> list[str]:
    """Return the violations, a few examples for each rule."""
    return broken(RULES, result, EXAMPLES)
