"""A run can be repeated to the last byte, breaks no rule, and finds planted bugs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

from tests.broker.acked.ledger import Life, Report
from tests.broker.acked.ledger import Result as Acked
from tests.harness.runs import broken, each_break
from tests.sim.faults import KINDS, Fault, plan
from tests.sim.machine import Options, Outcome, Unsimulated, build, needed, simulate
from tests.sim.rules import OWN_RULES, Result, result_of, violations

SEED = 1


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The machine's folder. Without it the tests are skipped, with the reason."""
    try:
        made = build(tmp_path_factory.mktemp("machine"))
        simulate(Options(seconds=1), made)
    except Unsimulated as reason:
        pytest.skip(str(reason))
    return made


def found(outcome: Outcome) -> list[str]:
    return violations(result_of(outcome.result))


# --- whole runs ---


def test_a_seed_repeats_to_the_last_byte(machine: Path) -> None:
    options = Options(SEED, 120, 5.0, "", plan(SEED, 120, 10))
    first, second = simulate(options, machine), simulate(options, machine)
    assert first == second
    assert first.digest != simulate(replace(options, seed=SEED + 1), machine).digest


def test_minutes_with_each_fault_break_no_rule(machine: Path) -> None:
    faults = plan(SEED, 300, 5)
    outcome = simulate(Options(SEED, 300, 5.0, "", faults), machine)
    assert set(outcome.result["faults"]) == set(KINDS)
    assert found(outcome) == []
    assert outcome.seconds > 300
    assert min(outcome.result["effects"].values()) > 0, outcome.result["effects"]


def test_it_waits_for_no_real_time(machine: Path) -> None:
    """Ten minutes almost without messages: only heartbeats and fetches that wait."""
    outcome = simulate(Options(SEED, 600, 1e9), machine)
    assert outcome.seconds > 600
    assert found(outcome) == []


def test_a_throttled_client_waits(machine: Path) -> None:
    faults = [Fault(at, "throttle", [at % 3 + 1, 3, 2]) for at in range(20, 110, 7)]
    options = Options(SEED, 120, 1.0, "", faults)  # type: ignore[arg-type]
    outcome = simulate(options, machine)
    assert outcome.result["effects"]["throttled"] > 10
    assert (found(outcome), outcome.result["hasty"]) == ([], [])
    assert simulate(replace(options, bug="waits_less"), machine).result["hasty"]


@pytest.mark.parametrize(
    ("bug", "rule", "faults"),
    [
        ("commits_ahead", "commits_follow", [("restart", [3]), ("restart", [4])]),
        ("no_offsets", "copied_once", [("restart", [5])]),
    ],
)
def test_a_planted_bug_breaks_its_rule(
    machine: Path, bug: str, rule: str, faults: Sequence[tuple[str, list[int]]]
) -> None:
    each = [Fault(at, kind, arguments) for at in (30, 60, 90) for kind, arguments in faults]
    outcome = simulate(Options(SEED, 120, 1.0, bug, each), machine)
    assert any(text.startswith(f"{rule}:") for text in found(outcome)), found(outcome)


# --- the parts ---


def test_a_failing_list_of_faults_shrinks_to_what_is_needed() -> None:
    tried = []

    def fails(faults: Sequence[int]) -> bool:
        tried.append(faults)
        return {3, 17} <= set(faults)

    assert needed(list(range(40)), fails) == [3, 17]  # type: ignore[arg-type, comparison-overlap]
    assert len(tried) < 60


def test_a_seed_draws_the_same_faults_and_each_kind() -> None:
    assert plan(5, 600) == plan(5, 600) != plan(6, 600)
    assert {fault.kind for fault in plan(5, 3600)} == set(KINDS)


def sound() -> Result:
    """Return a history that breaks no rule: ten messages, read by two members, copied once."""
    records = [(offset, offset + 100) for offset in range(10)]
    life = Life(
        1,
        sent={number: 0 for _, number in records},
        reports=[Report(number, 0, offset, "persisted") for offset, number in records],
    )
    copied = [(2 * offset, number) for offset, number in records]
    taken = [(0, [0, 1, 2, 3, 4]), (0, [3, 4, 5, 6, 7, 8, 9])]
    acked = Acked([life], {"a reader": {0: records}})
    side = Acked([deepcopy(life)], {"a reader": {0: records[3:]}})  # three were taken back
    removed, got = {100, 101, 102}, {(0, number) for _, number in records[1:]}
    return Result(acked, {0: copied}, taken, [{0: 5}, {0: 10}], side, removed, got)


def loses(result: Result) -> None:
    result.taken[1] = (0, [3, 4, 5, 6, 7, 8])


def skips(result: Result) -> None:
    result.taken[0] = (0, [0, 1, 3, 4])


def goes_back(result: Result) -> None:
    result.taken[0] = (0, [0, 1, 2, 1])


def begins_late(result: Result) -> None:
    result.taken[1] = (0, [6, 7, 8, 9])


def copies_twice(result: Result) -> None:
    result.copied[0].append(result.copied[0][0])


def copies_less(result: Result) -> None:
    del result.copied[0][4]


def copies_disordered(result: Result) -> None:
    result.copied[0].reverse()


def loses_more(result: Result) -> None:
    result.removed.remove(102)


def reports_none(result: Result) -> None:
    result.side.lives[0].reports.pop(0)


def reads_less(result: Result) -> None:
    result.got.remove((0, 105))


def reads_another(result: Result) -> None:
    result.got.add((0, 1))


def test_a_sound_history_breaks_no_rule() -> None:
    assert violations(sound()) == []


@each_break(
    {
        "group_reads_all": [loses],
        "none_is_skipped": [skips, goes_back],
        "commits_follow": [begins_late],
        "copied_once": [copies_twice, copies_less, copies_disordered],
        "side_is_kept": [loses_more, reports_none],
        "side_is_read": [reads_less, reads_another],
    }
)
def test_each_rule_can_be_broken(rule: str, break_it: Callable[[Result], None]) -> None:
    result = sound()
    break_it(result)
    assert any(text.startswith(f"{rule}:") for text in broken(OWN_RULES, result))
