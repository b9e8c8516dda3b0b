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
def end_of_first_task(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Act as at the end of a worker's first task. Unfreeze all objects afterwards."""
    monkeypatch.setattr(client_pool, "_frozen_modules", 0)
    monkeypatch.setattr(TaskContext, "get", lambda: object())
    yield
    gc.unfreeze()


def is_frozen(wanted: object) -> bool:
    """Return whether the garbage collector ignores an object."""
    return not any(each is wanted for each in gc.get_objects())


def test_imported_objects_are_frozen_once_for_the_garbage_collector(
    end_of_first_task: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = {"imported_by_the_first_task": sys}  # not the real ones: any thread may import
    monkeypatch.setattr(client_pool, "sys", SimpleNamespace(modules=modules))
    early: list[object] = [[]]
    assert not is_frozen(early)
    client_pool.freeze_imports()
    assert is_frozen(early)

    late: list[object] = [[]]
    client_pool.freeze_imports()
    assert not is_frozen(late), "objects that tasks make stay collectable"

    modules["imported_by_a_later_task"] = sys
    client_pool.freeze_imports()
    assert is_frozen(late)


def test_garbage_is_not_kept(end_of_first_task: None) -> None:
    class Cycle:
        found = itertools.count()

        def __init__(self) -> None:
            self.self = self

        def __del__(self) -> None:
            next(self.found)

    Cycle()
    client_pool.freeze_imports()
    assert next(Cycle.found) == 1


def test_only_spark_workers_freeze_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_pool, "_frozen_modules", 0)
    before = gc.get_freeze_count()
    client_pool.freeze_imports()
    assert gc.get_freeze_count() == before


def test_a_workers_next_task_finds_frozen_objects(spark: SparkSession) -> None:
    def count_frozen(_number: int) -> dict[str, Any]:
        return {"pid": os.getpid(), "frozen": gc.get_freeze_count()}

    seen: dict[int, list[int]] = {}
    for _ in range(ROUNDS):
        for each in map_numbers(spark, 2, count_frozen):
            seen.setdefault(each["pid"], []).append(each["frozen"])
    again = [counts for counts in seen.values() if len(counts) > 1]
    assert again, f"no worker was used twice: {seen}"
    assert all(counts[-1] > MANY for counts in again)
