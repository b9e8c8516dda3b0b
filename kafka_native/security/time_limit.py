"""Time limits for calls that have none: a DNS lookup, another library's HTTP request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kafka_native.deadlines import left_s
from kafka_native.security.mechanisms import SaslError
from kafka_native.threads import Event, Lock, Thread

T = TypeVar("T")

FETCH_S = 30.0
"""The limit for one token or one set of credentials, from the lookup to the end of the response."""
HANGING_MAX = 3
"""The maximum number of given-up calls of one kind that still run. A further call fails at once."""


class LimitedCalls:
    """Makes calls of one kind, each on its own thread, and waits for each with a time limit.

    A thread can't be ended from outside. After the time limit, the call continues until it ends by
    itself, and its result is ignored.
    """

    def __init__(self, what: str) -> None:
        """``what``: the name of the call in errors, for instance ``the lookup of h``."""
        self._what = what
        self._lock = Lock()  # guards _running
        self._running = 0

    def run(self, work: Callable[[], T], limit_s: float) -> T:
        """Run ``work`` and return its result, or raise its exception.

        :raises SaslError: It hasn't ended within the limit, or too many earlier calls still run.
        """
        with self._lock:
            if self._running >= HANGING_MAX:
                raise SaslError(
                    f"{self._what}: {self._running} attempts before this one haven't ended"
                )
            self._running += 1
        ended = Event()
        found: list[T] = []
        failed: list[BaseException] = []

        def call() -> None:
            try:
                found.append(work())
            except BaseException as error:
                failed.append(error)
            finally:
                with self._lock:
                    self._running -= 1
                ended.set()

        thread = Thread(call, "kafka-native limited call")
        try:
            thread.start()
        except RuntimeError:
            with self._lock:
                self._running -= 1
            raise
        if not ended.wait(max(limit_s, 0.0)):
            raise SaslError(f"{self._what} hasn't ended in {FETCH_S:g} s")
        if failed:
            raise failed[0]
        return found[0]


def some_left_s(deadline: float) -> float:
    """Return the seconds until the deadline. Raise TimeoutError if it has passed."""
    seconds = left_s(deadline)
    if not seconds:
        raise TimeoutError
    return seconds
