"""Functions that make a blocking client usable in an event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from functools import cache, partial
from typing import Any, TypeVar

T = TypeVar("T")


@cache
def core_class(core: type[T], base: type) -> type[T]:
    """Return the class of the core of an asyncio client, on top of a class of the package."""
    return type("Core", (core, base), {})


class AsyncLogger:
    """Passes log records to a logger in the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, logger: logging.Logger) -> None:
        self.loop = loop
        self.logger = logger

    def log(self, *args: Any, **kwargs: Any) -> None:
        """Log as `logging.Logger.log()` does, soon."""
        self.loop.call_soon_threadsafe(partial(self.logger.log, *args, **kwargs))


def wrap_callback(
    loop: asyncio.AbstractEventLoop,
    callback: Callable[..., Any],
    edit_args: Callable[[tuple[Any, ...]], tuple[Any, ...]] | None = None,
    edit_kwargs: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> Callable[..., Any]:
    """Return a function for other threads that runs a coroutine function in the loop."""

    def call(*args: Any, **kwargs: Any) -> Any:
        given = edit_args(args) if edit_args else args
        named = edit_kwargs(kwargs) if edit_kwargs else kwargs
        return asyncio.run_coroutine_threadsafe(callback(*given, **named), loop).result()

    return call


def wrap_conf_callback(loop: asyncio.AbstractEventLoop, conf: dict[str, Any], name: str) -> None:
    """Wrap the callback of this name in a configuration."""
    if name in conf:
        conf[name] = wrap_callback(loop, conf[name])


def wrap_conf_logger(loop: asyncio.AbstractEventLoop, conf: dict[str, Any]) -> None:
    """Make the logger of a configuration log in the loop's thread."""
    if "logger" in conf:
        conf["logger"] = AsyncLogger(loop, conf["logger"])


async def async_call(
    executor: Executor, blocking_task: Callable[..., T], *args: Any, **kwargs: Any
) -> T:
    """Run a function in a thread of the executor."""
    task = partial(blocking_task, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(executor, task)


def wrap_common_callbacks(loop: asyncio.AbstractEventLoop, conf: dict[str, Any]) -> None:
    """Wrap the callbacks and the logger of any client."""
    for name in ("error_cb", "throttle_cb", "stats_cb"):
        wrap_conf_callback(loop, conf, name)
    wrap_conf_logger(loop, conf)
