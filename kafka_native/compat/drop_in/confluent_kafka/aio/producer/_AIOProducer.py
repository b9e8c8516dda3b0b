"""AIOProducer on the Producer of the package."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from types import TracebackType
from typing import Any

from kafka_native.aio import _producer as native
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.producer import Producer
from kafka_native.types import ClusterMetadata

from ..._arguments import AIO_PRODUCER, TIMEOUT, parses
from ...cimpl import Message
from .. import _common

__all__ = ["AIOProducer"]

confluent_kafka = sys.modules[__name__.rpartition(".aio.")[0]]
"""The package. An import hook may replace its Producer, so it is looked up when it is used."""
_CLOSED = "cannot schedule new futures after shutdown"
_HEADERS = (
    "Headers are not supported in AIOProducer batch mode. "
    "Use the synchronous Producer.produce() method if headers are required."
)
_TIMESTAMP = "Message timestamps are not currently supported in batch mode"


@parses(AIO_PRODUCER, lambda producer: producer._check())
class AIOProducer(native.AIOProducer):
    """A `kafka_native.aio.AIOProducer` that behaves like confluent_kafka's.

    Messages need no buffer here, so they are sent earlier. ``batch_size`` and ``buffer_timeout``
    decide what `purge()` cancels and when `produce()` raises.
    """

    def __init__(
        self,
        producer_conf: dict[str, Any],
        max_workers: int = 4,
        executor: Executor | None = None,
        batch_size: int = 1000,
        buffer_timeout: float = 1.0,
    ) -> None:
        """Create a producer. The executor has nothing to do; `close()` shuts it down."""
        self.executor = ThreadPoolExecutor(max_workers) if executor is None else executor
        asyncio.get_running_loop()
        if not isinstance(producer_conf, dict):
            raise TypeError("expected configuration dict")
        self._batch_size = batch_size
        self._buffer_s = buffer_timeout if buffer_timeout > 0 else float("inf")
        self._buffered: list[asyncio.Future[Any]] = []
        """The reports of messages that confluent_kafka's producer would still buffer."""
        self._buffered_at = 0.0
        self._raised: list[BaseException] = []
        """Exceptions for the next call that polls or flushes."""
        self._is_closed = False
        super().__init__(producer_conf)

    def _make_core(self, conf: Mapping[str, Any]) -> native.Core:
        core: native.Core = _common.core_class(native.Core, confluent_kafka.Producer)(conf)
        return core

    def _report(self, error: BaseException) -> None:
        self._raised.append(error)

    def _check(self) -> None:
        if self._is_closed:
            raise RuntimeError(_CLOSED)

    def _raise(self) -> None:
        if self._raised:
            raise self._raised.pop(0)

    async def produce(  # type: ignore[override]
        self, topic: str, value: Any = None, key: Any = None, *args: Any, **kwargs: Any
    ) -> asyncio.Future[Any]:
        """Queue one message; its report is the result.

        Further arguments than the partition have no effect.

        :raises NotImplementedError: Headers are given.
        :raises RuntimeError: The producer is closed.
        """
        if "headers" in kwargs:
            raise NotImplementedError(_HEADERS)
        delivery: asyncio.Future[Any]
        try:
            if "timestamp" in kwargs:
                raise NotImplementedError(_TIMESTAMP)
            partition = kwargs.get("partition", -1)
            for name, each in (("value", value), ("key", key)):
                if not (each is None or isinstance(each, bytes | str)):
                    raise TypeError(f"Message {name} at index 0 must be bytes or str")
            if isinstance(topic, str) and not isinstance(partition, int):
                raise TypeError("Message partition at index 0 must be int")
            delivery = await super().produce(topic, value, key, partition)  # type: ignore[assignment]
        except (BufferError, KafkaException, NotImplementedError, TypeError, ValueError) as error:
            delivery = self._failed(error, topic, kwargs.get("partition", -1))
        if len(self._buffered) + 1 >= self._batch_size:
            self._buffered.clear()
            self._raise()
        else:
            self._buffered.append(delivery)
            self._buffered_at = delivery.get_loop().time()
        return delivery

    def _failed(self, error: Exception, topic: Any, partition: Any) -> asyncio.Future[Any]:
        """Return the report of a message that can't be queued."""
        failed = asyncio.get_running_loop().create_future()
        code = None
        if isinstance(error, BufferError):
            code = KafkaError._QUEUE_FULL
        elif isinstance(error, ValueError) and topic == "":
            code = KafkaError.TOPIC_EXCEPTION
        elif isinstance(error, ValueError) and isinstance(partition, int) and partition < 0:
            code = KafkaError._UNKNOWN_PARTITION
        if code is not None:
            error = KafkaException(KafkaError(code))
        failed.set_exception(error)
        if not isinstance(error, KafkaException):
            self._raised.append(error)
        return failed

    async def poll(self, timeout: float = 0, *args: Any, **kwargs: Any) -> int:
        """Wait until callbacks or reports were served. See `kafka_native.aio.AIOProducer`."""
        self._check()
        self._raise()
        given = TIMEOUT.arguments.parse((timeout, *args), kwargs)
        served = await super().poll(**given)
        self._raise()
        return served

    async def flush(self, timeout: float = -1) -> int:
        """Send all messages and wait for their reports. See `kafka_native.aio.AIOProducer`."""
        self._check()
        self._buffered.clear()
        self._raise()
        left = await super().flush(timeout)
        self._raise()
        return left

    async def purge(
        self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True
    ) -> None:
        """Drop messages. The reports of those that weren't sent yet are cancelled."""
        buffered, self._buffered = self._buffered, []
        if buffered and buffered[0].get_loop().time() - self._buffered_at < self._buffer_s:
            for each in buffered:
                each.cancel()
            self._raised.clear()
        await super().purge(in_queue, in_flight, blocking)

    async def cluster_id(self, timeout: float = -1) -> str | None:
        """Ask a broker for the cluster's id."""
        self._check()
        return await super().cluster_id(timeout)

    async def begin_transaction(self) -> None:
        """Flush, then begin a transaction."""
        await self.flush()
        await super().begin_transaction()

    async def commit_transaction(self, timeout: float = -1) -> None:
        """Flush, then commit the transaction."""
        await self.flush()
        await super().commit_transaction(timeout)

    async def abort_transaction(self, timeout: float = -1) -> None:
        """Flush, then abort the transaction."""
        await self.flush()
        await super().abort_transaction(timeout)

    def __bool__(self) -> bool:
        """Whether a message is queued or in flight, as for a list."""
        return len(self) > 0

    async def close(self, timeout: float = -1) -> None:
        """Flush, then close the producer and the executor.

        :raises RuntimeError: The producer is closed already.
        """
        self._check()
        self._is_closed = True
        await super().close(timeout)
        self._raise()
        await asyncio.get_running_loop().run_in_executor(None, self.executor.shutdown, True)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the producer."""
        await self.close()
