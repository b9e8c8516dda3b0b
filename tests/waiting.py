"""Waiting for what another thread, process or server does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

WAIT_S = 60.0
"""Ends a test that would hang; on a slow machine that is busy with others, no wait that comes to its end is near it."""
PROGRAM_S = 500.0
"""The same for a program that a test starts, be it Spark; less than pytest's own, so that what it said is told."""

T = TypeVar("T")


def wait_for(condition: Callable[[], T], what: str | Callable[[], str] = "", timeout_s: float = WAIT_S) -> T:
    """The first true value of a condition. When there is none in time, ``what`` is told as what was missing."""
    deadline = time.monotonic() + timeout_s
    pause_s = 0.002
    while not (found := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"not in {timeout_s} s: {what if isinstance(what, str) else what()}")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.05)
    return found


def poll_until(condition: Callable[[], T], *clients: Any, timeout_s: float = WAIT_S) -> T:
    """The first true value of a condition, while these clients are polled; a message with an error fails."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not in {timeout_s} s"
        for client in clients:
            error = getattr(client.poll(0.01), "error", lambda: None)()
            assert error is None, error
    return found
