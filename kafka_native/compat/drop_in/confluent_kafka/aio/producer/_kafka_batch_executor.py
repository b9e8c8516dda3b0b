"""Calls `Producer.produce_batch()` in the threads of an executor."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

from .. import _common

__all__ = ["ProducerBatchExecutor"]


class ProducerBatchExecutor:
    """Sends batches with a blocking producer."""

    def __init__(self, producer: Any, executor: Executor) -> None:
        self._producer = producer
        self._executor = executor

    async def execute_batch(
        self, topic: str, batch_messages: Sequence[dict[str, Any]], partition: int = -1
    ) -> int:
        """Queue messages, report those that can't be queued, and return the result of a poll."""
        messages = list(batch_messages) if isinstance(batch_messages, tuple) else batch_messages

        def produce() -> int:
            self._producer.produce_batch(topic, messages, partition=partition)
            self._handle_partial_failures(messages)
            served: int = self._producer.poll(0)
            return served

        return await asyncio.get_running_loop().run_in_executor(self._executor, produce)

    async def flush_librdkafka_queue(self, timeout: float = -1) -> int:
        """Flush the producer and return the number of remaining messages."""
        return await _common.async_call(self._executor, self._producer.flush, timeout)

    def _handle_partial_failures(self, batch_messages: Sequence[dict[str, Any]]) -> None:
        for message in batch_messages:
            callback = message.get("callback")
            if "_error" in message and callback:
                callback(message["_error"], None)
