"""A request on its way to a broker: what managers hand to the broker pool, and when they try again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kafka_native.protocol.schema import Request

if TYPE_CHECKING:
    from kafka_native.control.brokers.pool import Broker

ANY_BROKER = None
"""As a target: whichever broker is up, or comes up first."""

ANY_VERSION = 0x7FFF

NEVER = float("inf")
"""As a time: nothing to do until something happens."""

NO_MEMORY_S = 0.1
"""What the engine had no memory for is tried again after so long."""

Reply: TypeAlias = Any
"""A decoded response, or the KafkaError that came in its place."""


@dataclass(slots=True)
class Call:
    """One request, where it goes and who waits for the reply.

    ``deadline`` is on the monotonic clock, in seconds; ``on_reply`` runs on the control thread exactly once, with the
    decoded response or a KafkaError.
    """

    message: Request
    target: int | None
    deadline: float
    on_reply: Callable[[Reply], None]
    newest: int = ANY_VERSION
    """The newest version that means what is meant."""
    answered_by: Broker | None = None
    """Who sent the reply, from ``on_reply`` on."""
    answered: bool = False

    def answer(self, reply: Reply) -> None:
        """Gives the reply to who waits for it; nothing if there was one before."""
        if not self.answered:
            self.answered = True
            self.on_reply(reply)


class Manager(Protocol):
    """What the main thread asks of each part of the control plane. No method sleeps, locks or touches a socket."""

    def poll(self, now: float) -> tuple[list[Call], float]:
        """The calls to make now, and the time (monotonic seconds) at which to poll again at the latest."""


JITTER = 0.2


class Backoff:
    """Delays that double from ``first_s`` to ``max_s`` seconds, each drawn from +-20 % around its value.

    A ``max_s`` below ``first_s`` counts as ``first_s``: the delay stays the same then.
    """

    def __init__(self, first_s: float, max_s: float, uniform: Callable[[float, float], float] = random.uniform) -> None:
        """``uniform`` is replaced by tests."""
        self.first_s = first_s
        self._max_s = max(first_s, max_s)
        self._uniform = uniform
        self.failures = 0

    def next_s(self) -> float:
        """The delay before the next attempt, in seconds."""
        delay = min(self.first_s * float(1 << min(self.failures, 30)), self._max_s)
        self.failures += 1
        return delay * self._uniform(1 - JITTER, 1 + JITTER)

    def reset(self) -> None:
        """It worked: start over."""
        self.failures = 0
