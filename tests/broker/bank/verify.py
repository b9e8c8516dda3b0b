"""The rules at the end of a run. Each yields a sentence for each violation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.harness.readers import Place
from tests.harness.runs import Rule, broken

OPENING = 1000
"""The balance of each account before the first transfer."""
SHOWN = 5


@dataclass
class Result:
    """The data that the rules check."""

    orders: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """The acked orders by number: payer, payee, amount."""
    readings: dict[str, dict[Place, str]] = field(default_factory=dict)
    """The entries that each committed reader found."""
    open_transactions: list[str] = field(default_factory=list)
    """The open transactions in the brokers' logs."""

    def entries(self) -> list[tuple[int, int, int, bool]]:
        """Return number, account, change, and whether the entry was written to be aborted, for the
        first reader.
        """
        found = next(iter(self.readings.values()), {})
        return [tuple(json.loads(value)) for _, value in sorted(found.items())]


def readers_agree(result: Result) -> Iterator[str]:
    """Every reader has the same entries at the same places."""
    (first, expected), *others = result.readings.items()
    for name, found in others:
        different = [
            place for place in {*expected, *found} if expected.get(place) != found.get(place)
        ]
        if different:
            yield f"{name} has {len(found)} entries, {first} {len(expected)}; first at {sorted(different)[:SHOWN]}"


def each_order_once(result: Result) -> Iterator[str]:
    """An order has its two entries, once."""
    found = Counter((number, account, change) for number, account, change, _ in result.entries())
    expected: Counter[tuple[int, int, int]] = Counter()
    for number, (payer, payee, amount) in result.orders.items():
        expected[number, payer, -amount] += 1
        expected[number, payee, amount] += 1
    skipped, again = expected - found, found - expected
    if skipped:
        yield f"{skipped.total()} entries are missing: {sorted(skipped)[:SHOWN]}"
    if again:
        yield f"{again.total()} entries are there too often, or wrong: {sorted(again)[:SHOWN]}"


def sum_is_conserved(result: Result) -> Iterator[str]:
    """The sum of all accounts stays the same."""
    entries = result.entries()
    opening = OPENING * len({account for _, account, _, _ in entries})
    total = opening + sum(change for _, _, change, _ in entries)
    if total != opening:
        yield f"the accounts have {total} in all, not {opening}"


def nothing_aborted_is_seen(result: Result) -> Iterator[str]:
    """No reader has an entry that was written to be aborted."""
    for name, found in result.readings.items():
        seen = [place for place, value in found.items() if json.loads(value)[3]]
        if seen:
            yield f"{name} saw {len(seen)} aborted entries: {sorted(seen)[:SHOWN]}"


def nothing_is_open(result: Result) -> Iterator[str]:
    """No log has a transaction without its end."""
    yield from result.open_transactions


RULES: tuple[Rule[Result], ...] = (
    readers_agree,
    each_order_once,
    sum_is_conserved,
    nothing_aborted_is_seen,
    nothing_is_open,
)


def violations(result: Result) -> list[str]:
    return broken(RULES, result)
