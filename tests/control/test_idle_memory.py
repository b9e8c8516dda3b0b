"""A consumer's buffers are given back when they rest, and only then."""

from __future__ import annotations

from typing import Any

from kafka_native.control.idle_memory import KEPT_BYTES, LOOK_EVERY_S, LOOK_SELDOM_S, IdleMemory


class Engine:
    """Queued and idle bytes, and how often it was asked to look for a quiet time."""

    def __init__(self) -> None:
        self.memory = (0, 0)
        self.expired = 0

    def expire(self) -> None:
        self.expired += 1


def test_only_buffers_that_rest_are_given_back() -> None:
    engine = Engine()
    faked: Any = engine
    idle = IdleMemory(faked)
    assert idle.poll(0.0) == ([], LOOK_SELDOM_S)
    engine.memory = (0, 8 << 20)
    now = LOOK_SELDOM_S
    assert idle.poll(now) == ([], now + LOOK_EVERY_S)
    assert engine.expired == 0, "it was less before: something is going on"
    now += LOOK_EVERY_S
    idle.poll(now)
    assert engine.expired == 1
    assert idle.poll(now + 0.1)[1] == now + LOOK_EVERY_S
    assert engine.expired == 1, "not yet"
    engine.memory = (100, 8 << 20)
    idle.poll(now + LOOK_EVERY_S)
    assert engine.expired == 1, "something is queued"
    engine.memory = (0, KEPT_BYTES)
    for second in range(2, 5):
        idle.poll(now + second * LOOK_EVERY_S)
    assert engine.expired == 1, "so little is kept"
