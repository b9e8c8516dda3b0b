"""Timeouts of the application in seconds, and deadlines as times of the monotonic clock.

Every call with a timeout converts it here, or with ``seconds()`` of ``_native/engine.pxd`` in
compiled code.
"""

from __future__ import annotations

import concurrent.futures
import time
from typing import Final, TypeVar

from kafka_native._native import engine

T = TypeVar("T")

FOR_EVER_S: Final = engine.FOR_EVER_S
"""One year. The client treats a longer timeout as no timeout."""


def seconds(timeout: float | None) -> float:
    """Return a timeout in seconds, or -1 for no timeout.

    None, a negative number and more than a year mean no timeout.

    :raises TypeError: The timeout is not a number.
    :raises ValueError: The timeout is NaN.
    """
    if timeout is None:
        return -1.0
    try:
        timeout_s = 0.0 + timeout  # float() would accept a text
    except TypeError:
        raise TypeError(
            f"the timeout must be a number of seconds, not {type(timeout).__name__}"
        ) from None
    except OverflowError:  # An int that is too large for a float
        return -1.0
    if timeout_s != timeout_s:
        raise ValueError("the timeout isn't a number")
    return timeout_s if 0 <= timeout_s <= FOR_EVER_S else -1.0


def deadline_of(timeout: float | None) -> float | None:
    """Return the time at which a timeout ends, or None for no timeout. It raises as `seconds()`."""
    timeout_s = seconds(timeout)
    return None if timeout_s < 0 else time.monotonic() + timeout_s


def left_s(deadline: float | None) -> float:
    """Return the seconds until the deadline, at least 0; -1 for no deadline."""
    return -1.0 if deadline is None else max(0.0, deadline - time.monotonic())


class Future(concurrent.futures.Future[T]):
    """Python's Future, but a timeout of more than a year means no timeout.

    With Python's own Future, such a timeout can raise an OverflowError.
    """

    def result(self, timeout: float | None = None) -> T:
        """Wait up to ``timeout`` seconds for the result and return it. None waits forever."""
        return super().result(None if timeout is None or timeout > FOR_EVER_S else timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait as `result()`, and return the exception, or None if the future has a result."""
        return super().exception(None if timeout is None or timeout > FOR_EVER_S else timeout)
