"""AIOConsumer on the Consumer of the package."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

from kafka_native.aio import _consumer as native
from kafka_native.consumer import CLOSE_S
from kafka_native.consumer_calls import CLOSED_TEXT
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
            self._use_threads(loop, cls, dict(consumer_conf))

    def _make_core(self, conf: Mapping[str, Any]) -> native.Core:
        core: native.Core = _common.core_class(native.Core, confluent_kafka.Consumer)(conf)
        return core

    # --- a class that an import hook has put in place of Consumer ---

    _hooked_closed = False

    def _use_threads(
        self, loop: asyncio.AbstractEventLoop, cls: type, conf: dict[str, Any]
    ) -> None:
        """Call the methods of a blocking consumer, because the hook wants to see these calls."""
        _common.wrap_common_callbacks(loop, conf)
        _common.wrap_conf_callback(loop, conf, "on_commit")
        consumer = _common.core_class(native.Core, cls)(conf)
        for name in _METHODS:
            vars(self)[name] = partial(self._call, getattr(consumer, name))
        vars(self)["subscribe"] = partial(self._subscribe_hooked, consumer)
        vars(self)["close"] = partial(self._close_hooked, consumer.close)
        vars(self)["_hold_back"] = consumer._hold_back

    async def _call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._hooked_closed:
            raise RuntimeError(CLOSED_TEXT)
        # The context tells the consumer which calls come from its callback.
        task = partial(copy_context().run, method, *args, **kwargs)
        return await _common.async_call(self.executor, task)

    async def _subscribe_hooked(self, consumer: native.Core, *args: Any, **callbacks: Any) -> None:
        loop = asyncio.get_running_loop()

        def with_self(given: tuple[Any, ...]) -> tuple[Any, ...]:
            return (self, *given[1:])

        for name in ("on_assign", "on_revoke", "on_lost"):
            if name in callbacks:
                callback = _common.wrap_callback(loop, callbacks[name], with_self)
                callbacks[name] = partial(_call_back, callback)
        await self._call(consumer.subscribe, *args, **callbacks)

    async def _close_hooked(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        await self._call(method, *args, **kwargs)
        self._hooked_closed = True
        if self._owns_executor:
            self.executor.shutdown(wait=False)

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
