"""A request on its way: what managers hand to the broker pool."""

from __future__ import annotations

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
