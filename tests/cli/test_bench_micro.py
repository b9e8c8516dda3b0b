"""`python -m bench micro`: instruction counts and their budgets."""

from __future__ import annotations

import json

import pytest

from bench.micro.cases import CASES
from bench.micro.main import BUDGET, DUMP, counted, exceeded, missing


def test_a_figure_above_its_budget_is_named() -> None:
    budget = {"produce": 1000.0, "poll": 100.0}
    assert exceeded({"produce": 1049.0, "poll": 90.0}, budget) == []
    [wrong] = exceeded({"produce": 1051.0, "poll": 104.0}, budget)
    assert wrong == "produce takes 1051 instructions, its budget is 1000"
    [wrong] = exceeded({"consume": 1.0}, budget)
    assert wrong.startswith("consume has no budget")


def test_every_operation_has_a_budget() -> None:
    assert set(json.loads(BUDGET.read_text())["budget"]) == set(CASES)


def test_a_dump_of_callgrind() -> None:
    text = "version: 1\ndesc: Trigger: Client Request: murmur2\n\nevents: Ir\nfn=(1) x\n1 2\ntotals: 42\n"
    found = DUMP.search(text)
    assert found is not None
    assert found.groups() == ("murmur2", "42")


@pytest.mark.slow
def test_counts_hardly_change_from_run_to_run() -> None:
    if reason := missing():
        pytest.skip(reason)
    once, again = (counted(["murmur2", "encode_batch"]) for _ in range(2))
    for name, figure in once.items():
        assert again[name] == pytest.approx(figure, rel=0.01)
        assert figure > 100
