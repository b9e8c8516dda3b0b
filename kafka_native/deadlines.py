"""When a call's time is up: timeouts are the user's, in seconds, deadlines are times of the monotonic clock."""

from __future__ import annotations

import time


def deadline_of(timeout: float | None) -> float | None:
    """When a time in seconds is up; None: never, which is what None and negative mean.

    :raises TypeError: It isn't a number.
    :raises ValueError: It is NaN.
    """
    if timeout is None:
        return None
    try:
        timeout_s = 0.0 + timeout  # float() would read a text
    except TypeError:
        raise TypeError(f"the timeout must be a number of seconds, not {type(timeout).__name__}") from None
    if timeout_s != timeout_s:
        raise ValueError("the timeout isn't a number")
    return None if timeout_s < 0 else time.monotonic() + timeout_s


def left_s(deadline: float | None) -> float:
    """Seconds until then, at least 0; -1: for ever."""
    return -1.0 if deadline is None else max(0.0, deadline - time.monotonic())
