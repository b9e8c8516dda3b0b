"""Odd arguments: both libraries refuse, accept and answer the same.

`tests.compat.odd` has the calls, the arguments, the states and the differences that stay. To see
the differences of some cases: ``python -m tests.compat.odd.compare 'Consumer.fresh.seek'``.
"""

from __future__ import annotations

import pytest

from tests.compat.odd.allowed import ALLOWED, is_open, reason
from tests.compat.odd.calls import SUBJECTS, cases, sampled
from tests.compat.odd.compare import compared
from tests.compat.odd.difference import Difference, report

SAMPLED_SHARE = 120
"""The fast test makes one of so many calls."""
BIG = ("Consumer", "Producer", "AIOConsumer", "AIOProducer", "ShareConsumer", "SerializingProducer")
"""The subjects with the most cases. They have tests of their own."""
used: set[str] = set()
"""The reasons of the differences that the tests have found."""
made: set[str] = set()
"""The subjects of the tests that have run."""


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


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BIG, "the others"])
def test_all_calls(name: str) -> None:
    names = {name} if name in BIG else {each.name for each in SUBJECTS} - set(BIG)
    check([each.id for each in cases().values() if each.subject.name in names])
    made.update(names)


@pytest.mark.slow
def test_no_idle_reason() -> None:
    """Each difference that stays has been found by the tests before."""
    if made != {each.name for each in SUBJECTS}:
        pytest.skip("not all calls were made in this process")
    assert {each.reason for each in ALLOWED} == used


def test_cases_have_different_ids() -> None:
    everything = cases()
    assert len(everything) > 7_000
    assert all(case.id == name for name, case in everything.items())
