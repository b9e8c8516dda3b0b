"""Helpers for the tests of consumers: reading, and members of groups."""

from __future__ import annotations

import time
from typing import Any

from kafka_native import Consumer, Message

from .support import Client

GROUPS = iter(range(1000))


def group(client: Client, name: str | None = None, **conf: Any) -> Consumer:
    """Return a member of a group, with short timings."""
    settings = {
        "group.id": name or f"group-{next(GROUPS)}",
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.fast.interval.ms": 50,
        **conf,
    }
    if "group.protocol" not in conf:
        settings["heartbeat.interval.ms"] = 100
    return client.consumer(**settings)


def subscribed(client: Client, topic: str, name: str | None = None, **conf: Any) -> Consumer:
    """Return a member of a group that subscribes to one topic."""
    consumer = group(client, name, **conf)
    consumer.subscribe([topic])
    return consumer


def read(consumer: Consumer, count: int, timeout: float = 30.0) -> list[int]:
    """Read ``count`` messages without errors, and return their values."""
    found: list[int] = []
    deadline = time.monotonic() + timeout
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} messages, not {count}"
        for message in consumer.consume(count - len(found), 0.1):
            assert message.error() is None, message.error()
            found.append(int(message.value()))
    return found


def forever(turn: Any, timeout: float = 30.0) -> None:
    """Repeat a call until it raises, at most until the timeout."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        turn()


def values(messages: list[Message]) -> list[int]:
    return [int(message.value()) for message in messages]


def take(consumer: Consumer, count: int, timeout: float = 10.0) -> list[Message]:
    """Read up to ``count`` messages within the timeout. None may be an error."""
    found = consumer.consume(count, timeout)
    assert [message.error() for message in found if message.error()] == []
    return found
