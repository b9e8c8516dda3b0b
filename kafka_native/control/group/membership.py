"""What the group protocols share: the member, the interface, the settings, max.poll.interval.ms.

Thread: the control thread only. The membership writes `Member`. Managers that send requests to the
coordinator read it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafka_native.control.outages import Outages
from kafka_native.control.positions import Key
from kafka_native.control.requests import NEVER, Call
from kafka_native.errors import KafkaError
from kafka_native.logs import Logger

if TYPE_CHECKING:
    from kafka_native.config import Config

NO_GENERATION = -1
"""The generation of a client that isn't a member.

The coordinator accepts its commits for an empty group.
"""


class Member:
    """One member. Without a subscription it never joins, and its commits carry no member id."""

    def __init__(
        self,
        group_id: str,
        instance_id: str | None = None,
        protocol: str = "classic",
        member_id: str = "",
        generation: int = NO_GENERATION,
    ) -> None:
        """Creates a member that hasn't joined."""
        self.group_id = group_id
        self.instance_id = instance_id
        self.protocol = protocol
        """``classic`` or ``consumer`` (KIP-848): group.protocol."""
        self.member_id = member_id
        self.generation = generation
        """The group's generation; in the consumer protocol, the member's epoch."""

    @property
    def joined(self) -> bool:
        """Whether the coordinator knows it as a member of this generation."""
        return self.generation > 0


REPORTED, LOGGED = "reported", "logged"
"""The subjects of outages: errors for the application, and errors for the log only."""
LEAVE_TIMEOUT_S = 5.0
"""The timeout of the request to leave; socket.timeout.ms at most."""
WATCH_LONGEST_S = 1.0
WATCH_SHORTEST_S = 0.01
BACK_S = 0.1
"""The check interval after the limit was exceeded, until the application polls again."""


class Watched(Protocol):
    """A member whose application has to poll (max.poll.interval.ms)."""

    def rejoin(self, reason: str, now: float) -> None:
        """Takes part in another rebalance. After `on_poll_exceeded()` it brings the member back."""

    def on_poll_exceeded(self, now: float) -> None:
        """Leaves the group until `rejoin()`: the application has exceeded max.poll.interval.ms.

        The member's partitions are lost.
        """


class Membership(Watched, Protocol):
    """One member of one group. It is idle until `subscribe()`.

    The implementations are `classic_membership` and `consumer_membership`.
    """

    @property
    def assignor_protocol(self) -> str:
        """How rebalances move partitions: ``EAGER``, ``COOPERATIVE`` or ``NONE`` (never joined)."""

    @property
    def chosen_protocol(self) -> str:
        """The same as librdkafka knows it: ``NONE`` until the group has chosen an assignor."""

    @property
    def state(self) -> Enum:
        """The member's state, from joining to leaving. Each protocol has its own states."""

    @property
    def rebalance_reason(self) -> str:
        """The reason of the last join, if it is known."""

    def subscribe(self, now: float) -> None:
        """Joins with the new subscription, or joins again."""

    def leave(self, reason: str, done: Callable[[], None], now: float) -> None:
        """Gives up all partitions through `Rebalance`, then leaves the group.

        ``done`` is always called. It is called in bounded time, unless a callback is due and the
        application never polls.
        """

    def quit(self, reason: str, done: Callable[[], None], now: float) -> None:
        """Leaves at once, for a dropped application: no callbacks.

        ``done`` is called in bounded time.
        """

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""

    def on_ended(self, keys: list[Key]) -> None:
        """Handles recreated topics: has their partitions given up and assigned again."""

    def close(self) -> None:
        """Stops all requests and calls every pending ``done``."""


class Reports:
    """Reports errors of group requests to the application and the log, once per cause and minute.

    See `Outages`.
    """

    def __init__(
        self,
        group_id: str,
        on_error: Callable[[KafkaError], None],
        logger: Logger,
        clock: Callable[[], float],
    ) -> None:
        """``on_error`` reports to the application in its next poll()."""
        self._group_id = group_id
        self._on_error = on_error
        self._logger = logger
        self._outages = Outages(clock)

    def report(self, what: str, error: KafkaError) -> None:
        """Reports to the application that ``what`` has failed."""
        if self._outages.is_due(REPORTED, (what, error.code())):
            self._on_error(
                KafkaError(error.code(), f"group {self._group_id}: {what} failed: {error.str()}")
            )

    def log(self, what: str, error: KafkaError) -> None:
        """Logs that ``what`` has failed."""
        is_due = self._outages.is_due(LOGGED, (what, error.code()))
        say = self._logger.info if is_due else self._logger.debug
        say("group %s: %s: %s", self._group_id, what, error.str())

    def end(self) -> None:
        """Ends the outage: the coordinator has confirmed this member."""
        outage_s = self._outages.end(REPORTED)
        self._outages.end(LOGGED)
        if outage_s is not None:
            self._logger.info(
                "group %s: its requests succeed again, after %.1f s", self._group_id, outage_s
            )


class GroupSettings(NamedTuple):
    """The settings of a group member.

    Durations are in seconds; their properties have milliseconds.
    """

    session_timeout_s: float = 45.0
    heartbeat_interval_s: float = 3.0
    rebalance_timeout_s: float = 300.0
    """max.poll.interval.ms"""
    timeout_s: float = 60.0
    """socket.timeout.ms: for requests that the coordinator answers at once."""
    retry_s: float = 0.1
    retry_max_s: float = 1.0
    protocol_type: str = "consumer"
    rack: str | None = None
    """client.rack"""

    @classmethod
    def of(cls, config: Config) -> GroupSettings:
        """The settings from a configuration."""
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
    """Enforces max.poll.interval.ms: after so long, the member leaves until the next poll."""

    def __init__(
        self,
        membership: Watched,
        subscribed: Callable[[], bool],
        polls: Callable[[], tuple[int, bool]],
        *,
        interval_s: float,
        on_error: Callable[[KafkaError], None],
    ) -> None:
        """``subscribed`` returns whether there is a subscription.

        ``polls`` returns how many polls the application has begun, and whether it is inside one.
        ``on_error`` adds an error to the messages of its next poll().
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
        """Whether the application has exceeded the interval and hasn't polled since."""

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
            f"Application maximum poll interval ({int(self._interval_s * 1000)}ms) exceeded by "
            f"{over_ms}ms (adjust max.poll.interval.ms for long-running message processing): "
            "leaving the group"
        )
        self._on_error(KafkaError(KafkaError._MAX_POLL_EXCEEDED, text))
        self._membership.on_poll_exceeded(now)
