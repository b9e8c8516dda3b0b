"""The clients that a Python worker keeps for its next task."""

from __future__ import annotations

import gc
import itertools
import os
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from kafka_native.spark import client_pool
from kafka_native.spark.pipelines.session import map_numbers

ROUNDS = 3
MANY = 10_000
"""The number of objects. The modules of PySpark, pyarrow and kafka_native have many more."""


@pytest.fixture
def unsettled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Act as at the end of a worker's first task.

    Afterwards nothing is frozen for the collector.
    """
    monkeypatch.setattr(client_pool, "_frozen_modules", 0)
    monkeypatch.setattr(TaskContext, "get", lambda: object())
    yield
    gc.unfreeze()


def is_left_out(wanted: object) -> bool:
    """Return whether the garbage collector ignores an object."""
    return not any(each is wanted for each in gc.get_objects())


def test_what_is_imported_is_left_out_of_garbage_collection_once(
    unsettled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = {"imported_by_the_first_task": sys}  # not the real ones: any thread may import
    monkeypatch.setattr(client_pool, "sys", SimpleNamespace(modules=modules))
    early: list[object] = [[]]
    assert not is_left_out(early)
    client_pool.freeze_imports()
    assert is_left_out(early)

    late: list[object] = [[]]
    client_pool.freeze_imports()
    assert not is_left_out(late), "what tasks make is for the collector"

    modules["imported_by_a_later_task"] = sys
    client_pool.freeze_imports()
    assert is_left_out(late)


def test_garbage_is_not_kept(unsettled: None) -> None:
    class Cycle:
        found = itertools.count()

        def __init__(self) -> None:
            self.self = self

        def __del__(self) -> None:
            next(self.found)

    Cycle()
    client_pool.freeze_imports()
    assert next(Cycle.found) == 1


def test_a_program_that_is_no_worker_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_pool, "_frozen_modules", 0)
    before = gc.get_freeze_count()
    client_pool.freeze_imports()
    assert gc.get_freeze_count() == before


def test_a_workers_next_task_finds_it_settled(spark: SparkSession) -> None:
    def look(_number: int) -> dict[str, Any]:
        return {"pid": os.getpid(), "left_out": gc.get_freeze_count()}

    seen: dict[int, list[int]] = {}
    for _ in range(ROUNDS):
        for each in map_numbers(spark, 2, look):
            seen.setdefault(each["pid"], []).append(each["left_out"])
    again = [counts for counts in seen.values() if len(counts) > 1]
    assert again, f"no worker was used twice: {seen}"
    assert all(counts[-1] > MANY for counts in again)
