"""How coroutines wait: by a descriptor for the engine, and for the control thread.

Thread: the event loop's, except where the control thread is named.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import weakref
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from itertools import islice
from typing import TypeVar

from kafka_native._native.coroutines import WakeupFd
from kafka_native._native.engine import Engine
from kafka_native.client_core import ClientCore
from kafka_native.deadlines import left_s
from kafka_native.errors import KafkaException
from kafka_native.pending_call import RUN_BOUND_S, PendingCall

T = TypeVar("T")


def wake(waiter: asyncio.Future[None]) -> None:
    """Ends a wait, unless it has ended already."""
    if not waiter.done():
        waiter.set_result(None)


def call_in_loop(
    loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: object
) -> None:
    """Makes the loop call ``function``. Any thread may call this. A closed loop calls nothing."""
    try:
        loop.call_soon_threadsafe(function, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise


async def wait_for_thread(
    subscribe: Callable[[Callable[[], None]], None], timeout_s: float | None
) -> bool:
    """Waits until another thread has called the function that ``subscribe`` gets.

    False: it hasn't within ``timeout_s`` (None: no limit).
    """
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()
    subscribe(lambda: call_in_loop(loop, wake, waiter))
    done, _ = await asyncio.wait({waiter}, timeout=timeout_s)
    return bool(done)


class Waiter:
    """A queue of the engine in the running loop, and the coroutines that wait for it.

    The descriptor stays registered from the first wait on. So a busy consumer costs one callback
    each time that the engine has slept, and none per message. When the descriptor is readable,
    it is cleared and all waiting coroutines check again. So a cancelled wait takes nothing that
    others would miss.
    """

    def __init__(
        self, engine: Engine, *, deliveries: bool, on_readable: Callable[[], object] | None = None
    ) -> None:
        """``on_readable`` is called before waiting coroutines wake up.

        It must not keep the client alive.
        """
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wakeup = WakeupFd(engine, deliveries)
        self._on_readable = on_readable
        self._waiters: dict[asyncio.Future[None], None] = {}  # in the order in which they wake up

    def attach(self) -> asyncio.AbstractEventLoop:
        """Registers the descriptor in the running loop and returns the loop.

        A client may change loops after the first loop has ended.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._loop is not None and self._loop.is_running():
                raise RuntimeError("this client is used in another event loop, which still runs")
            self.detach()
            self._waiters.clear()
            loop.add_reader(self._wakeup.fileno(), _on_readable, weakref.ref(self))
            self._loop = loop
        return loop

    def detach(self) -> bool:
        """Removes the descriptor from the loop. False: the loop will do it soon."""
        loop, self._loop = self._loop, None
        if loop is None or loop.is_closed() or self._wakeup.gone:
            return True
        if loop.is_running() and loop is not running_loop():
            # the descriptor stays open until then
            loop.call_soon_threadsafe(_forget, loop, self._wakeup)
            return False
        loop.remove_reader(self._wakeup.fileno())
        return True

    def handle_readable(self) -> None:
        """Handles the readable descriptor."""
        self._wakeup.clear()
        if self._on_readable is not None:
            self._on_readable()
        self._wake_all()

    def end(self) -> None:
        """Ends all waits: the client is closed."""
        if self.detach():
            self._wakeup.close()
        self._wake_all()

    def _wake_all(self) -> None:
        for waiter in self._waiters:
            wake(waiter)

    async def wait(self, deadline: float | None) -> bool:
        """Waits until the caller should check again.

        False: the time is up. The caller has just checked.
        """
        loop = self.attach()
        waiter: asyncio.Future[None] = loop.create_future()
        timer = None
        if deadline is not None:
            left = left_s(deadline)
            if not left:
                return False
            timer = loop.call_later(left, wake, waiter)
        self._waiters[waiter] = None
        try:
            await waiter
        finally:
            self._waiters.pop(waiter, None)
            if timer is not None:
                timer.cancel()
        return deadline is None or time.monotonic() < deadline

    def __del__(self) -> None:
        self.detach()


class Line:
    """Coroutines that wait for the same thing take turns, in the order in which they came."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._turns: dict[asyncio.Future[None], None] = {}

    @asynccontextmanager
    async def turn(self, deadline: float | None) -> AsyncIterator[None]:
        """Waits for the turn of this coroutine. It lasts until the end of the block.

        The turn also begins when the time is up.
        """
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        if any(other.get_loop() is not loop for other in islice(self._turns, 1)):
            self._turns.clear()  # their loop has ended
        if not self._turns:
            wake(turn)
        self._turns[turn] = None
        timer = None if deadline is None else loop.call_later(left_s(deadline), wake, turn)
        try:
            await turn
            yield
        finally:
            self._turns.pop(turn, None)
            if timer is not None:
                timer.cancel()
            for following in islice(self._turns, 1):
                wake(following)


def _on_readable(reference: weakref.ref[Waiter]) -> None:
    waiter = reference()
    if waiter is not None:
        waiter.handle_readable()


def _forget(loop: asyncio.AbstractEventLoop, wakeup: WakeupFd) -> None:
    loop.remove_reader(wakeup.fileno())


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Returns the loop that runs in this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def wait_for(call: PendingCall[T]) -> T:
    """Waits for a call's result without blocking the loop.

    A cancelled wait doesn't cancel the call.
    """
    if call.is_ready:
        return call.result()
    return call.result_now(in_time=await wait_for_thread(call.subscribe, call.bound_s))


async def end_threads(client: ClientCore, push_last: PendingCall[None] | None = None) -> None:
    """Ends the control thread and the engine's threads without blocking the loop.

    After that, closing takes no time. ``push_last``: the last push of clients with metrics, see
    `ClientCore.begin_push_last()`. It is the control thread's last work with a waiting caller.
    """
    main = client.main
    if push_last is not None:
        # it took too long; the client is closing
        with contextlib.suppress(KafkaException, RuntimeError):
            await wait_for(push_last)

    def subscribe(ended: Callable[[], None]) -> None:
        def last() -> None:
            main.engine.close()
            ended()

        main.begin_stop(at_end=last)

    await wait_for_thread(subscribe, RUN_BOUND_S)


def in_loop(future: Future[T]) -> asyncio.Future[T]:
    """A future of the running loop for a future that another thread completes.

    Cancelling it ends only the wait. If the loop is closed meanwhile, the result is dropped.
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
