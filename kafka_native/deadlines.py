"""Timeouts of the application's, in seconds, and deadlines, which are times of the monotonic clock.

Every call that takes a timeout has it read here, or by ``seconds()`` of ``_native/engine.pxd`` where it is compiled.
"""

from __future__ import annotations

import concurrent.futures
import time
from typing import Final, TypeVar

from kafka_native._native import engine

T = TypeVar("T")

FOR_EVER_S: Final = engine.FOR_EVER_S
"""A year: a longer wait has no end."""


def seconds(timeout: float | None) -> float:
    """A timeout in seconds; -1: for ever, which is what None, negative numbers and more than a year mean.

    :raises TypeError: It isn't a number.
    :raises ValueError: It is NaN.
    """
    if timeout is None:
        return -1.0
    try:
        timeout_s = 0.0 + timeout  # float() would read a text
    except TypeError:
        raise TypeError(
            f"the timeout must be a number of seconds, not {type(timeout).__name__}"
        ) from None
    except OverflowError:  # an int that no float can be
        return -1.0
    if timeout_s != timeout_s:
        raise ValueError("the timeout isn't a number")
    return timeout_s if 0 <= timeout_s <= FOR_EVER_S else -1.0


def deadline_of(timeout: float | None) -> float | None:
    """When a timeout is over; None: never. Raises as `seconds()`."""
    timeout_s = seconds(timeout)
    return None if timeout_s < 0 else time.monotonic() + timeout_s


def left_s(deadline: float | None) -> float:
    """Seconds until then, at least 0; -1: for ever."""
    return -1.0 if deadline is None else max(0.0, deadline - time.monotonic())


class Future(concurrent.futures.Future[T]):
    """Python's future, but that waits of more than a year have no end instead of an OverflowError."""

    def result(self, timeout: float | None = None) -> T:
        """The outcome, waited for up to ``timeout`` seconds; None or more than a year waits for ever."""
        return super().result(None if timeout is None or timeout > FOR_EVER_S else timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The exception that is the outcome, None if there is another one; waits as `result()`."""
        return super().exception(None if timeout is None or timeout > FOR_EVER_S else timeout)
