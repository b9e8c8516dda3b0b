"""Odd arguments: both libraries refuse, accept and answer the same.

`tests.compat.odd` has the calls, the arguments, the states and the differences that stay. To see
the differences of some cases: ``python -m tests.compat.odd.compare 'Consumer.fresh.seek'``.
"""

from __future__ import annotations

import pytest

from tests.compat.odd.allowed import ALLOWED, is_open, reason
from tests.compat.odd.calls import SUBJECTS, cases, sampled
from tests.compat.odd.clients import is_client
from tests.compat.odd.compare import compared
from tests.compat.odd.difference import Difference, report
from tests.compat.sides import EVERY_CALL

SAMPLED_SHARE = 120
"""The fast test makes one of so many calls."""
PARTS = {
    **{
        f"{subject.name}.{state}": f"{subject.name}.{state}."
        for subject in SUBJECTS
        if is_client(subject)
        for state in subject.states
    },
    **{subject.name: f"{subject.name}." for subject in SUBJECTS if not is_client(subject)},
}
"""The parts of all calls: the beginnings of their ids by name."""
used: set[str] = set()
"""The reasons of the differences that the tests have found."""
made: set[str] = set()
"""The parts whose calls were made."""


def check(ids: list[str]) -> None:
    """Make calls on both libraries. Each difference has to be a known one."""
    found: list[Difference] = compared(ids)
    new = []
    for each in found:
        why = reason(each)
        if why is not None:
            used.add(why)
        elif not is_open(each):
            new.append(each)
    assert not new, f"{len(new)} differences:\n{report(new)}"


def test_sampled_calls() -> None:
    check(sampled(SAMPLED_SHARE))


@EVERY_CALL
@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_all_calls(part: str) -> None:
    check([each for each in cases() if each.startswith(PARTS[part])])
    made.add(part)


@EVERY_CALL
@pytest.mark.slow
def test_no_idle_reason() -> None:
    """The tests before have found each difference that stays."""
    if made != set(PARTS):
        pytest.skip("not all calls were made in this process")
    assert {each.reason for each in ALLOWED} == used


def test_cases_have_different_ids() -> None:
    everything = cases()
    assert len(everything) > 7_000
    assert all(case.id == name for name, case in everything.items())
    assert all(any(name.startswith(part) for part in PARTS.values()) for name in everything)
