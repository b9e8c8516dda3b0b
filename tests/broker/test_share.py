"""Short runs of a share group under faults. ``python -m tests.broker.share`` makes long ones.

The first tests check the rules themselves.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker.share.member import DONE, GONE, REFUSED, UNREPORTED, UNSURE
from tests.broker.share.planted import BUGS
from tests.broker.share.run import Options, Run, share_rig
from tests.broker.share.verify import RULES, Answer, Delivery, Result, violations
from tests.harness.cluster_run import Rig, module_rig
from tests.harness.runs import each_break

FIRST, AGAIN, LAST, OPEN = (0, 0), (0, 1), (0, 2), (0, 3)
"""Records: accepted; accepted after a freeze; rejected; in the hands of a killed member."""


def good() -> Result:
    """Member a is frozen with a record, and b gets it. c is killed."""
    result = Result(limit=5)
    result.acked = {FIRST: 101, AGAIN: 107, LAST: 120, OPEN: 109}
    result.got[FIRST] = [Delivery(1.0, "a", 101, 1)]
    result.answers[FIRST] = [
        Answer(2.0, "a", "RENEW", 1, DONE),
        Answer(3.0, "a", "ACCEPT", 1, DONE),
    ]
    result.got[AGAIN] = [
        Delivery(1.0, "a", 107, 1),
        Delivery(2.0, "a", 107, 2),
        Delivery(6.0, "b", 107, 3),
    ]
    result.answers[AGAIN] = [
        Answer(1.5, "a", "RELEASE", 1, DONE),
        Answer(9.0, "a", "ACCEPT", 2, REFUSED),
        Answer(7.0, "b", "ACCEPT", 3, DONE),
    ]
    result.got[LAST] = [Delivery(1.0, "b", 120, 1)]
    result.answers[LAST] = [Answer(2.0, "b", "REJECT", 1, DONE)]
    result.got[OPEN] = [Delivery(1.0, "c", 109, 1)]
    result.closed = {"a", "b"}
    return result


def test_a_good_result_breaks_no_rule() -> None:
    assert violations(good()) == []


def test_an_open_outcome_is_no_loss() -> None:
    result = good()
    result.answers[OPEN] = [Answer(2.0, "c", "ACCEPT", 1, UNSURE)]
    result.closed.add("c")
    assert violations(result) == []


def test_a_new_leader_may_count_from_an_older_count() -> None:
    result = good()
    renewed_elsewhere(result)
    result.outages.append((1.0, 1.5))
    assert violations(result) == []


def test_a_late_success_of_an_older_delivery_is_no_second_one() -> None:
    result = good()
    result.answers[AGAIN][1] = Answer(9.0, "a", "ACCEPT", 2, DONE)
    assert violations(result) == []


def never_seen(result: Result) -> None:
    result.got[FIRST].clear()


def refused_for_ever(result: Result) -> None:
    result.answers[AGAIN].pop()


def given_up_for_ever(result: Result) -> None:
    result.answers[LAST] = [Answer(2.0, "b", "REJECT", 1, GONE)]


def in_living_hands(result: Result) -> None:
    result.closed.add("c")


def others_value(result: Result) -> None:
    result.got[FIRST] = [Delivery(1.0, "a", 999, 1)]


def taken_twice(result: Result) -> None:
    result.answers[AGAIN][1] = Answer(6.5, "a", "ACCEPT", 2, DONE)


def delivered_after_the_end(result: Result) -> None:
    result.got[FIRST].append(Delivery(40.0, "b", 101, 2))


def renewed_elsewhere(result: Result) -> None:
    result.got[FIRST].insert(0, Delivery(2.5, "b", 101, 2))


def too_often(result: Result) -> None:
    result.got[OPEN].append(Delivery(30.0, "c", 109, 6))


def uncounted(result: Result) -> None:
    result.got[OPEN] = [Delivery(1.0, "c", 109, 0)]


def released_and_kept(result: Result) -> None:
    result.answers[AGAIN][0] = Answer(1.5, "a", "RELEASE", 3, DONE)


def rejected_by_mistake(result: Result) -> None:
    result.answers[FIRST][1] = Answer(3.0, "a", "REJECT", 1, DONE)


def without_outcome(result: Result) -> None:
    result.answers[OPEN].append(Answer(2.0, "c", "ACCEPT", 1, UNREPORTED))


def unfinished(result: Result) -> None:
    result.unfinished = "[0] ends at 4"


BREAKS = {
    "nothing_lost": [never_seen, refused_for_ever, given_up_for_ever, in_living_hands],
    "own_values": [others_value],
    "done_once": [taken_twice],
    "done_for_good": [delivered_after_the_end],
    "held_alone": [renewed_elsewhere],
    "counts_within_limits": [too_often, uncounted],
    "released_comes_again": [released_and_kept],
    "decisions_hold": [rejected_by_mistake],
    "every_answer_is_reported": [without_outcome],
    "finishes": [unfinished],
}


@each_break(BREAKS)
def test_each_rule_can_be_broken(rule: str, break_it: Callable[[Result], None]) -> None:
    result = good()
    break_it(result)
    assert rule in {text.split(":")[0] for text in violations(result)}


def test_every_rule_has_a_violation() -> None:
    assert set(BREAKS) == {rule.__name__ for rule in RULES}
    assert set().union(*(bug.rules for bug in BUGS.values())) <= set(BREAKS)


three = module_rig(share_rig)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(600)
def test_each_record_is_accepted_whatever_happens(three: Rig) -> None:
    faults = ("kill", "freeze", "cut", "pause", "broker", "refuse")
    options = Options(seconds=20.0, fault_every_s=(0.5, 1.5), faults=faults)
    run = Run(three, options)
    result = run.run()
    print("\n".join([str(options), *run.lines()]))
    assert violations(result) == [], f"the logs are in {run.directory}"
    assert result.acked
    assert run.faults


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("bug", "fault"), [("hasty", "kill"), ("deaf", "cut")])
def test_every_planted_bug_of_a_member_is_caught(
    three: Rig, bug: str, fault: str, record_property: Callable[[str, object], None]
) -> None:
    options = Options(seconds=15.0, fault_every_s=(0.5, 1.0), faults=(fault,), bug=bug)
    run = Run(three, options)
    found = violations(run.run())
    print("\n".join([str(options), *found]))
    assert {text.split(":")[0] for text in found} & BUGS[bug].rules
    record_property("caught", bug)
