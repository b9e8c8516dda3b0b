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

ACKED = next(goal for goal in GOALS if goal.name == "G2")


def add(
    folder: Path,
    workload: str,
    records: int,
    broken: tuple[str, ...] = (),
    faults: Mapping[str, int] | None = None,
    figures: Mapping[str, Any] | None = None,
    seconds: float = 3600.0,
    **options: Any,
) -> None:
    made = {"cut": 30} if faults is None else faults
    record(workload, {"seed": 7} | options, seconds, made, records, broken, figures, folder)


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
        assert row[5] == ("not recorded" if goal.command and not goal.workload else "not run")
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
