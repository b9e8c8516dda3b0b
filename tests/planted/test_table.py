"""The page of planted bugs has all of them, and their names are unique."""

from __future__ import annotations

from tests.planted.table import PAGE, rows, with_table
from tests.planted.workload import WORKLOADS

ON_REAL_BROKERS = {"acked", "chaos", "bank", "copies", "chain", "share", "histories"}


def test_the_page_has_each_planted_bug() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page), "run python -m tests.planted.table"


def test_bugs_have_a_name_of_their_own_a_workload_and_rules() -> None:
    found = list(rows())
    assert len(found) >= 30
    assert len({row.bug for row in found}) == len(found)
    assert {row.workload for row in found} <= ON_REAL_BROKERS | set(WORKLOADS)
    assert all(row.rules for row in found)


def test_each_workload_on_real_brokers_has_bugs() -> None:
    assert {row.workload for row in rows()} >= ON_REAL_BROKERS
