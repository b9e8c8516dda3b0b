"""What the group protocols share: the member, their interface, their settings, max.poll.interval.ms.

Thread: the control thread only. The membership writes `Member`, managers that send requests to the
coordinator read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from kafka_native.control.outages import Outages
from kafka_native.control.positions import Key
from kafka_native.control.requests import NEVER, Call
from kafka_native.errors import KafkaError
from kafka_native.logs import Logger

if TYPE_CHECKING:
    from kafka_native.config import Config

NO_GENERATION = -1
"""Of somebody who is no member: a commit says that it comes from nobody in particular."""


@dataclass(slots=True)
class Member:
    """One member. Without a subscription it stays as it is made: such a client commits as nobody in particular."""

    group_id: str
    instance_id: str | None = None
    protocol: str = "classic"
    """``classic`` or ``consumer`` (KIP-848): group.protocol."""
    member_id: str = ""
    generation: int = NO_GENERATION
    """The group's generation; in the consumer protocol the member's epoch."""

    @property
    def joined(self) -> bool:
        """Whether the coordinator knows it as a member of its generation."""
        return self.generation > 0


TOLD, NOTED = "told", "noted"
"""What fails, as subjects of outages: what the application has to know, and what is for the log."""
LEAVE_TIMEOUT_S = 5.0
"""How long a coordinator has for taking note that a member leaves; socket.timeout.ms at the most."""
WATCH_LONGEST_S = 1.0
WATCH_SHORTEST_S = 0.01
BACK_S = 0.1
"""How often to look whether an application that was too slow polls again."""


class Watched(Protocol):
    """A member whose application has to poll (max.poll.interval.ms)."""

    def rejoin(self, reason: str, now: float) -> None:
        """Take part in another rebalance; a member that was too slow (`on_poll_exceeded()`) comes back."""

    def on_poll_exceeded(self, now: float) -> None:
        """The application hasn't polled for max.poll.interval.ms: leaves, partitions are lost, until `rejoin()`."""


class Membership(Watched, Protocol):
    """One member of one group: `membership_classic` and `membership_consumer`. Does nothing before `subscribe()`."""

    @property
    def assignor_protocol(self) -> str:
        """How partitions change hands: ``NONE`` (no group joined yet), ``EAGER`` or ``COOPERATIVE``."""

    @property
    def state(self) -> Enum:
        """Where the member is on its way into the group and out; the two protocols have states of their own."""

    @property
    def rebalance_reason(self) -> str:
        """Why it has joined last, as far as that is known."""

    def subscribe(self, now: float) -> None:
        """The application's subscription is another one than before: join with it, or rejoin."""

    def leave(self, reason: str, done: Callable[[], None], now: float) -> None:
        """Hands everything over through `Rebalance`, then leaves the group.

        ``done`` always comes, in bounded time unless the application never polls while it has a callback to be called.
        """

    def quit(self, reason: str, done: Callable[[], None], now: float) -> None:
        """The application is gone: leaves at once, without giving anything over. ``done`` comes in bounded time."""

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""

    def on_ended(self, keys: list[Key]) -> None:
        """The topic of these partitions was deleted and made anew: has them given up, and assigned once more."""

    def close(self) -> None:
        """Nothing is sent any more, and every ``done`` that is owed comes now."""


