"""Odd arguments: both libraries refuse, accept and answer the same.

`tests.compat.odd` has the calls, the arguments, the states and the differences that stay. To see
the differences of some cases: ``python -m tests.compat.odd.compare 'Consumer.fresh.seek'``.
"""

from __future__ import annotations

import pytest

from tests.compat.odd.allowed import reason
from tests.compat.odd.calls import SUBJECTS, cases, sampled
from tests.compat.odd.clients import is_client
from tests.compat.odd.compare import compared
from tests.compat.odd.difference import report

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


def check(ids: list[str]) -> None:
    """Make calls on both libraries. Each difference has to be a known one."""
    new = [each for each in compared(ids) if reason(each) is None]
    assert not new, f"{len(new)} differences:\n{report(new)}"


def test_sampled_calls() -> None:
    check(sampled(SAMPLED_SHARE))


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_all_calls(part: str) -> None:
    check([each for each in cases() if each.startswith(PARTS[part])])


def test_cases_have_different_ids() -> None:
    everything = cases()
    assert len(everything) > 7_000
    assert all(case.id == name for name, case in everything.items())
    assert all(any(name.startswith(part) for part in PARTS.values()) for name in everything)
