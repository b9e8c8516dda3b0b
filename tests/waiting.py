"""Waits for another thread, process or server."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

WAIT_S = 60.0
"""The timeout of a test that would hang. Successful waits are far below it, even on a busy machine.
"""
PROGRAM_S = 500.0
"""The timeout of a program that a test starts, such as Spark.

It is below pytest's own timeout, so that the program's output is shown.
"""

T = TypeVar("T")


def wait_for(
    condition: Callable[[], T], what: str | Callable[[], str] = "", timeout_s: float = WAIT_S
) -> T:
    """Return the first true value of a condition.

    After the timeout ``what`` names what was missing.
    """
    deadline = time.monotonic() + timeout_s
    pause_s = 0.002
    while not (found := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(
                f"not in {timeout_s} s: {what if isinstance(what, str) else what()}"
            )
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.05)
    return found


def poll_until(condition: Callable[[], T], *clients: Any, timeout_s: float = WAIT_S) -> T:
    """Return the first true value of a condition while polling clients.

    A message with an error fails.
    """
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not in {timeout_s} s"
        for client in clients:
            error = getattr(client.poll(0.01), "error", lambda: None)()
            assert error is None, error
    return found
