"""Callbacks of producers and admin clients in an event loop: functions or coroutine functions.

Coroutines run in their own tasks.
"""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from kafka_native.admin import AdminClient
    from kafka_native.producer import Producer

ClientT = TypeVar("ClientT", bound="Callbacks")

CALLBACKS = ("error_cb", "throttle_cb", "stats_cb")
"""The properties whose callbacks may be coroutine functions."""

CALLBACKS_MAX_S: Final = 60.0
"""How long close() waits for coroutines of callbacks, after it has ended the client."""

_call: ContextVar[object] = ContextVar("kafka_native_callback", default=None)
"""The call of a callback that runs. Tasks that the callback starts inherit it."""


class Callbacks:
    """A client whose callbacks run in the loop.

    The loop's exception handler gets their exceptions.
    """

    _core: Producer | AdminClient
    _tasks: dict[object, asyncio.Future[Any]]  # by the call of the callback
    _served: int
    _closing: asyncio.Task[None] | None

    def _serve(self) -> None:
        """Runs all delivery reports and callbacks that are due."""
        if not self._core._client.closed:
            self._served += self._core.poll(0)

    def _report(self, error: BaseException) -> None:
        text = f"a callback of {self._core._client.name} has raised"
        asyncio.get_running_loop().call_exception_handler({"message": text, "exception": error})

    def _spawn(self, call: object, outcome: object) -> None:
        """Awaits the result of a callback, if it is awaitable, in a separate task."""
        if not inspect.isawaitable(outcome):
            return
        task = self._tasks[call] = asyncio.ensure_future(outcome)
        task.add_done_callback(partial(self._over, call))

    def _over(self, call: object, task: asyncio.Future[Any]) -> None:
        del self._tasks[call]
        if not task.cancelled():
            error = task.exception()
            if error is not None:
                self._report(error)

    async def _close_once(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """The first call runs ``close``. Later calls wait for it, and don't repeat its exception.

        A cancelled call continues in the background.
        """
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(close())
            await asyncio.shield(self._closing)
        elif not self._closing.done():
            try:
                await asyncio.shield(self._closing)
            except Exception:
                if not self._closing.done():  # it belongs to another loop
                    raise
        await self._await_callbacks()

    async def _await_callbacks(self) -> None:
        """Waits for the coroutines of callbacks, after the client has ended.

        A callback that calls close(), itself or in a task that it has started, doesn't wait: it
        would wait for itself, or for another one that also calls close(). The limit is for
        callbacks that wait for this call in a way that can't be seen here.
        """
        if not self._tasks or _call.get() in self._tasks:
            return
        _, running = await asyncio.wait(set(self._tasks.values()), timeout=CALLBACKS_MAX_S)
        if running:
            text = f"{len(running)} callbacks of {self._core._client.name} run on after close()"
            asyncio.get_running_loop().call_exception_handler({"message": text})


def serve(reference: weakref.ref[ClientT]) -> None:
    """Runs the due callbacks of a client that still exists."""
    client = reference()
    if client is not None:
        client._serve()


def called(reference: weakref.ref[ClientT], callback: Callable[..., object], *args: object) -> None:
    """Runs a user's callback. Reports its exception, so that other callbacks still run."""
    client = reference()
    call = object()
    token = _call.set(call)
    try:
        outcome = callback(*args)
        if client is not None:
            client._spawn(call, outcome)
    except Exception as error:
        if client is None:
            raise
        client._report(error)
    finally:
        _call.reset(token)
