"""Callbacks of producers and admin clients in an event loop: functions or coroutine functions.

Coroutines run in their own tasks.
"""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from kafka_native.admin import AdminClient
    from kafka_native.producer import Producer

ClientT = TypeVar("ClientT", bound="Callbacks")

CALLBACKS = ("error_cb", "throttle_cb", "stats_cb")
"""The properties whose callbacks may be coroutine functions."""


class Callbacks:
    """A client whose callbacks run in the loop.

    The loop's exception handler gets their exceptions.
    """

    _core: Producer | AdminClient
    _tasks: set[asyncio.Future[Any]]
    _served: int

    def _serve(self) -> None:
        """Runs all delivery reports and callbacks that are due."""
        if not self._core._client.closed:
            self._served += self._core.poll(0)

    def _report(self, error: BaseException) -> None:
        text = f"a callback of {self._core._client.name} has raised"
        asyncio.get_running_loop().call_exception_handler({"message": text, "exception": error})

    def _spawn(self, outcome: object) -> None:
        """Awaits the result of a callback, if it is awaitable, in a separate task."""
        if not inspect.isawaitable(outcome):
            return
        task = asyncio.ensure_future(outcome)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            error = task.exception()
            if error is not None:
                self._report(error)


def serve(reference: weakref.ref[ClientT]) -> None:
    """Runs the due callbacks of a client that still exists."""
    client = reference()
    if client is not None:
        client._serve()


def called(reference: weakref.ref[ClientT], callback: Callable[..., object], *args: object) -> None:
    """Runs a user's callback. Reports its exception, so that other callbacks still run."""
    client = reference()
    try:
        outcome = callback(*args)
    except Exception as error:
        if client is None:
            raise
        client._report(error)
    else:
        if client is not None:
            client._spawn(outcome)
