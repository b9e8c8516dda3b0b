"""A batch of messages for one partition."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["MessageBatch", "create_message_batch"]


class MessageBatch(NamedTuple):
    """Messages for `Producer.produce_batch()`, and their reports."""

    topic: str
    messages: Sequence[dict[str, Any]]
    futures: Sequence[asyncio.Future[Any]]
    partition: int = -1

    @property
    def size(self) -> int:
        """The number of messages."""
        return len(self.messages)

    @property
    def info(self) -> str:
        """The topic, the partition and the number of messages, as a text."""
        return f"MessageBatch(topic='{self.topic}', partition={self.partition}, size={self.size})"


def create_message_batch(
    topic: str,
    messages: Sequence[dict[str, Any]],
    futures: Sequence[asyncio.Future[Any]],
    callbacks: Any = None,
    partition: int = -1,
) -> MessageBatch:
    """Return an unchangeable batch; ``callbacks`` has no effect."""
    return MessageBatch(topic, tuple(messages), tuple(futures), partition)
