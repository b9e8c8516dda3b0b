"""How coroutines wait: for the engine, by a descriptor in their event loop, and for the control thread.

Thread: the event loop's, but for what is said to run on the control thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from kafka_native._native.awaiting import WakeupFd
from kafka_native._native.engine import Engine
from kafka_native.client import Client
from kafka_native.control.main_thread import MainThread, bound_s
from kafka_native.control.requests import Call, Reply
from kafka_native.deadlines import left_s
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.protocol.schema import Request

T = TypeVar("T")

RUN_BOUND_S = 60.0
"""How long to wait for the control thread to do something that waits for nothing itself."""


def wake(waiter: asyncio.Future[None]) -> None:
    """Ends a wait, unless that has happened already."""
    if not waiter.done():
        waiter.set_result(None)


def call_in_loop(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: Any) -> None:
    """Any thread: has the loop call it. In a loop that is closed nobody waits for that any more."""
    try:
        loop.call_soon_threadsafe(function, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise


async def wait_for_thread(subscribe: Callable[[Callable[[], None]], None], timeout_s: float | None) -> bool:
    """Waits until another thread has called what ``subscribe`` is given; False: it hasn't in time (None: no limit)."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()
    subscribe(lambda: call_in_loop(loop, wake, waiter))
    done, _ = await asyncio.wait({waiter}, timeout=timeout_s)
    return bool(done)


class Waiter:
    """A queue of the engine in the running loop, and the coroutines that wait for it.

    The descriptor stays registered from the first wait on: a consumer that is busy pays one callback for each time that
    the engine has slept, and nothing a message. Each time it is readable it is cleared and everybody who waits looks
    again, so a wait that is cancelled has nothing that others would miss.
    """

    def __init__(self, engine: Engine, *, deliveries: bool, on_ring: Callable[[], object] | None = None) -> None:
        """``on_ring`` is called before those who wait are woken; it must not keep the client alive."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wakeup = WakeupFd(engine, deliveries)
        self._on_ring = on_ring
        self._waiters: set[asyncio.Future[None]] = set()

    def attach(self) -> asyncio.AbstractEventLoop:
        """Has the running loop watch; it is returned. A client may change loops when the one before has ended."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._loop is not None and self._loop.is_running():
                raise RuntimeError("this client is used in another event loop, which still runs")
            self.detach()
            self._waiters.clear()
            loop.add_reader(self._wakeup.fileno(), _ring, weakref.ref(self))
            self._loop = loop
        return loop

    def detach(self) -> bool:
        """The loop watches no more; False: it will do so in a moment."""
        loop, self._loop = self._loop, None
        if loop is None or loop.is_closed() or self._wakeup.gone:
            return True
        if loop.is_running() and loop is not _running_loop():
            loop.call_soon_threadsafe(_forget, loop, self._wakeup)  # whose descriptor is there until then
            return False
        loop.remove_reader(self._wakeup.fileno())
        return True

    def ring(self) -> None:
        """The descriptor is readable."""
        self._wakeup.clear()
        if self._on_ring is not None:
            self._on_ring()
        self._wake_all()

    def end(self) -> None:
        """The client is closed: nobody waits any more."""
        if self.detach():
            self._wakeup.close()
        self._wake_all()

    def _wake_all(self) -> None:
        for waiter in self._waiters:
            wake(waiter)

    async def wait(self, deadline: float | None) -> bool:
        """Waits until it makes sense to look again; False: the time is up. The caller has looked just before."""
        loop = self.attach()
        waiter: asyncio.Future[None] = loop.create_future()
        timer = None
        if deadline is not None:
            left = left_s(deadline)
            if not left:
                return False
            timer = loop.call_later(left, wake, waiter)
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)
            if timer is not None:
                timer.cancel()
        return deadline is None or time.monotonic() < deadline

    def __del__(self) -> None:
        self.detach()


def _ring(here: weakref.ref[Waiter]) -> None:
    watch = here()
    if watch is not None:
        watch.ring()


