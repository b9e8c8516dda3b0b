"""Short rounds of a chain of consumers and producers. ``python -m tests.broker.chain`` makes long
ones.

The first tests check the rules themselves. test_copiers.py has those of a single level.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker import test_copiers
from tests.broker.chain.planted import BUGS
from tests.broker.chain.run import Options, Run, chain_rig
from tests.broker.chain.verify import RULES, Result, violations
from tests.broker.test_copiers import good as good_copy
from tests.harness.cluster_run import Rig, module_rig
from tests.harness.runs import each_break


def good() -> Result:
    """Return three levels whose copies two readers found."""
    return Result([good_copy() for _ in range(3)])


def test_a_good_result_breaks_no_rule() -> None:
    assert violations(good()) == []


def on_the_last_level(break_it: Callable[..., None]) -> Callable[[Result], None]:
    def break_last(result: Result) -> None:
        break_it(result.levels[-1])

    return break_last


def left_open(result: Result) -> None:
    result.open_transactions.append("producer 7 has an open transaction")


BREAKS: dict[str, list[Callable[[Result], None]]] = {
    rule.__name__: [on_the_last_level(test_copiers.BREAKS[rule.__name__][0])]
    for rule in RULES
    if rule.__name__ != "nothing_is_open"
} | {"nothing_is_open": [left_open]}


@each_break(BREAKS)
def test_each_rule_can_be_broken(rule: str, break_it: Callable[[Result], None]) -> None:
    result = good()
    break_it(result)
    assert rule in {text.split(":")[0] for text in violations(result)}


def test_every_planted_bug_has_a_rule() -> None:
    assert set().union(*(bug.rules for bug in BUGS.values())) <= set(BREAKS)


three = module_rig(chain_rig)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(600)
@pytest.mark.parametrize("assignor", ["cooperative-sticky", "broker-uniform"])
def test_each_message_is_once_on_each_level(three: Rig, assignor: str) -> None:
    options = Options(seconds=12.0, rate=500, assignor=assignor)
    run = Run(three, options)
    result = run.run()
    print("\n".join([str(options), *run.lines()]))
    assert violations(result) == [], f"the members' output is in {run.directory}"
    assert run.records
    assert run.faults["join"]
    assert run.faults["leave"]


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BUGS)
def test_every_planted_bug_of_a_member_is_caught(
    three: Rig, name: str, record_property: Callable[[str, object], None]
) -> None:
    options = Options(seconds=8.0, rate=500, bug=name, faults=("cut",))
    run = Run(three, options)
    found = violations(run.run())
    print("\n".join([str(options), *run.lines(), *found]))
    assert {text.split(":")[0] for text in found} & BUGS[name].rules
    record_property("caught", name)
