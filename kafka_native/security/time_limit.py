"""Calls that have to end in time even where nothing ends them: a name's look-up, another library's HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kafka_native.deadlines import left_s
from kafka_native.security.mechanisms import SaslError
from kafka_native.threads import Event, Lock, Thread

T = TypeVar("T")

FETCH_S = 30.0
"""For one token or one set of credentials: look-up, connection, TLS and the whole answer together."""
HANGING_MAX = 3
"""Calls of one kind that were given up and haven't ended: there is no further one until one of them has."""


class LimitedCalls:
    """Makes calls of one kind, each on a thread of its own, and waits for each no longer than it may take.

    Nothing ends a thread from outside. A call that was given up goes on until it ends by itself; its outcome is lost.

    Thread: any.
    """

    def __init__(self, what: str) -> None:
        """``what`` is called, for errors: ``the look-up of h``."""
        self._what = what
        self._lock = Lock()  # guards _running
        self._running = 0

    def run(self, work: Callable[[], T], limit_s: float) -> T:
        """What ``work`` returns, or raises, within this time.

        :raises SaslError: It hasn't ended in time, or too many before it haven't ended.
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
    """Seconds until this time of the monotonic clock; TimeoutError if there are none."""
    seconds = left_s(deadline)
    if not seconds:
        raise TimeoutError
    return seconds