def _forget(loop: asyncio.AbstractEventLoop, wakeup: WakeupFd) -> None:
    loop.remove_reader(wakeup.fileno())


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _Unanswered(BaseException):
    """Leaves a call of the sync client at the point where it would wait for the control thread."""

    def __init__(self, future: Future[Any], timeout_s: float | None) -> None:
        super().__init__()
        self.future = future
        self.timeout_s = timeout_s


class Asking:
    """Stands in for a client's `MainThread`, so that its calls can be awaited.

    A call of the sync client checks its arguments, asks the control thread, and makes something of the answer.
    `ask()` leaves it where it would wait for the answer, awaits that, and makes the call once more, which then finds
    the answer there. Up to that point a call only checks, so making it again changes nothing.
    """

    def __init__(self, client: Client) -> None:
        """Takes the place of ``client.main``."""
        self._main: MainThread = client.main
        self._answers: Iterator[Future[Any]] | None = None
        client.main = self  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._main, name)

    async def ask(self, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """What ``call(...)`` returns or raises, without blocking the loop."""
        answers: list[Future[Any]] = []
        while True:
            self._answers = iter(answers)
            try:
                return call(*args, **kwargs)
            except _Unanswered as unanswered:
                future, timeout_s = unanswered.future, unanswered.timeout_s
            finally:
                self._answers = None
            self._main.check_running()
            if not await wait_for_thread(_listener(future), timeout_s):
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            answers.append(future)

    def _answer(self, begin: Callable[[], Future[T]], timeout_s: float | None) -> T:
        if self._answers is None:
            # Not from a coroutine: a callback of the engine's, a destructor.
            return self._main.outcome(begin(), timeout_s)
        answer = next(self._answers, None)
        if answer is None:
            raise _Unanswered(begin(), timeout_s)
        outcome: T = answer.result(0)
        return outcome

    def run(self, work: Callable[[], T]) -> T:
        """See `MainThread.run`."""
        return self._answer(lambda: self._main.begin_run(work), RUN_BOUND_S)

    def gather(self, make: Callable[[float, Callable[[Reply], None]], list[Call]], timeout_s: float) -> Any:
        """See `MainThread.gather`."""
        return self._answer(lambda: self._main.begin_gather(make, timeout_s), bound_s(timeout_s))

    def settle(self, make: Callable[[float, Callable[[Reply], None]], list[Call]], timeout_s: float) -> Any:
        """See `MainThread.settle`."""
        max_s = bound_s(timeout_s)
        return self._answer(
            lambda: self._main.begin_gather(make, timeout_s), None if max_s is None else max_s + RUN_BOUND_S
        )

    def call(self, message: Request, target: int | None, timeout_s: float) -> Any:
        """See `MainThread.call`."""
        return self.gather(lambda deadline, done: [Call(message, target, deadline, done)], timeout_s)

    async def end(self, push_last: Callable[[], None] | None = None) -> None:
        """Ends the control thread and the engine's, without waiting for them in the loop; then closing takes no time.

        ``push_last`` is `Client.push_last`, of clients that push metrics. This is the last work of the control
        thread to wait for the others.
        """
        main = self._main
        if push_last is not None:
            with contextlib.suppress(KafkaException):  # it took too long
                await self.ask(push_last)

        def subscribe(ended: Callable[[], None]) -> None:
            def last() -> None:
                main.engine.close()
                ended()

            main.on_close.append(lambda _: main.post(last))
            main.begin_stop()

        await wait_for_thread(subscribe, RUN_BOUND_S)


def in_loop(future: Future[T]) -> asyncio.Future[T]:
    """A future of the running loop that has the outcome of one that another thread completes.

    Cancelling it ends the wait only. Where the loop is closed meanwhile nobody hears of the outcome.
    """
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[T] = loop.create_future()

    def settle() -> None:
        if waiter.done():
            return
        error = future.exception()
        if error is None:
            waiter.set_result(future.result())
        else:
            waiter.set_exception(error)

    future.add_done_callback(lambda _: call_in_loop(loop, settle))
    return waiter


def _listener(future: Future[Any]) -> Callable[[Callable[[], None]], None]:
    return lambda answered: future.add_done_callback(lambda _: answered())
