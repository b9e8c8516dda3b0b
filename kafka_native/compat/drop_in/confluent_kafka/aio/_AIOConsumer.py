"""AIOConsumer on the Consumer of the package."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache
from typing import Any

from kafka_native.aio import _consumer as native
from kafka_native.consumer import CLOSE_S
from kafka_native.consumer_calls import CLOSED_TEXT
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.types import TopicPartition

from . import _common

__all__ = ["AIOConsumer"]


@cache
def _core_class(base: type) -> type[native.Core]:
    return type("Core", (native.Core, base), {})


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
        asyncio.get_running_loop()
        super().__init__(consumer_conf, max_workers, executor)

    def _make_core(self, conf: Mapping[str, Any]) -> native.Core:
        return _core_class(_common.package().Consumer)(conf)

    async def consume(  # type: ignore[override]
        self, num_messages: int = 1, timeout: float = -1
    ) -> list[Any]:
        """Return several messages at once. See `kafka_native.aio.AIOConsumer`."""
        self._core._check_open()
        if num_messages is None:
            raise TypeError("'NoneType' object cannot be interpreted as an integer")
        if timeout is None:
            raise TypeError("must be real number, not NoneType")
        return await super().consume(num_messages, timeout)

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

    async def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions. See `kafka_native.aio.AIOConsumer`."""
        self._core._check_open()
        _check_list(partitions)
        await super().assign(partitions)

    async def seek(self, partition: TopicPartition) -> None:  # type: ignore[override]
        """Continue at another offset. See `kafka_native.aio.AIOConsumer`."""
        self._core._check_open()
        if not isinstance(partition, TopicPartition):
            raise TypeError("expected cimpl.TopicPartition")
        await super().seek(partition)

    async def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """Return offsets by time. See `kafka_native.aio.AIOConsumer`."""
        self._core._check_open()
        if partitions == []:
            text = "Failed to get offsets: " + KafkaError(KafkaError._INVALID_ARG).str()
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
        return await super().offsets_for_times(partitions, timeout)

    async def close(self, timeout: float = CLOSE_S) -> None:
        """Leave the group and close the consumer.

        :raises RuntimeError: The consumer is closed already.
        """
        if self._closing is not None or self._core._client.closed:
            raise RuntimeError(CLOSED_TEXT)
        await super().close(timeout)
        if self._owns_executor:
            self.executor.shutdown(wait=False)


def _check_list(partitions: object) -> None:
    if not isinstance(partitions, list):
        raise TypeError("requires list of TopicPartition")


def _callable(callback: Any) -> Callable[..., Any] | None:
    """The callback, or a function that raises as the call of it does."""
    if callback is None or callable(callback):
        return callback  # type: ignore[no-any-return]

    def call(*args: Any) -> None:
        callback(*args)

    return call
