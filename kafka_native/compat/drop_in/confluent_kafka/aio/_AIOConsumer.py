"""AIOConsumer on the Consumer of the package."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial
from typing import Any

from kafka_native._native.coroutines import MessageSource
from kafka_native.aio import _consumer as native
from kafka_native.consumer import CLOSE_S
from kafka_native.consumer_calls import CLOSED_TEXT
from kafka_native.consumer_events import give_back
from kafka_native.types import TopicPartition

from .._arguments import AIO_CONSUMER, TIMEOUT, parses
from ..cimpl import Message
from . import _common

__all__ = ["AIOConsumer"]

confluent_kafka = sys.modules[__name__.rpartition(".aio.")[0]]
"""The package. An import hook may replace its clients, so they are looked up when they are used."""

_METHODS = (
    "poll",
    "consume",
    "unsubscribe",
    "commit",
    "seek",
    "pause",
    "resume",
    "store_offsets",
    "committed",
    "assign",
    "unassign",
    "incremental_assign",
    "incremental_unassign",
    "assignment",
    "position",
    "consumer_group_metadata",
    "set_sasl_credentials",
    "list_topics",
    "cluster_id",
    "get_watermark_offsets",
    "offsets_for_times",
)


@parses(AIO_CONSUMER, lambda consumer: consumer._core._check_open())
class AIOConsumer(native.AIOConsumer):
    """A `kafka_native.aio.AIOConsumer` that behaves like confluent_kafka's."""

    def __init__(
        self,
        consumer_conf: dict[str, Any],
        max_workers: int = 100,
        executor: Executor | None = None,
    ) -> None:
        """Create a consumer. The executor has nothing to do."""
        if executor is None and max_workers < 1:
            raise ValueError("max_workers must be at least 1")
        self._owns_executor = executor is None
        self.executor = ThreadPoolExecutor(max_workers) if executor is None else executor
        loop = asyncio.get_running_loop()
        cls = confluent_kafka.Consumer
        if cls.__module__.startswith(f"{confluent_kafka.__name__}."):
            super().__init__(consumer_conf, max_workers, executor)
        else:
            self._core = _hooked_core(loop, cls, dict(consumer_conf))
            self._source = MessageSource(self._core)
            self._suspended = {}
            own: type = type(self)
            self.__class__ = _with_hooked_calls(own)

    def _make_core(self, conf: Mapping[str, Any]) -> native.Core:
        core: native.Core = _common.core_class(native.Core, confluent_kafka.Consumer)(conf)
        return core

    # --- what differs from kafka_native ---

    async def poll(self, timeout: float | None = -1.0) -> Any:
        """Return the next message, or None; see `kafka_native.aio.AIOConsumer.poll`."""
        if type(timeout) is not float and type(timeout) is not int:
            self._core._check_open()
            timeout = TIMEOUT.arguments.parse((timeout,), {})["timeout"]
        message = self._quick()
        return await self._poll(timeout, iterating=False) if message is None else message

    async def consumer_group_metadata(self) -> bytes:  # type: ignore[override]
        """Return the member's identity for ``send_offsets_to_transaction()``."""
        return (await super().consumer_group_metadata()).to_bytes()

    async def subscribe(
        self,
        topics: list[str],
        on_assign: Any = None,
        on_revoke: Any = None,
        on_lost: Any = None,
        *,
        initial_offsets: Iterable[TopicPartition] = (),
    ) -> None:
        """Join the group. See `kafka_native.aio.AIOConsumer`."""
        await super().subscribe(
            topics,
            _callable(on_assign),
            _callable(on_revoke),
            _callable(on_lost),
            initial_offsets=initial_offsets,
        )

    async def unsubscribe(self) -> None:
        """Leave the group; the next `poll()` runs ``on_revoke``.

        :raises KafkaException: _FATAL, after a fatal error.
        """
        core: Any = self._core
        core._check_not_fatal()
        await super().unsubscribe()

    async def close(self, timeout: float = CLOSE_S) -> None:
        """Leave the group and close the consumer.

        :raises RuntimeError: The consumer is closed already.
        """
        if self._closing is not None or self._core._client.closed:
            raise RuntimeError(CLOSED_TEXT)
        await super().close(timeout)
        if self._owns_executor:
            self.executor.shutdown(wait=False)


def _hooked_core(loop: asyncio.AbstractEventLoop, cls: type, conf: dict[str, Any]) -> native.Core:
    """A blocking consumer of the hook's class, with callbacks that run in the loop."""
    _common.wrap_common_callbacks(loop, conf)
    _common.wrap_conf_callback(loop, conf, "on_commit")
    core: native.Core = _common.core_class(native.Core, cls)(conf)
    return core


class _HookedConsumer(AIOConsumer):
    """Calls the methods of a blocking consumer, because an import hook wants to see these calls.

    The hook has put a class in place of the package's Consumer.
    """

    _is_closed = False

    async def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if self._is_closed:
            raise RuntimeError(CLOSED_TEXT)
        # The context tells the consumer which calls come from its callback.
        task = partial(copy_context().run, getattr(self._core, name), *args, **kwargs)
        return await _common.async_call(self.executor, task)

    async def subscribe(self, *args: Any, **callbacks: Any) -> None:
        loop = asyncio.get_running_loop()

        def with_self(given: tuple[Any, ...]) -> tuple[Any, ...]:
            return (self, *given[1:])

        for name in ("on_assign", "on_revoke", "on_lost"):
            if name in callbacks:
                callback = _common.wrap_callback(loop, callbacks[name], with_self)
                callbacks[name] = partial(_call_back, callback)
        await self._call("subscribe", *args, **callbacks)

    async def close(self, timeout: float = CLOSE_S) -> None:
        # the hook's method may take no argument
        await self._call("close", *(() if timeout == CLOSE_S else (timeout,)))
        self._is_closed = True
        if self._owns_executor:
            self.executor.shutdown(wait=False)

    def _take_back(self, messages: list[Any]) -> None:
        give_back(self._core._client, self._core._control.fetches, messages)


def _method(name: str) -> Callable[..., Any]:
    async def call(self: _HookedConsumer, *args: Any, **kwargs: Any) -> Any:
        return await self._call(name, *args, **kwargs)

    return call


for _name in _METHODS:
    setattr(_HookedConsumer, _name, _method(_name))


@cache
def _with_hooked_calls(cls: type) -> type[AIOConsumer]:
    """The class on top of `_HookedConsumer`, so that its own methods remain in effect."""
    bases = (_HookedConsumer,) if cls is AIOConsumer else (cls, _HookedConsumer)
    names = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
    return type(cls.__name__, bases, names)


def _call_back(
    callback: Callable[..., Any], consumer: native.Core, partitions: list[TopicPartition]
) -> None:
    consumer.run = object()
    token = native.serving.set(consumer.run)
    try:
        callback(consumer, partitions)
    finally:
        native.serving.reset(token)
        consumer.run = None


def _callable(callback: Any) -> Callable[..., Any] | None:
    """The callback, or a function that raises as the call of it does."""
    if callback is None or callable(callback):
        return callback  # type: ignore[no-any-return]

    def call(*args: Any) -> None:
        callback(*args)

    return call
