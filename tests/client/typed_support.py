"""Produces typed columns, and returns the messages that were written."""

from __future__ import annotations

from typing import Any

from kafka_native import Message

from .support import Client, read_all


def sent(client: Client, data: Any, count: int, topic: str, **arguments: Any) -> list[Message]:
    """Produce rows to a topic with `produce_arrow()`. Return its `count` messages in order."""
    with client.producer() as producer:
        assert producer.produce_arrow(topic, data, **arguments) == count
    return sorted(read_all(client, topic, count), key=Message.offset)
