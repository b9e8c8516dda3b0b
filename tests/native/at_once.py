"""Runs functions in threads that begin at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests.waiting import WAIT_S


def run_at_once(*functions: Callable[[], Any]) -> list[Any]:
    """Call each function in a thread of its own, all at the same time, and return their results."""
    barrier = threading.Barrier(len(functions))
    results: list[Any] = [None] * len(functions)
    failures: list[BaseException] = []

    def run(index: int) -> None:
        barrier.wait(WAIT_S)
        try:
            results[index] = functions[index]()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()
    if failures:
        raise failures[0]
    return results
