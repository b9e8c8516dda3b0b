"""Callbacks of producers and admin clients in an event loop: functions, or coroutine functions, in tasks then."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import Callable
from typing import Any

CALLBACKS = ("error_cb", "throttle_cb", "stats_cb")
"""Properties that may be coroutine functions."""


class Callbacks:
    """A client whose callbacks the loop makes. What they raise is told to the loop's exception handler."""

    _core: Any
    _tasks: set[asyncio.Future[Any]]
    _served: int

    def _serve(self) -> None:
        """Makes every report and callback that is due."""
        if not self._core._client.closed:
            self._served += self._core.poll(0)

    def _report(self, error: BaseException) -> None:
        text = f"a callback of {self._core._client.name} has raised"
        asyncio.get_running_loop().call_exception_handler({"message": text, "exception": error})

    def _spawn(self, outcome: Any) -> None:
        """What a callback has returned: what is to be awaited is, in a task of its own."""
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


def serve(here: weakref.ref[Any]) -> None:
    """Makes what is due, of a client that is still there."""
    it: Callbacks | None = here()
    if it is not None:
        it._serve()


def called(here: weakref.ref[Any], callback: Callable[..., Any], *args: Any) -> None:
    """A callback of the user's. What it raises is told, and nothing else is held up by it."""
    it: Callbacks | None = here()
    try:
        outcome = callback(*args)
    except Exception as error:
        if it is None:
            raise
        it._report(error)
    else:
        if it is not None:
            it._spawn(outcome)
