"""The page of recorded runs: it is made from their lines, and a broken run sets a sum to zero."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from bench.reliability_goals import GOALS, Goal, read_runs
from bench.reliability_page import FOLDER, PAGE, main, page_of
from tests.harness.reliability import record

BY_NAME = {goal.name: goal for goal in GOALS}
ACKED = BY_NAME["G2"]


def add(
    folder: Path,
    workload: str,
    records: int,
    broken: tuple[str, ...] = (),
    faults: Mapping[str, int] | None = None,
    figures: Mapping[str, Any] | None = None,
    seconds: float = 3600.0,
    commit: str = "",
    **options: Any,
) -> None:
    made = {"cut": 30} if faults is None else faults
    chosen = {"seed": 7} | options
    record(workload, chosen, seconds, made, records, broken, figures, folder, commit)


def add_outage(
    folder: Path, outage: str, seconds: Mapping[str, Mapping[str, float | None]], run: int = 1
) -> None:
    figures = {"seconds": seconds, "versions": {"confluent_kafka": "2.16.1"}}
    add(folder, "recovery", 10, (), {outage: 1}, figures, outage=outage, limit_s=120.0, run=run)


def row_of(page: str, start: str) -> list[str]:
    (line,) = (line for line in page.splitlines() if line.startswith(f"| {start} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_of_the_docs_is_that_of_the_recorded_runs() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_of(read_runs(FOLDER)), "run: python -m bench reliability"
    for chart in re.findall(r"\]\((reliability/.*svg)\)", page):
        assert (PAGE.parent / chart).exists()


def test_every_goal_has_a_row_and_is_not_run_without_runs() -> None:
    page = page_of([])
    for number, goal in enumerate(GOALS, 1):
        assert goal.name == f"G{number}"
        row = row_of(page, goal.name)
        assert row[4] == "-"
        assert row[5] == "not run"
    assert page.count("Not run.") == 2  # recovery times, other clients


@pytest.mark.parametrize(
    "goal", [goal for goal in GOALS if goal.workload], ids=lambda goal: goal.name
)
def test_a_goal_with_a_file_has_a_command_that_writes_it(goal: Goal) -> None:
    assert goal.command
    assert goal.needs


def test_sums_are_those_since_the_last_broken_run(tmp_path: Path) -> None:
    add(tmp_path, "acked", 5_000_000)
    add(tmp_path, "acked", 1_000_000, broken=("in_order: ...",))
    add(tmp_path, "acked", 3_000_000)
    add(tmp_path, "acked", 1_500_000, faults={"kill": 2})
    runs = read_runs(tmp_path)
    assert [run.records for run in ACKED.runs(runs)] == [3_000_000, 1_500_000]
    row = row_of(page_of(runs), "G2")
    assert row[4] == (
        "4,500,000 records, 32 faults, 2 processes killed, 2 hours, in 2 runs, 1 broken before"
    )
    assert row[5] == "gate reached"


def test_states(tmp_path: Path) -> None:
    states = []
    for records, faults, broken in (
        (1000, {"cut": 1}, ()),
        (3_000_000, {"cut": 30}, ()),
        (100_000_000, {"cut": 700, "kill": 299}, ()),
        (1, {"kill": 1}, ()),
        (1, {"kill": 1}, ("in_order: ...",)),
    ):
        add(tmp_path, "acked", records, broken, faults)
        states.append(ACKED.state(read_runs(tmp_path)))
    assert states == [
        *("below the gate", "gate reached", "gate reached", "release figure reached", "broken")
    ]


def test_the_gate_of_the_sanitizers_is_that_of_all_parts_of_a_commit(tmp_path: Path) -> None:
    states = []
    for commit, part in (
        *(("1", "address-c"), ("1", "address-all"), ("1", "thread-c"), ("2", "thread-all")),
        *(("2", "thread-smoke"), ("1", "thread-all"), ("3", "valgrind-c")),
    ):
        count = 9000 if part.endswith("-all") else 60
        add(tmp_path, "sanitizers", count, commit=commit, part=part)
        states.append(BY_NAME["G11"].state(read_runs(tmp_path)))
    below, gate = "below the gate", "gate reached"
    assert states == [*[below] * 5, gate, "counted figures reached"]
    add(tmp_path, "sanitizers", 59, ("report.12",), commit="4", part="thread-c")
    assert BY_NAME["G11"].state(read_runs(tmp_path)) == "broken"


def test_failed_calls_are_counted_by_their_kind(tmp_path: Path) -> None:
    calls = {"malloc": 300, "mmap": 20}
    figures = {"scenarios": 24, "calls": 1000, "tried_calls": 320}
    add(tmp_path, "failed_calls", 400, (), calls, figures, calls="allocations", scenarios="all")
    add(
        *(tmp_path, "failed_calls", 9, (), {"malloc": 9}),
        {"scenarios": 1, "calls": 9, "tried_calls": 9},
        calls="allocations",
        scenarios=["produce"],
    )
    goal = BY_NAME["G10"]
    assert goal.state(read_runs(tmp_path)) == "gate reached"
    figures = {"scenarios": 24, "calls": 100, "tried_calls": 100}
    for kind in ("allocations", "system calls"):
        add(tmp_path, "failed_calls", 120, (), {"any": 100}, figures, calls=kind, scenarios="all")
    runs = read_runs(tmp_path)
    assert goal.state(runs) == "release figure reached"
    assert row_of(page_of(runs[:2]), "G10")[4] == (
        "24 scenarios, 329 failed allocations, 32 % of all allocations tried, 0 failed system "
        "calls, 0 % of all system calls tried, in 2 runs"
    )


def test_bombs_and_planted_bugs_are_counted_by_name(tmp_path: Path) -> None:
    huge = [[codec, 5000, 1 << 32] for codec in ("gzip", "lz4", "zstd")]
    small = [["snappy", 5000, 1 << 28]]
    bombs, planted = BY_NAME["G9"], BY_NAME["G18"]
    add(tmp_path, "bombs", 20, figures={"bomb": huge + small})
    assert bombs.state(read_runs(tmp_path)) == "below the gate"
    add(tmp_path, "bombs", 20, figures={"bomb": [*huge, ["snappy", 5000, 1 << 32]]})
    assert bombs.state(read_runs(tmp_path)) == "counted figures reached"
    for first, state in ((0, "gate reached"), (10, "gate reached"), (20, "release figure reached")):
        bugs = [f"bug-{number}" for number in range(first, first + 12)]
        add(tmp_path, "planted", 12, figures={"caught": bugs})
        assert planted.state(read_runs(tmp_path)) == state


def test_other_clients_and_planted_bugs_do_not_count_for_ours(tmp_path: Path) -> None:
    add(tmp_path, "acked", 3_000_000)
    lost, order = ("acked_is_there: ...",), ("in_order: ...",)
    add(tmp_path, "acked", 7, order, bug="early")
    for records, broken, violations, weak in (
        (7, lost, {"acked_is_there": 3}, True),
        (8, order, {"in_order": 12, "settles": 2}, False),
    ):
        figures = {"violations": violations}
        add(tmp_path, "acked", records, broken, None, figures, client="confluent", weak=weak)
    runs = read_runs(tmp_path)
    assert [run.records for run in ACKED.runs(runs)] == [3_000_000]
    page = page_of(runs)
    assert row_of(page, "G17")[4].startswith("8 records, 30 faults, in 1 run")
    _, peers = page.split("## The same faults with other clients")
    rows = [line for line in peers.splitlines() if re.match(r"\| (ours|confluent) ", line)]
    assert rows == [
        "| confluent | acks=1 without idempotence | 7 | 1 | 7 | 30 | 3 | 0 | 0 | 0 |",
        "| confluent | acks=all, idempotence | 7 | 1 | 8 | 30 | 0 | 0 | 12 | 2 settles |",
        "| ours | acks=all, idempotence | 7 | 1 | 3,000,000 | 30 | 0 | 0 | 0 | 0 |",
    ]


def test_recovery_times_name_the_faster_client(tmp_path: Path) -> None:
    add_outage(tmp_path, "leader", {"kafka_native": {"ack_s": 99.0}}, run=0)  # an older run
    for ours, theirs in ((3.0, 4.0), (3.5, 4.5), (9.0, 5.0)):
        times = {"kafka_native": {"ack_s": ours}, "confluent_kafka": {"ack_s": theirs}}
        add_outage(tmp_path, "leader", {"cluster": {"known_s": 2.5}, **times})
    add_outage(
        tmp_path, "rolling", {"kafka_native": {"ack_wait_s": 2.0}, "java": {"ack_wait_s": 1.0}}
    )
    add_outage(tmp_path, "coordinator", {"java": {"commit_s": None}})
    page = page_of(read_runs(tmp_path))
    rows = [line for line in page.splitlines() if line.startswith("| kill -9 of the leader")]
    text = "| kill -9 of the leader of a partition"
    assert rows == [
        f"{text} | first acknowledged message | 3 | 3.50 (3.00-9.00) | 4.50 (4.00-5.00) | - | - |",
        f"{text} | new leader in the cluster's metadata | 3 | - | - | 2.50 (2.50-2.50) | - |",
    ]
    assert "kill -9 of the coordinator of the groups: java has no first commit in 120 s." in page
    faster = page.partition("### Where another client recovers faster")[2].partition("![")[0]
    assert faster.strip() == (
        "- rolling restart, longest wait for an acknowledgement: java has 1.00 s, "
        "kafka_native 2.00 s."
    )


def test_the_command_draws_the_charts(tmp_path: Path) -> None:
    folder, page = tmp_path / "runs", tmp_path / "page.md"
    add(folder, "acked", 3_000_000)
    add(folder, "bank", 20_000)
    add_outage(folder, "leader", {"kafka_native": {"ack_s": 3.0}, "java": {"ack_s": 4.0}})
    done = CliRunner().invoke(main, [str(folder), "--page", str(page)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    for chart, names in (("runs", {"acked", "bank"}), ("recovery", {"kafka_native", "java"})):
        assert f"(reliability/{chart}.svg)" in page.read_text()
        tree = ElementTree.parse(tmp_path / "reliability" / f"{chart}.svg")
        texts = {element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")}
        assert names <= texts
