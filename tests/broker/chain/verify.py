"""The rules at the end of a round. Each yields a sentence for each violation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import wraps

from tests.broker.copies import verify
from tests.broker.copies.verify import Copy
from tests.harness.runs import Rule, broken


@dataclass
class Result:
    """The data that the rules check."""

    levels: list[Copy] = field(default_factory=list)
    """The topics of copies. The input of each is what the one before has."""
    open_transactions: list[str] = field(default_factory=list)
    """The open transactions in the brokers' logs."""


def on_each_level(rule: Rule[Copy]) -> Rule[Result]:
    """Return a rule that holds if this one holds on each level."""

    @wraps(rule)
    def check(result: Result) -> Iterator[str]:
        for number, copy in enumerate(result.levels, 1):
            for text in rule(copy):
                yield f"level {number}: {text}"

    return check


def nothing_is_open(result: Result) -> Iterator[str]:
    """No log has a transaction without its end."""
    yield from result.open_transactions


RULES: tuple[Rule[Result], ...] = (*map(on_each_level, verify.COPY_RULES), nothing_is_open)


def violations(result: Result) -> list[str]:
    return broken(RULES, result, verify.SHOWN)
