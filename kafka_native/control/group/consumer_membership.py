"""Group membership in the consumer protocol (KIP-848): the coordinator assigns, by heartbeats.

`heartbeats` sends the heartbeats. This module applies the assignments in their replies.

Thread: the control thread only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from kafka_native.control.group.heartbeats import JOIN_EPOCH, LEAVE_EPOCH, Heartbeats, State
from kafka_native.control.group.membership import GroupSettings
from kafka_native.control.positions import Key
from kafka_native.control.requests import NEVER
from kafka_native.errors import KafkaError
from kafka_native.logs import Logger
from kafka_native.protocol.groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from kafka_native.control.brokers.coordinator import Coordinator
    from kafka_native.control.brokers.pool import BrokerPool
    from kafka_native.control.group.membership import Member
    from kafka_native.control.group.rebalance import Rebalance
    from kafka_native.control.group.subscription import Subscription
    from kafka_native.control.metadata import Metadata

Heartbeat: TypeAlias = ConsumerGroupHeartbeatRequest

LEAVE_FOR_A_WHILE_EPOCH = -2
"""The epoch with which a static member leaves: it keeps its partitions until its session times out.
"""

_TOO_OLD = (
    "the broker doesn't speak the consumer group protocol (KIP-848); use group.protocol=classic"
)
_TEXTS = {
    KafkaError.UNSUPPORTED_VERSION: _TOO_OLD,
    KafkaError._UNSUPPORTED_FEATURE: _TOO_OLD,
    KafkaError.GROUP_ID_NOT_FOUND: "the group is there already and can't change to "
    "the consumer protocol; use group.protocol=classic or another group.id",
    KafkaError.UNRELEASED_INSTANCE_ID: "another member of the group uses this group.instance.id, "
    "or one did and its session has not timed out yet",
}


class ConsumerMembership(Heartbeats[Heartbeat, ConsumerGroupHeartbeatResponse]):
    """One member of one group. See `control.group.membership.Membership`."""

    api = "ConsumerGroupHeartbeat"
    texts = _TEXTS

    def __init__(
        self,
        member: Member,
        coordinator: Coordinator,
        pool: BrokerPool,
        metadata: Metadata,
        subscription: Subscription,
        rebalance: Rebalance,
        settings: GroupSettings,
        *,
        assignor: str | None,
        on_error: Callable[[KafkaError], None],
        on_fatal: Callable[[KafkaError], None],
        logger: Logger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``assignor``: group.remote.assignor; None: the broker chooses.

        ``on_error`` reports to the application in its next poll(); ``on_fatal`` ends the consumer.
        """
        super().__init__(
            member,
            coordinator,
            pool,
            settings,
            on_error=on_error,
            on_fatal=on_fatal,
            logger=logger,
            clock=clock,
        )
        self._metadata = metadata
        self._subscription = subscription
        self._rebalance = rebalance
        self._assignor = assignor
        self._subscribed_once = False
        self._owned: dict[Key, bytes] = {}  # with the topics' ids
        self._target: dict[bytes, list[int]] | None = None  # the coordinator's assignment
        self._unnamed: set[bytes] = set()
        # ids of deleted topics that the coordinator may still assign
        self._gone: set[bytes] = set()
        # the partitions that the current step assigns, with the topics' ids
        self._changing: dict[Key, bytes] = {}
        self._in_step = False
        subscription.on_change.append(self._on_topics)
        metadata.on_names.append(self._on_names)

    @property
    def assignor_protocol(self) -> str:
        """``COOPERATIVE`` after the first subscription, ``NONE`` before it, as in librdkafka."""
        return "COOPERATIVE" if self._subscribed_once else "NONE"

    chosen_protocol = assignor_protocol

    # --- calls of the application ---

    def subscribe(self, now: float) -> None:
        """Joins with the new subscription, or sends it with the next heartbeat."""
        self._subscribed_once = True
        super().subscribe(now)

    def leave(self, reason: str, done: Callable[[], None], now: float) -> None:
        """Gives up all partitions, then leaves the group.

        ``done`` is called when the coordinator has replied or can't be reached. A static member
        announces that it will return. The protocol has no field for the reason.
        """
        if self.state in (State.OUT, State.FAILED):
            done()
            return
        self._on_left.append(done)
        self._join_again = False
        if self.state is State.LEAVING:
            return
        self._logger.debug("leaving group %s: %s", self._member.group_id, reason)
        # It stays a member until the application has given up everything: its last commits need the
        # current epoch.
        was_in = self.state in (State.JOINED, State.JOINING)
        if not self._member.joined:
            self._send_at = NEVER
        self.state = State.LEAVING
        self._target = None
        serial = self._serial
        going = {*self._owned, *self._changing}
        self._rebalance.revoke(
            going, lambda: self._if_current(serial, lambda: self._revoked_all(was_in))
        )

    def rejoin(self, reason: str, now: float) -> None:
        """Joins again, if the member has left because the application didn't poll.

        A member that hasn't left sends a full heartbeat.
        """
        self._logger.debug("group %s: %s", self._member.group_id, reason)
        if self.state is State.STALE:
            self.state = State.LOSING
            if not self._in_step:
                self._join(now)
        elif self.state is State.JOINED:
            self._send_at = now

    def on_ended(self, keys: list[Key]) -> None:
        """Handles recreated topics: partitions are lost, and the coordinator assigns new ones."""
        serial = self._serial
        ids = {self._owned[key] for key in keys if key in self._owned}
        self._gone |= ids
        keys = [key for key, topic_id in self._owned.items() if topic_id in ids]
        self._rebalance.end(keys)
        self._rebalance.lose_ended(
            keys, lambda lost: self._if_current(serial, lambda: self._end_lost(lost))
        )

    def _end_lost(self, lost: list[Key]) -> None:
        for key in lost:
            self._owned.pop(key, None)
        if lost:
            self._send_at = min(self._send_at, self._clock())
            self._reconcile()

    def on_poll_exceeded(self, now: float) -> None:
        """Leaves the group: the application has exceeded max.poll.interval.ms.

        Its partitions are lost. `rejoin()` brings the member back.
        """
        if self.state in (State.JOINED, State.JOINING):
            self._send_leave(now, lambda reply: None)
            self._lose(State.STALE)
        # the revoke callback was waiting for this poll()
        elif self.state is State.LEAVING and not self._leave_sent:
            self._rebalance.lose(lambda: None)
            self._revoked_all(True)

    # --- heartbeats ---

    def _short(self, epoch: int) -> Heartbeat:
        member = self._member
        return Heartbeat(
            group_id=member.group_id,
            member_id=member.member_id,
            member_epoch=epoch,
            instance_id=member.instance_id,
            topic_partitions=self._owned_partitions(),
        )

    def _full(self) -> Heartbeat:
        message = self._short(max(self._member.generation, JOIN_EPOCH))
        subscription = self._subscription
        message.rebalance_timeout_ms = int(self._settings.rebalance_timeout_s * 1000)
        message.rack_id = self._settings.rack
        message.server_assignor = self._assignor
        patterns = subscription.patterns
        message.subscribed_topic_names = (
            subscription.names if subscription.server_side else list(subscription.topics)
        )
        # Empty: none. Null would keep the last one, and librdkafka's mock cluster doesn't take it.
        message.subscribed_topic_regex = server_regex(patterns) if subscription.server_side else ""
        return message

    def _owned_partitions(self) -> list[Heartbeat.TopicPartitions]:
        """The partitions that the application has, or gets in the current step.

        The coordinator gives a partition that isn't among them to another member.
        """
        by_id: dict[bytes, list[int]] = {}
        for (_, number), topic_id in sorted({**self._owned, **self._changing}.items()):
            by_id.setdefault(topic_id, []).append(number)
        return [
            Heartbeat.TopicPartitions(topic_id=topic_id, partitions=numbers)
            for topic_id, numbers in by_id.items()
        ]

    def _last_heartbeat(self) -> Heartbeat:
        message = self._short(
            LEAVE_EPOCH if self._member.instance_id is None else LEAVE_FOR_A_WHILE_EPOCH
        )
        message.topic_partitions = None
        return message

    def _refused(self, error: KafkaError, message: Heartbeat) -> bool:
        if error.code() != KafkaError._INVALID_ARG or not message.subscribed_topic_regex:
            return False
        self._match_here()
        return True

    def _match_here(self) -> None:
        """Matches the patterns in the client: brokers before Apache Kafka 4.0 can't."""
        self._logger.info(
            "group %s: the broker doesn't match patterns, the client does", self._member.group_id
        )
        self._subscription.server_side = False
        now = self._clock()
        try:
            self._subscription.replace(self._subscription.wanted, now)
        except ValueError as error:
            self._report(KafkaError(KafkaError.INVALID_REGULAR_EXPRESSION, str(error)))
        self._send_at = now

    def _take_answer(self, reply: ConsumerGroupHeartbeatResponse) -> None:
        if reply.assignment is not None and self.state is State.JOINED:
            self._target = {
                each.topic_id: list(each.partitions) for each in reply.assignment.topic_partitions
            }
        self._reconcile()

    # --- sessions in the group ---

    def _forget(self) -> None:
        self._in_step = False
        self._changing = {}
        self._metadata.unresolve(self._unnamed)
        self._unnamed = set()
        self._gone = set()
        self._target = None

    def _join(self, at: float) -> None:
        super()._join(at)
        self._owned.clear()

    def _lose(self, then: State) -> None:
        """Gives up all partitions as lost, because the member is, or may be, out of the group."""
        self._stop_heartbeat()
        self._end_session()
        self._owned.clear()
        self._member.generation = JOIN_EPOCH
        self.state = then
        self._in_step = True
        serial = self._serial
        self._rebalance.lose(lambda: self._if_current(serial, self._lost))

    def _lost(self) -> None:
        self._in_step = False
        if self.state is State.LOSING:
            self._join(max(self._clock(), self._join_at))

    def _revoked_all(self, was_in: bool) -> None:
        self._end_session()
        self._owned.clear()
        self._stop_heartbeat()
        self._leave_sent = True
        if not was_in or not self._send_leave(self._clock(), lambda reply: self._left()):
            self._left()

    # --- from one assignment to the next ---

    def _on_topics(self) -> None:
        """Sends the topics that match now, if the client matches the patterns."""
        matched_here = not self._subscription.server_side and self._subscription.patterns
        if matched_here and self.state in (State.JOINING, State.JOINED):
            self._send_at = min(self._send_at, self._clock())

    def _on_names(self) -> None:
        if self._unnamed:
            self._reconcile()

    def _reconcile(self) -> None:
        """Takes the next step towards the assignment: revokes, or else assigns.

        Then sends a heartbeat. A newer assignment is applied after the current step.
        """
        if self._in_step or self._target is None or self.state is not State.JOINED:
            return
        wanted = self._named(self._target)
        revoked = [key for key, topic_id in self._owned.items() if wanted.get(key) != topic_id]
        added = {key: topic_id for key, topic_id in wanted.items() if key not in self._owned}
        serial = self._serial
        if revoked:
            self._in_step = True
            # this name is another topic by now
            self._rebalance.end(key for key in revoked if key in wanted)
            self._rebalance.revoke(
                revoked, lambda: self._if_current(serial, lambda: self._end_step(revoked, {}))
            )
        elif added:
            self._in_step = True
            self._changing = added
            self._rebalance.assign(
                added, lambda: self._if_current(serial, lambda: self._end_step((), added))
            )

    def _end_step(self, revoked: Iterable[Key], added: dict[Key, bytes]) -> None:
        self._in_step = False
        self._changing = {}
        for key in revoked:
            self._owned.pop(key, None)
        self._owned.update(added)
        self._send_at = min(self._send_at, self._clock())
        self._reconcile()

    def _named(self, assigned: dict[bytes, list[int]]) -> dict[Key, bytes]:
        """The assignment by topic name.

        Topics without a known name are looked up and applied later.
        """
        names = {topic_id: name for (name, _), topic_id in self._owned.items()}
        found: dict[Key, bytes] = {}
        unnamed = set()
        for topic_id, numbers in assigned.items():
            if topic_id in self._gone:
                continue
            name = names.get(topic_id) or self._metadata.name_of(topic_id)
            if name is None:
                unnamed.add(topic_id)
            else:
                found.update(((name, number), topic_id) for number in numbers if number >= 0)
        if unnamed - self._unnamed:
            self._logger.info(
                "group %s: %d assigned topics have no name here yet",
                self._member.group_id,
                len(unnamed),
            )
        self._metadata.unresolve(self._unnamed - unnamed)
        self._unnamed = unnamed
        if unnamed:
            self._metadata.resolve(unnamed, self._clock())
        return found


def server_regex(patterns: Iterable[str]) -> str:
    """One RE2 expression that matches names in which one of the patterns occurs; "": no patterns.

    The broker compares whole names. The classic protocol and librdkafka search in them: ``^orders``
    also matches orders-eu.
    """
    patterns = list(patterns)
    return ".*(?:" + "|".join(f"(?:{each})" for each in patterns) + ").*" if patterns else ""
