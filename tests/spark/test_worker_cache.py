"""The objects that a Python worker keeps by key: which are made, closed and forgotten."""

from __future__ import annotations

import os
import signal
import warnings
from typing import NoReturn

import pytest

from kafka_native.spark.worker_cache import WorkerCache
from tests.waiting import PROGRAM_S


def test_equal_keys_get_one_object_and_the_oldest_one_is_closed() -> None:
    closed: list[str] = []
    cache = WorkerCache[list[int], str](2, closed.append)
    assert cache.get([1], lambda: "one") == "one"
    assert cache.get([2], lambda: "two") == "two"
    assert cache.get([1], lambda: "another") == "one"
    assert closed == []
    assert cache.get([3], lambda: "three") == "three"
    assert closed == ["one"]
    cache.clear()
    assert closed == ["one", "two", "three"]
    assert cache.get([3], lambda: "new") == "new"


def test_a_failure_keeps_nothing() -> None:
    cache = WorkerCache[int, str](1)

    def fail() -> NoReturn:
        raise ValueError("no schema")

    with pytest.raises(ValueError, match="no schema"):
        cache.get(1, fail)
    assert cache.get(1, lambda: "made") == "made"


def test_a_forked_child_makes_its_own_objects() -> None:
    """The child forks while the cache is locked, and closes nothing of its parent."""
    closed: list[str] = []
    cache = WorkerCache[int, str](4, closed.append)
    cache.get(1, lambda: "parent")

    def fork() -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # other tests' threads may run
            child = os.fork()
        if child == 0:
            signal.alarm(int(PROGRAM_S))  # ends a child that waits for the lock
            code = 1
            try:
                code = 0 if cache.get(1, lambda: "child") == "child" and not closed else 2
            finally:
                os._exit(code)
        return str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    assert cache.get(2, fork) == "0"
    assert cache.get(1, lambda: "another") == "parent"
