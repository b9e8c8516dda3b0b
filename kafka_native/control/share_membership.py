"""Membership of a share group (KIP-932): the coordinator says which partitions to fetch from, nobody owns any.

So nothing has to be given up before somebody else may have it, and there is nothing to reconcile: what is assigned is
fetched from as of now.

Thread: the control thread only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from kafka_native.control.group.heartbeats import JOIN_EPOCH, LEAVE_EPOCH, Heartbeats, State
from kafka_native.errors import KafkaError
from kafka_native.protocol.share import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from kafka_native.control.brokers.coordinator import Coordinator
    from kafka_native.control.brokers.pool import BrokerPool
    from kafka_native.control.group.membership import GroupSettings
    from kafka_native.control.member import Member
    from kafka_native.logs import Logger

Heartbeat: TypeAlias = ShareGroupHeartbeatRequest
ShareKey: TypeAlias = tuple[bytes, int]
"""A partition by its topic's id: a topic that was made anew is another one."""

_TOO_OLD = "the broker doesn't speak the share group protocol (KIP-932): Apache Kafka does since 4.1"


class ShareMembership(Heartbeats):
    """One member of one share group. Does nothing before `subscribe()`."""

    api = "ShareGroupHeartbeat"
    texts = {  # noqa: RUF012 - read only
        KafkaError.UNSUPPORTED_VERSION: f"{_TOO_OLD}, with the feature share.version=1",
        KafkaError._UNSUPPORTED_FEATURE: f"{_TOO_OLD}, with the feature share.version=1",
        KafkaError.GROUP_ID_NOT_FOUND: "there is a group of another type with this group.id",
    }

    def __init__(
        self,
        member: Member,
        coordinator: Coordinator,
        pool: BrokerPool,
        settings: GroupSettings,
        *,
        on_assigned: Callable[[set[ShareKey]], None],
        on_error: Callable[[KafkaError], None],
        on_fatal: Callable[[KafkaError], None],
        logger: Logger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``on_assigned`` gets all that is assigned whenever that changes, nothing once the member is out.

        ``on_error`` reaches the application through its next poll(), ``on_fatal`` ends the consumer.
        """
        super().__init__(
            member, coordinator, pool, settings, on_error=on_error, on_fatal=on_fatal, logger=logger, clock=clock
        )
        self._on_assigned = on_assigned
        self.topics: list[str] = []

    @property
    def assignor_protocol(self) -> str:
        """``NONE``: nothing changes hands."""
        return "NONE"

    @property
    def rebalance_reason(self) -> str:
        """Unknown: the coordinator decides."""
        return ""

    # --- what the application does ---

    def replace(self, topics: list[str], now: float) -> None:
        """Subscribes to these, at least one, in place of those before."""
        self.topics = list(topics)
        self.subscribe(now)

    def subscribe(self, now: float) -> None:
        """The subscription is another one: join with it, or tell it."""
        if self.state is State.OUT:
            self._join(now)
        elif self.state in (State.JOINING, State.JOINED):
            self._send_at = now
        elif self.state is State.LEAVING:
            self._join_again = True

    def leave(self, reason: str, done: Callable[[], None], now: float) -> None:
        """Leaves the group. ``done`` comes when the coordinator knows, or can't be told."""
        if self.state in (State.OUT, State.FAILED):
            done()
            return
        self._on_left.append(done)
        self._join_again = False
        if self.state is State.LEAVING:
            return
        self._logger.debug("leaving group %s: %s", self._member.group_id, reason)
        was_in = self.state in (State.JOINED, State.JOINING)
        self._lose(State.LEAVING)
        if not was_in or not self._say_goodbye(now, lambda reply: self._left()):
            self._left()

    def rejoin(self, reason: str, now: float) -> None:
        """Joins again if it is out because the application didn't poll."""
        self._logger.debug("group %s: %s", self._member.group_id, reason)
        if self.state is State.STALE:
            self._join(now)

    def on_poll_exceeded(self, now: float) -> None:
        """The application has not polled for max.poll.interval.ms: leaves until it does, see rejoin()."""
        if self.state in (State.JOINED, State.JOINING):
            self._say_goodbye(now, lambda reply: None)
            self._lose(State.STALE)

    # --- heartbeats ---

    def _short(self, epoch: int) -> Heartbeat:
        return Heartbeat(group_id=self._member.group_id, member_id=self._member.member_id, member_epoch=epoch)

    def _full(self) -> Heartbeat:
        message = self._short(max(self._member.generation, JOIN_EPOCH))
        message.rack_id = self._settings.rack
        message.subscribed_topic_names = sorted(self.topics)
        return message

    def _goodbye(self) -> Heartbeat:
        return self._short(LEAVE_EPOCH)

    def _take_answer(self, reply: ShareGroupHeartbeatResponse) -> None:
        if reply.assignment is not None and self.state is State.JOINED:
            named = reply.assignment.topic_partitions
            self._on_assigned({(each.topic_id, number) for each in named for number in each.partitions if number >= 0})

    def _lose(self, then: State) -> None:
        self._stop_heartbeat()
        self._next_life()
        self._member.generation = JOIN_EPOCH
        self.state = then
        self._on_assigned(set())
        if then is State.LOSING:
            self._join(max(self._clock(), self._join_at))
