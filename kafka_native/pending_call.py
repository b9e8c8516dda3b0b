"""PendingCall: the pending result of an operation on the control thread.

Each call of a public class that needs the control thread has two steps. A ``_begin_...`` method
checks the arguments, posts the work and returns a PendingCall. The synchronous method waits for it
with `PendingCall.result()`, the coroutine with `kafka_native.aio._loop.wait_for()`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar

from kafka_native.control.main_thread import MainThread, bound_s
from kafka_native.control.requests import Call, Reply
from kafka_native.errors import KafkaError, KafkaException

T = TypeVar("T")
U = TypeVar("U")

Make: TypeAlias = Callable[[float, Callable[[Reply], None]], list[Call]]
"""Makes requests for a deadline and a function that takes their result. Control thread only."""

RUN_BOUND_S = 60.0
"""The longest wait of a coroutine for work that needs no broker."""


class PendingCall(Generic[T]):
    """The pending result of work on the control thread. Any thread may use it.

    The functions given to `then()` and `catch()` run in the thread that waits for the result.
    """

    __slots__ = ("_finish", "_future", "_main", "_thread_bound_s", "bound_s")
    is_ready = False

    def __init__(
        self,
        main: MainThread,
        future: Future[Any],
        bounds_s: tuple[float | None, float | None],
        finish: Callable[[Callable[[], Any]], T] = lambda outcome: outcome(),
    ) -> None:
        """``bounds_s``: the longest wait of a thread and of a coroutine; None: no limit."""
        self._main = main
        self._future = future
        self._thread_bound_s, self.bound_s = bounds_s
        self._finish = finish

    @staticmethod
    def run(main: MainThread, work: Callable[[], U]) -> PendingCall[U]:
        """Runs ``work`` on the control thread."""
        return PendingCall(main, main.begin_run(work), (None, RUN_BOUND_S))

    @staticmethod
    def gather(main: MainThread, make: Make, timeout: float) -> PendingCall[Any]:
        """Sends requests from the control thread. The first value of ``done`` is the result."""
        return PendingCall.of(main, main.begin_gather(make, timeout), timeout)

    @staticmethod
    def settle(main: MainThread, make: Make, timeout: float) -> PendingCall[Any]:
        """Like `gather()`, but only the control thread decides that the time is over."""
        max_s = bound_s(timeout)
        await_s = None if max_s is None else max_s + RUN_BOUND_S
        return PendingCall(main, main.begin_gather(make, timeout), (None, await_s))

    @staticmethod
    def of(main: MainThread, future: Future[U], timeout: float) -> PendingCall[U]:
        """The result of a future that the control thread completes within ``timeout`` seconds."""
        return PendingCall(main, future, (bound_s(timeout), bound_s(timeout)))

    def then(self, finish: Callable[[T], U]) -> PendingCall[U]:
        """The same call; ``finish`` converts its result."""
        return self._with(lambda outcome: finish(self._finish(outcome)))

    def catch(self, convert: Callable[[KafkaError], Exception]) -> PendingCall[T]:
        """The same call; ``convert`` makes the exception from its error."""

        def finish(outcome: Callable[[], Any]) -> T:
            try:
                return self._finish(outcome)
            except KafkaException as error:
                raise convert(error.args[0]) from None

        return self._with(finish)

    def _with(self, finish: Callable[[Callable[[], Any]], U]) -> PendingCall[U]:
        return PendingCall(self._main, self._future, (self._thread_bound_s, self.bound_s), finish)

    def result(self) -> T:
        """Waits in this thread. Raises KafkaException (_TIMED_OUT) when the time is up."""
        return self._finish(partial(self._main.outcome, self._future, self._thread_bound_s))

    def result_now(self, *, in_time: bool) -> T:
        """The result for a coroutine that has waited; ``in_time``: the future is complete."""
        return self._finish(
            partial(self._main.outcome_now, self._future) if in_time else _raise_timeout
        )

    def subscribe(self, ended: Callable[[], None]) -> None:
        """Makes any thread call ``ended`` when the result exists.

        RuntimeError: the client is closed.
        """
        self._main.check_running()
        self._future.add_done_callback(lambda _: ended())


class ReadyCall(PendingCall[T]):
    """A call whose result is known without the control thread."""

    __slots__ = ("_outcome",)
    is_ready = True

    def __init__(self, outcome: T) -> None:
        """Posts no work."""
        self._outcome = outcome

    def result(self) -> T:
        """The result, at once."""
        return self._outcome


def raise_error(error: KafkaError | None) -> None:
    """For `PendingCall.then()`: raises the error that the work has returned."""
    if error is not None:
        raise KafkaException(error)


def _raise_timeout() -> NoReturn:
    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