class Reports:
    """Errors of a group's requests on their way to the application and the log: once a cause and minute (`Outages`)."""

    def __init__(
        self, group_id: str, on_error: Callable[[KafkaError], None], logger: Logger, clock: Callable[[], float]
    ) -> None:
        """``on_error`` reaches the application through its next poll()."""
        self._group_id = group_id
        self._on_error = on_error
        self._logger = logger
        self._outages = Outages(clock)

    def tell(self, what: str, error: KafkaError) -> None:
        """``what`` has failed, and the application has to know."""
        if self._outages.is_due(TOLD, (what, error.code())):
            self._on_error(KafkaError(error.code(), f"group {self._group_id}: {what} failed: {error.str()}"))

    def note(self, what: str, error: KafkaError) -> None:
        """``what`` has failed: for the log."""
        is_due = self._outages.is_due(NOTED, (what, error.code()))
        say = self._logger.info if is_due else self._logger.debug
        say("group %s: %s: %s", self._group_id, what, error.str())

    def end(self) -> None:
        """The coordinator counts this member in: the next failure is a first one."""
        outage_s = self._outages.end(TOLD)
        self._outages.end(NOTED)
        if outage_s is not None:
            self._logger.info("group %s: its requests succeed again, after %.1f s", self._group_id, outage_s)


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """What the configuration says of the group; seconds, where a property has milliseconds."""

    session_timeout_s: float = 45.0
    heartbeat_interval_s: float = 3.0
    rebalance_timeout_s: float = 300.0
    """max.poll.interval.ms"""
    timeout_s: float = 60.0
    """socket.timeout.ms: for what the coordinator answers at once."""
    retry_s: float = 0.1
    retry_max_s: float = 1.0
    protocol_type: str = "consumer"
    rack: str | None = None
    """client.rack"""

    @classmethod
    def of(cls, config: Config) -> GroupSettings:
        """From the properties of the same names."""
        return cls(
            session_timeout_s=config.integer("session.timeout.ms") / 1000,
            heartbeat_interval_s=config.integer("heartbeat.interval.ms") / 1000,
            rebalance_timeout_s=config.integer("max.poll.interval.ms") / 1000,
            timeout_s=config.integer("socket.timeout.ms") / 1000,
            retry_s=config.integer("retry.backoff.ms") / 1000,
            retry_max_s=config.integer("retry.backoff.max.ms") / 1000,
            protocol_type=config.text("group.protocol.type"),
            rack=config.text("client.rack") or None,
        )


class PollWatch:
    """Sees to max.poll.interval.ms: an application that doesn't poll for so long is no member until it does."""

    def __init__(
        self,
        membership: Watched,
        subscribed: Callable[[], bool],
        polls: Callable[[], tuple[int, bool]],
        *,
        interval_s: float,
        on_error: Callable[[KafkaError], None],
    ) -> None:
        """``subscribed``: whether there is a subscription at all.

        ``polls``: how many polls the application has begun, and whether it is inside one.

        ``on_error`` reaches the application as a message of its next poll().
        """
        self._membership = membership
        self._subscribed = subscribed
        self._polls = polls
        self._interval_s = interval_s
        self._step_s = min(max(interval_s / 20, WATCH_SHORTEST_S), WATCH_LONGEST_S)
        self._on_error = on_error
        self._seen = -1
        self._seen_at = 0.0
        self._check_at = NEVER
        self.exceeded = False
        """The application was too slow and hasn't polled since."""

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        if not self._subscribed():
            self._check_at, self._seen, self.exceeded = NEVER, -1, False
            return [], NEVER
        if self._check_at != NEVER and now < self._check_at:
            return [], self._check_at
        count, inside = self._polls()
        if inside or count != self._seen:
            self._seen, self._seen_at = count, now
            if self.exceeded:
                self.exceeded = False
                self._membership.rejoin("the application polls again", now)
        elif not self.exceeded and now - self._seen_at >= self._interval_s:
            self._exceed(now)
        self._check_at = now + (BACK_S if self.exceeded else self._step_s)
        return [], self._check_at

    def _exceed(self, now: float) -> None:
        self.exceeded = True
        over_ms = int((now - self._seen_at - self._interval_s) * 1000)
        text = (
            f"Application maximum poll interval ({int(self._interval_s * 1000)}ms) exceeded by {over_ms}ms "
            "(adjust max.poll.interval.ms for long-running message processing): leaving the group"
        )
        self._on_error(KafkaError(KafkaError._MAX_POLL_EXCEEDED, text))
        self._membership.on_poll_exceeded(now)
