"""A consumer frees its buffers when they are idle, and only then."""

from __future__ import annotations

from typing import Any

from kafka_native.control.consumer.consumer_control import (
    CHECK_INTERVAL_S,
    IDLE_CHECK_INTERVAL_S,
    KEPT_BYTES,
    IdleMemory,
)


class Engine:
    """Queued and idle bytes, and the number of checks for a quiet time."""

    def __init__(self) -> None:
        self.memory = (0, 0)
        self.expired = 0

    def expire(self) -> None:
        self.expired += 1


def test_only_idle_buffers_are_freed() -> None:
    engine = Engine()
    faked: Any = engine
    idle = IdleMemory(faked)
    assert idle.poll(0.0) == ([], IDLE_CHECK_INTERVAL_S)
    engine.memory = (0, 8 << 20)
    now = IDLE_CHECK_INTERVAL_S
    assert idle.poll(now) == ([], now + CHECK_INTERVAL_S)
    assert engine.expired == 0, "the idle bytes have grown: the buffers are in use"
    now += CHECK_INTERVAL_S
    idle.poll(now)
    assert engine.expired == 1
    assert idle.poll(now + 0.1)[1] == now + CHECK_INTERVAL_S
    assert engine.expired == 1, "not yet"
    engine.memory = (100, 8 << 20)
    idle.poll(now + CHECK_INTERVAL_S)
    assert engine.expired == 1, "something is queued"
    engine.memory = (0, KEPT_BYTES)
    for second in range(2, 5):
        idle.poll(now + second * CHECK_INTERVAL_S)
    assert engine.expired == 1, "a small amount is kept"
