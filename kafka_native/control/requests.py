"""A request from a manager to a broker, and the back-off of retries."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

from kafka_native.protocol.schema import Request

ANY_BROKER = None
"""As a target: any broker that is connected, or the first that connects."""

ANY_VERSION = 0x7FFF

NEVER = float("inf")
"""As a time: no poll until an event arrives."""

NO_MEMORY_S = 0.1
"""The delay before a retry when the engine was out of memory."""

Reply: TypeAlias = Any
"""A decoded response, or the KafkaError in its place."""


class BrokerIdentity(NamedTuple):
    """A broker's node id (-1: a bootstrap address) and its name in logs and errors."""

    node_id: int
    name: str


class Call:
    """One request, its target and the function that gets its reply.

    ``deadline`` is on the monotonic clock, in seconds. ``on_reply`` runs exactly once, on the
    control thread, with the decoded response or a KafkaError.
    """

    __slots__ = (
        "answered",
        "answered_by",
        "deadline",
        "is_data",
        "message",
        "newest",
        "on_reply",
        "target",
    )

    def __init__(
        self,
        message: Request,
        target: int | None,
        deadline: float,
        on_reply: Callable[[Reply], None],
        newest: int = ANY_VERSION,
        is_data: bool = False,
    ) -> None:
        """Stores a request that wasn't sent yet.

        :param newest: The newest version whose meaning the caller knows.
        :param is_data: It belongs to the requests for data of a node, such as ShareFetch: others go
            around it.
        """
        self.message = message
        self.target = target
        self.deadline = deadline
        self.on_reply = on_reply
        self.newest = newest
        self.is_data = is_data
        self.answered_by: BrokerIdentity | None = None
        """The broker that sent the reply; set before ``on_reply`` runs."""
        self.answered = False

    def copy_for(self, on_reply: Callable[[Reply], None]) -> Call:
        """Returns the same unanswered request with another function for its reply."""
        return Call(self.message, self.target, self.deadline, on_reply, self.newest, self.is_data)

    def answer(self, reply: Reply) -> None:
        """Passes the reply to ``on_reply``, unless the call already had a reply."""
        if not self.answered:
            self.answered = True
            self.on_reply(reply)


class Manager(Protocol):
    """A part of the control plane, as the main thread sees it.

    No method sleeps, locks or does I/O.
    """

    def poll(self, now: float) -> tuple[list[Call], float]:
        """Returns the calls to send, and the latest time (monotonic seconds) of the next poll."""


JITTER = 0.2
DOUBLING = 2.0
GROWTHS_MAX = 1000
"""More growth would change no delay, because each is limited, and could overflow a float."""
FAILOVER_GROWTH = 1.1
"""For look-ups of a new leader or coordinator, until the cluster has elected it.

Each delay is about a tenth of the time since the first look-up. So a client recovers at most about
a tenth later than the cluster. With doubling delays it could take twice as long.
"""


class Backoff:
    """Delays that grow from ``first_s`` to ``max_s`` seconds, each varied randomly by +-20 %.

    If ``max_s`` is below ``first_s``, every delay is ``first_s``.
    """

    def __init__(
        self,
        first_s: float,
        max_s: float,
        uniform: Callable[[float, float], float] = random.uniform,
        growth: float = DOUBLING,
    ) -> None:
        """Each delay is ``growth`` times the one before. Tests replace ``uniform``."""
        self.first_s = first_s
        self._max_s = max(first_s, max_s)
        self._uniform = uniform
        self._growth = growth
        self.failures = 0

    def for_failover(self) -> Backoff:
        """Returns a new one with the same limits, whose delays grow by `FAILOVER_GROWTH`."""
        return Backoff(self.first_s, self._max_s, self._uniform, FAILOVER_GROWTH)

    def next_s(self) -> float:
        """The delay before the next attempt, in seconds."""
        delay = min(self.first_s * self._growth ** min(self.failures, GROWTHS_MAX), self._max_s)
        self.failures += 1
        return delay * self._uniform(1 - JITTER, 1 + JITTER)

    def reset(self) -> None:
        """Starts again with the first delay, after a success."""
        self.failures = 0
