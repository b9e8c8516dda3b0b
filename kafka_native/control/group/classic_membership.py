"""Group membership in the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

A member joins and gets the generation. SyncGroup then returns its assignment. One member, the
leader, computes the assignment of all (`GroupLeader`). It fetches the metadata of all topics and
watches them for changes. The broker's own thread sends the heartbeats (`BrokerPool.heartbeat`), so
they continue while the application holds the interpreter. The replies to heartbeats announce
rebalances.

With an EAGER protocol, a member gives up all partitions before it joins again. With a COOPERATIVE
protocol (KIP-429), it joins with the partitions that it owns. It then gives up those that it isn't
assigned any more, and joins again, so that another member can get them. The configured assignors
decide which of the two applies. If they differ, the protocol is EAGER, because the group may choose
any of them. An eager assignor ignores who owns which partitions.

Thread: the control thread only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from kafka_native.cleaning import NAME_MAX, clean
from kafka_native.control.assignors import (
    Assignor,
    MemberSubscription,
    PartitionInfo,
    Range,
    run,
    wire,
)
from kafka_native.control.brokers.coordinator import GROUP, NEEDS
from kafka_native.control.brokers.pool import COORDINATORS
from kafka_native.control.errors import GENERATION_OVER_ERRORS
from kafka_native.control.group.membership import (
    LEAVE_TIMEOUT_S,
    NO_GENERATION,
    GroupSettings,
    Reports,
)
from kafka_native.control.positions import Key
from kafka_native.control.requests import NEVER, Backoff, Call, Reply
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.logs import Logger
from kafka_native.protocol.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from kafka_native.control.brokers.coordinator import Coordinator
    from kafka_native.control.brokers.pool import BrokerPool
    from kafka_native.control.group.membership import Member
    from kafka_native.control.group.rebalance import Rebalance
    from kafka_native.control.group.subscription import Subscription
    from kafka_native.control.metadata import Metadata, Topic

METADATA_S = 5.0
"""How long the leader waits for the metadata of new topics. After that, it assigns without them."""


class GroupLeader:
    """The leader's work in each generation, between `begin()` and `end()`."""

    def __init__(
        self,
        metadata: Metadata,
        pool: BrokerPool,
        subscription: Subscription,
        on_change: Callable[[str], None],
        logger: Logger,
    ) -> None:
        """``on_change(reason)``: a topic's partition count has changed since the assignment."""
        self._metadata = metadata
        self._pool = pool
        self._subscription = subscription
        self._on_change = on_change
        self._logger = logger
        self._assignor: Assignor | None = None
        self._members: dict[str, MemberSubscription] = {}
        self._topics: set[str] = set()
        self._guests: set[str] = set()  # topics that only other members want
        # the watched partition counts; None: not known yet, so the first value isn't a change
        self._counts: dict[str, int | None] = {}
        self._wait_until = NEVER
        metadata.on_topic.append(self._on_topic)
        metadata.on_failure.append(lambda topic, error: self._on_topic(topic))
        metadata.uses.append(lambda since: self._topics)

    def begin(
        self, assignor: Assignor, reply: JoinGroupResponse, own: Iterable[str], now: float
    ) -> None:
        """Starts a generation with the members' subscriptions from the JoinGroup reply.

        ``own``: this member's topics.
        """
        self._assignor = assignor
        self._members, warnings = wire.unpack_subscriptions(reply.members, reply.generation_id)
        for warning in warnings:
            self._logger.warning("%s", warning)
        self._topics = set(own).union(*(each.topics for each in self._members.values()))
        self._guests = self._topics - self._metadata.topics.keys()
        for name in self._topics:
            self._metadata.want(name, now)
        self._wait_until = now + METADATA_S

    def watch(self) -> None:
        """Keeps the group's assignment, and watches its topics for changes from now on."""
        self._counts = {name: self._count(name) or None for name in self._topics}

    def end(self) -> None:
        """Ends the leadership of this generation."""
        guests, self._guests = self._guests, set()
        self._assignor = None
        self._members = {}
        self._topics = set()
        self._metadata.forget(guests)
        self._counts = {}

    def _count(self, name: str) -> int:
        topic = self._metadata.topics.get(name)
        return len(topic.partitions) if topic is not None and topic.known else 0

    def ready_at(self, now: float) -> float:
        """When the metadata wait ends; now if all topics are known or have failed."""
        topics = (self._metadata.topics.get(name) for name in self._topics)
        unanswered = any(
            topic is not None
            and not topic.known
            and topic.failed is None
            and topic.missing_since is None
            for topic in topics
        )
        return self._wait_until if unanswered else now

    def assign(self) -> list[SyncGroupRequest.Assignment]:
        """Each member's assignment in wire form.

        :raises KafkaException: _FAIL: the assignor raises, or its result is invalid.
        """
        assert self._assignor is not None
        counts = {name: self._count(name) for name in self._topics}
        missing = sorted(name for name, count in counts.items() if not count)
        if missing:
            self._logger.info("subscribed topics that don't exist: %s", ", ".join(missing[:10]))
        partitions = {name: self._partitions(name) for name, count in counts.items() if count}
        assignment = run(self._assignor, partitions, self._members)
        for member_id, keys in assignment.items():
            self._logger.debug(
                "%s gives %d partition(s) to %s", self._assignor.name, len(keys), member_id
            )
        self._counts = dict(counts)
        return [
            SyncGroupRequest.Assignment(member_id=member_id, assignment=wire.pack_assignment(keys))
            for member_id, keys in assignment.items()
        ]

    def _partitions(self, name: str) -> list[PartitionInfo]:
        racks: dict[int, str] = {
            node_id: broker.rack
            for node_id, broker in self._pool.nodes.items()
            if broker.rack is not None
        }
        found = []
        for number, partition in enumerate(self._metadata.topics[name].partitions):
            replicas = partition.replicas if racks else ()
            found.append(
                PartitionInfo(number, frozenset(racks[each] for each in replicas if each in racks))
            )
        return found

    def _on_topic(self, topic: Topic) -> None:
        if topic.name not in self._counts:
            return
        before, count = self._counts[topic.name], self._count(topic.name)
        if count == before:
            return
        self._counts[topic.name] = count
        if before is not None:
            self._on_change(f"topic {topic.name} has {count} partitions, no longer {before}")


MARGIN_S = 5.0
"""The extra time for a reply after the broker's wait for other members."""
MATCH_S = 2.0
"""How long the first JoinGroup waits for patterns to be matched. It saves a second JoinGroup."""
AT_ONCE = 3
"""How many times a member joins again at once after another rebalance has interrupted its own."""
ASSIGNOR_RETRY_S = 1.0
ASSIGNOR_RETRY_MAX_S = 10.0
REASON_MAX_CHARACTERS = 255
"""The maximum length that brokers accept (KIP-800)."""


class State(Enum):
    """The member's state, from joining to leaving."""

    OUT = "not subscribed"
    UNJOINED = "about to join"
    JOINING = "its JoinGroup is under way"
    LEADING = "leads the generation and waits for metadata"
    SYNCING = "its SyncGroup is under way"
    STABLE = "a member"
    STALE = "out until the application polls again"
    LEAVING = "its partitions are revoked, then it leaves"
    FAILED = "a fatal error"


HEARTBEAT_STATES = (State.UNJOINED, State.LEADING, State.STABLE)
"""The states in which a member with a generation sends heartbeats.

In the other states, the broker waits for it in a join or sync, or it isn't a member.
"""
ACTIVE = (State.UNJOINED, State.JOINING, State.LEADING, State.SYNCING, State.STABLE)


class ClassicMembership:
    """One member of one group. See `control.group.membership.Membership`."""

    def __init__(
        self,
        member: Member,
        coordinator: Coordinator,
        pool: BrokerPool,
        metadata: Metadata,
        subscription: Subscription,
        rebalance: Rebalance,
        assignors: Sequence[Assignor],
        settings: GroupSettings,
        *,
        on_error: Callable[[KafkaError], None],
        on_fatal: Callable[[KafkaError], None],
        logger: Logger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``assignors`` are in order of preference.

        ``on_error`` reports to the application's next poll(); ``on_fatal`` ends the consumer.
        """
        self._member = member
        self._coordinator = coordinator
        self._pool = pool
        self._subscription = subscription
        self._rebalance = rebalance
        self._assignors = {each.name: each for each in assignors}
        self._settings = settings
        self._reports = Reports(member.group_id, on_error, logger, clock)
        self._on_fatal = on_fatal
        self._logger = logger
        self._clock = clock
        self._leader = GroupLeader(
            metadata, pool, subscription, lambda why: self._ask_rejoin(why), pool.logs["assignor"]
        )
        cooperative = all(each.protocol == "COOPERATIVE" for each in assignors)
        self._protocol = "COOPERATIVE" if cooperative else "EAGER"

        self.state = State.OUT
        self._subscribed_once = False
        # number of the current session in the group: replies to earlier ones are ignored
        self._serial = 0
        self._reason: str | None = None  # the reason for the next join; None: no join is due
        self._join_at = 0.0
        self._match_by = 0.0
        self._backoff = Backoff(settings.retry_s, settings.retry_max_s)
        self._assignor_backoff = Backoff(ASSIGNOR_RETRY_S, ASSIGNOR_RETRY_MAX_S)
        self._sent_reason = ""
        self._sent_topics: list[str] = []  # the topics of the last JoinGroup
        self._assignor: Assignor | None = None  # the assignor of this generation
        self._urgent: list[Call] = []
        self._waits_in_broker = False  # a JoinGroup or SyncGroup blocks its connection
        # the partitions that the group has assigned and not revoked
        self._assignment: set[Key] = set()
        self._changing: set[Key] = set()  # the partitions that the current step assigns
        self._in_step = False
        self._losing = False
        self._on_left: list[Callable[[], None]] = []
        self._leave_reason = ""
        self._leave_sent = False
        self._leave_by = NEVER
        self._revoked_all = False
        self._join_again = False  # subscribed while leaving

        self._heartbeating: int | None = None  # the broker whose thread sends the heartbeats
        self._heartbeat_ok = False
        self._heartbeat_serial = 0
        # when a heartbeat has to open the connection, before the broker's thread continues
        self._heartbeat_at = NEVER
        self._alive_at = 0.0  # when the coordinator last confirmed this member

        coordinator.on_found.append(self._on_coordinator)
        coordinator.on_refused.append(on_error)
        subscription.on_change.append(self._on_topics)

    @property
    def assignor_protocol(self) -> str:
        """``EAGER`` or ``COOPERATIVE`` after the first subscription, ``NONE`` before it."""
        return self._protocol if self._subscribed_once else "NONE"

    @property
    def chosen_protocol(self) -> str:
        """``EAGER`` or ``COOPERATIVE`` after the first generation has begun, ``NONE`` before it."""
        return "NONE" if self._assignor is None else self._protocol

    @property
    def rebalance_reason(self) -> str:
        """The reason of the next or last join, as sent to the coordinator (KIP-800)."""
        return self._reason or self._sent_reason

    # --- calls of the application ---

    def subscribe(self, now: float) -> None:
        """Joins with the new subscription, or joins again."""
        self._subscribed_once = True
        if self.state is State.OUT:
            self._enter(now)
        elif self.state is State.LEAVING:
            self._join_again = True
        elif self.state in ACTIVE:
            self._match_by = now + MATCH_S
            self._ask_rejoin("the subscription has changed")

    def leave(self, reason: str, done: Callable[[], None], now: float) -> None:
        """Gives up all partitions, then leaves.

        A static member stays in the group until its session times out.
        """
        if self.state in (State.OUT, State.FAILED):
            done()
            return
        self._on_left.append(done)
        self._join_again = False
        if self.state is State.LEAVING:
            return
        self._leave_reason = reason
        self._leave_sent = False
        if self.state is State.LEADING:
            self._assign_before_leaving()
        going = self._assignment | self._changing
        self._end_session()
        self.state = State.LEAVING
        self._revoked_all = False
        serial = self._serial
        self._in_step = True
        self._rebalance.revoke(going, lambda: self._if_current(serial, self._on_all_revoked))

    def quit(self, reason: str, done: Callable[[], None], now: float) -> None:
        """Leaves the group and sends nothing more.

        A static member's session times out by itself.
        """
        call = None
        if self.state not in (State.OUT, State.FAILED) and not self._leave_sent:
            call = self._leave_call(reason, lambda reply: done(), now)
        self._end_session()
        self._stop_heartbeat()
        self.state = State.OUT
        if call is None:
            done()
        else:
            self._urgent.append(call)

    def rejoin(self, reason: str, now: float) -> None:
        """Joins again, even if the member has left because the application didn't poll."""
        if self.state is State.STALE:
            self._enter(now, reason)
        elif self.state in ACTIVE:
            self._ask_rejoin(reason)

    def on_ended(self, keys: list[Key]) -> None:
        """Handles partitions of a recreated topic.

        The group doesn't know, so this member keeps them.
        """
        if self._protocol == "EAGER":  # callbacks of an eager group get all partitions at once
            self._ask_rejoin("a topic was deleted and recreated")
        else:
            self._rebalance.renew(keys)

    def on_poll_exceeded(self, now: float) -> None:
        """Leaves the group: the application has exceeded max.poll.interval.ms.

        Its partitions are lost. `rejoin()` brings the member back. A static member doesn't send
        LeaveGroup (KIP-345). Its heartbeats stop, and its session times out if it doesn't come
        back.
        """
        if self.state in ACTIVE:
            call = self._leave_call(
                "max.poll.interval.ms has passed without a poll", lambda reply: None, now
            )
            if call is not None:
                self._urgent.append(call)
            self._member.member_id = ""
            self._lose(State.STALE)

    def close(self) -> None:
        """Stops all requests and calls the functions that wait for `leave()`."""
        self._end_session()
        self._stop_heartbeat()
        self._join_again = False
        self._left()

    # --- polling ---

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        calls, self._urgent = self._urgent, []
        wake_up = NEVER
        if self.state is State.LEAVING:
            wake_up = self._poll_leaving(calls, now)
        elif self.state in ACTIVE:
            wake_up = self._poll_session(now)
            if self.state is State.LEADING:
                wake_up = min(wake_up, self._poll_leading(calls, now))
            wake_up = min(wake_up, self._poll_join(calls, now))
            wake_up = min(wake_up, self._poll_heartbeat(calls, now))
        return calls, 0.0 if self._urgent else wake_up

    def _poll_join(self, calls: list[Call], now: float) -> float:
        """Gives up partitions where needed, then sends JoinGroup, once there is a coordinator."""
        while (
            self._reason is not None
            and not self._in_step
            and self.state in (State.UNJOINED, State.STABLE)
        ):
            if now < self._join_at:
                return self._join_at
            if not self._subscription.ready and now < self._match_by:
                return self._match_by
            target = self._coordinator.want(now)
            if target is None:
                return NEVER  # on_found continues
            going = self._to_give_up()
            if going:
                self._in_step = True
                serial = self._serial
                revoked = partial(self._on_revoked, going)
                self._rebalance.revoke(going, partial(self._if_current, serial, revoked))
            else:
                calls.append(self._join(target, now))
        return NEVER

    def _to_give_up(self) -> set[Key]:
        """The partitions that this member has to give up before it joins."""
        if self._protocol == "EAGER":
            return set(self._assignment)
        topics = set(self._subscription.topics)
        return {key for key in self._assignment if key[0] not in topics}

    # --- JoinGroup ---

    def _enter(self, now: float, reason: str = "the consumer has subscribed") -> None:
        self.state = State.UNJOINED
        self._match_by = now + MATCH_S
        self._reason = reason
        self._coordinator.want(now)

    def _ask_rejoin(self, reason: str) -> None:
        if self.state in ACTIVE:
            self._logger.debug("group %s: will join again: %s", self._member.group_id, reason)
            self._reason = reason

    def _join(self, target: int, now: float) -> Call:
        self._stop_heartbeat()
        member, settings = self._member, self._settings
        self._sent_topics = list(self._subscription.topics)
        message = JoinGroupRequest(
            group_id=member.group_id,
            session_timeout_ms=int(settings.session_timeout_s * 1000),
            rebalance_timeout_ms=int(settings.rebalance_timeout_s * 1000),
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            protocol_type=settings.protocol_type,
            protocols=[
                JoinGroupRequest.Protocol(name=each.name, metadata=self._metadata_for(each))
                for each in self._assignors.values()
            ],
            reason=(self._reason or "")[:REASON_MAX_CHARACTERS],
        )
        self._logger.debug(
            "group %s: joining as %r: %s", member.group_id, member.member_id, self._reason
        )
        self._sent_reason, self._reason = self._reason or "", None
        self.state = State.JOINING
        self._waits_in_broker = True
        serial, sent_id = self._serial, member.member_id

        def on_reply(reply: Reply) -> None:
            if serial == self._serial:
                self._waits_in_broker = False
                self._on_join(reply, sent_id, now)
            else:
                self._on_late_join(reply, sent_id)

        return Call(message, target, now + settings.rebalance_timeout_s + MARGIN_S, on_reply)

    def _metadata_for(self, assignor: Assignor) -> bytes:
        """The member's metadata for one assignor."""
        owned, generation, rack = (
            sorted(self._assignment),
            self._member.generation,
            self._settings.rack,
        )
        try:
            return wire.pack_subscription(assignor, self._sent_topics, owned, generation, rack)
        except KafkaException as error:
            self._reports.report("assignment", error.args[0])
            # without user data
            return wire.pack_subscription(Range(), self._sent_topics, owned, generation, rack)

    def _on_join(self, reply: Reply, sent_id: str, sent_at: float) -> None:
        error = _error_of(reply)
        if error is not None:
            if error.code() == KafkaError.MEMBER_ID_REQUIRED and reply.member_id and not sent_id:
                self._member.member_id = reply.member_id
                self.state = State.UNJOINED
                self._reason = self._sent_reason
                return
            self._alive_at = sent_at if error.code() == KafkaError._TIMED_OUT else self._clock()
            self._failed("JoinGroup", error)
            return
        assignor = self._assignors.get(reply.protocol_name or "")
        if assignor is None or reply.protocol_type not in (None, self._settings.protocol_type):
            chosen = clean(f"{reply.protocol_type or 'consumer'}/{reply.protocol_name}")
            text = f"the group chose {chosen}, which wasn't offered"
            self._failed("JoinGroup", KafkaError(KafkaError.INCONSISTENT_GROUP_PROTOCOL, text))
            return
        self._coordinator.answered()
        self._member.member_id = reply.member_id
        self._member.generation = reply.generation_id
        self._assignor = assignor
        self._alive_at = self._clock()
        self._begin_generation(reply)

    def _begin_generation(self, reply: JoinGroupResponse) -> None:
        group, leads = self._member.group_id, reply.leader == reply.member_id
        self._logger.debug(
            "group %s: generation %d%s", group, reply.generation_id, ", leading" if leads else ""
        )
        self._leader.end()
        self.state = State.LEADING
        if not leads:
            self._sync([])
            return
        assert self._assignor is not None
        self._leader.begin(self._assignor, reply, self._sent_topics, self._clock())
        # a static leader has returned; the group keeps its assignment (KIP-814)
        if reply.skip_assignment:
            self._leader.watch()
            self._sync([])
        else:
            self._heartbeat()

    def _on_late_join(self, reply: Reply, sent_id: str) -> None:
        """Handles a JoinGroup reply that came after the member gave up.

        The member that it created would block the group's rebalances, so this sends LeaveGroup for
        it.
        """
        if isinstance(reply, KafkaError) or sent_id or self._member.instance_id is not None:
            return
        target = self._coordinator.target
        if (
            target is not None
            and reply.member_id
            and reply.error_code in (0, KafkaError.MEMBER_ID_REQUIRED)
        ):
            message = self._leave_request(reply.member_id, "the client has given up this JoinGroup")
            self._urgent.append(
                Call(message, target, self._clock() + LEAVE_TIMEOUT_S, lambda reply: None)
            )

    # --- SyncGroup ---

    def _poll_leading(self, calls: list[Call], now: float) -> float:
        """As the leader, assigns when all topics are known or the wait for them is over."""
        wait_until = self._leader.ready_at(now)
        if now < wait_until:
            return wait_until
        try:
            assignments = self._leader.assign()
        except KafkaException as failure:
            self._reports.report("assignment", failure.args[0])
            self._join_at = now + self._assignor_backoff.next_s()
            self.state = State.UNJOINED
            self._reason = failure.args[0].str()
            return NEVER
        self._assignor_backoff.reset()
        self._sync(assignments)
        calls.extend(self._urgent)
        self._urgent.clear()
        return NEVER

    def _assign_before_leaving(self) -> None:
        """Assigns with the topics known so far, before the leader leaves.

        The coordinator rejects all commits until then, including the leader's last ones.
        """
        try:
            assignments = self._leader.assign()
        except KafkaException as failure:
            self._reports.report("assignment", failure.args[0])
            assignments = []  # only until this member has left
        self._sync(assignments)
        self._heartbeat()  # the application's revoke callback may take a while

    def _sync(self, assignments: list[SyncGroupRequest.Assignment]) -> None:
        target = self._coordinator.target
        # the coordinator has moved: this member has to join at the new one first
        if target is None:
            self.state = State.UNJOINED
            self._reason = self._reason or "the coordinator has moved"
            return
        self._stop_heartbeat()
        member = self._member
        message = SyncGroupRequest(
            group_id=member.group_id,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            protocol_type=self._settings.protocol_type,
            protocol_name=None if self._assignor is None else self._assignor.name,
            assignments=assignments,
        )
        self.state = State.SYNCING
        self._waits_in_broker = True
        serial, now = self._serial, self._clock()
        deadline = now + self._settings.session_timeout_s + MARGIN_S
        on_reply = lambda reply: self._if_current(serial, lambda: self._on_sync(reply, now))  # noqa: E731
        self._urgent.append(Call(message, target, deadline, on_reply))

    def _on_sync(self, reply: Reply, sent_at: float) -> None:
        self._waits_in_broker = False
        error = _error_of(reply)
        if error is None:
            error = self._check_sync(reply)
        if error is not None:
            self._alive_at = sent_at if error.code() == KafkaError._TIMED_OUT else self._clock()
            self._failed("SyncGroup", error)
            return
        assert self._assignor is not None
        try:
            keys = wire.unpack_assignment(reply.assignment)
        except KafkaException as problem:
            self._alive_at = self._clock()
            self._failed("SyncGroup", problem.args[0])
            return
        self._coordinator.answered()
        self._backoff.reset()
        self._reports.end()
        self._alive_at = self._clock()
        self.state = State.STABLE
        self._heartbeat()
        try:
            self._assignor.on_assignment(keys, self._member.generation)
        except Exception as problem:
            kind = type(problem).__name__
            text = f"assignor {self._assignor.name}: on_assignment() raised {kind}: {problem}"
            self._reports.report("assignment", KafkaError(KafkaError._FAIL, text))
        self._take(self._checked(keys))

    def _check_sync(self, reply: SyncGroupResponse) -> KafkaError | None:
        assert self._assignor is not None
        if reply.protocol_type in (None, self._settings.protocol_type) and reply.protocol_name in (
            None,
            self._assignor.name,
        ):
            return None
        synchronized = clean(f"{reply.protocol_type}/{reply.protocol_name}")
        text = f"the group synchronizes {synchronized}, but chose {self._assignor.name}"
        return KafkaError(KafkaError.INCONSISTENT_GROUP_PROTOCOL, text)

    def _checked(self, keys: Iterable[Key]) -> set[Key]:
        """The assigned partitions without topics that this member doesn't subscribe to."""
        asked, wanted = set(self._sent_topics), set(self._subscription.topics)
        keys = set(keys)
        foreign = {key for key in keys if key[0] not in asked}
        if foreign:
            shown = ", ".join(
                f"{clean(topic, NAME_MAX)} [{number}]" for topic, number in sorted(foreign)[:3]
            )
            text = f"the leader has assigned topics that this member doesn't subscribe to: {shown}"
            self._reports.report("assignment", KafkaError(KafkaError._INCONSISTENT, text))
        return {key for key in keys - foreign if key[0] in wanted}

    # --- from one assignment to the next ---

    def _take(self, assigned: set[Key]) -> None:
        """Revokes partitions that aren't assigned any more, then assigns new ones."""
        revoked = self._assignment - assigned
        added = assigned - self._assignment
        if not revoked:
            self._assign(added)
            return
        self._in_step = True
        serial = self._serial

        def done() -> None:
            self._on_revoked(revoked)
            self._ask_rejoin(f"{len(revoked)} partitions are revoked and free for others")
            self._assign(added)

        self._rebalance.revoke(revoked, lambda: self._if_current(serial, done))

    def _on_revoked(self, revoked: set[Key]) -> None:
        self._in_step = False
        self._assignment -= revoked

    def _assign(self, added: set[Key]) -> None:
        self._in_step = True
        self._changing = added
        serial = self._serial
        self._rebalance.assign(
            added,
            lambda: self._if_current(serial, lambda: self._on_assigned(added)),
            replaces=self._protocol == "EAGER",
        )

    def _on_assigned(self, added: set[Key]) -> None:
        self._in_step = False
        self._changing = set()
        self._assignment |= added

    # --- heartbeats ---

    @property
    def _heartbeat_timeout_s(self) -> float:
        """Short enough for another attempt, or another coordinator, within the session."""
        return max(min(self._settings.timeout_s, self._settings.session_timeout_s / 3), 0.1)

    def _heartbeat_request(self) -> HeartbeatRequest:
        member = self._member
        return HeartbeatRequest(
            group_id=member.group_id,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
        )

    def _heartbeat(self) -> None:
        """Starts the heartbeats by the broker's thread."""
        target = self._coordinator.target
        self._stop_heartbeat()
        if target is None:
            return
        self._heartbeating = target
        self._heartbeat_ok = True
        serial = self._heartbeat_serial
        self._pool.heartbeat(
            target,
            self._heartbeat_request(),
            self._settings.heartbeat_interval_s,
            self._heartbeat_timeout_s,
            lambda reply: self._on_heartbeat(reply, serial, None),
        )

    def _stop_heartbeat(self) -> None:
        self._heartbeat_serial += 1
        self._heartbeat_at = NEVER
        if self._heartbeating is not None:
            self._confirmed_at()
            self._pool.stop_heartbeat(self._heartbeating)
            self._heartbeating = None

    def _poll_heartbeat(self, calls: list[Call], now: float) -> float:
        """Sends the first heartbeat of a new connection; the broker's thread continues."""
        if now < self._heartbeat_at or self.state not in HEARTBEAT_STATES:
            return self._heartbeat_at
        self._heartbeat_at = NEVER
        target = self._coordinator.want(now)
        if target is not None:
            self._heartbeat_serial += 1
            serial = self._heartbeat_serial
            on_reply = lambda reply: self._on_heartbeat(reply, serial, now)  # noqa: E731
            calls.append(
                Call(self._heartbeat_request(), target, now + self._heartbeat_timeout_s, on_reply)
            )
        return NEVER

    def _confirmed_at(self) -> float:
        """When the coordinator last confirmed this member: the time of the request.

        The answer may have waited in a frozen process for longer than the session.
        """
        if self._heartbeating is not None and self._heartbeat_ok:
            self._alive_at = max(self._alive_at, self._pool.confirmed_at(self._heartbeating))
        return self._alive_at

    def _on_heartbeat(self, reply: Reply, serial: int, sent_at: float | None) -> None:
        """Handles an outcome. ``sent_at``: of the first heartbeat of a connection."""
        if serial != self._heartbeat_serial or self.state not in HEARTBEAT_STATES:
            return
        error, now = _error_of(reply), self._clock()
        code = KafkaError.NO_ERROR if error is None else error.code()
        if code in (KafkaError.NO_ERROR, KafkaError.REBALANCE_IN_PROGRESS):
            self._coordinator.answered()
            self._reports.end()
            self._heartbeat_ok = True
            if sent_at is not None:
                self._alive_at = max(self._alive_at, sent_at)
                self._heartbeat()
            if error is not None and self._reason is None:
                self._ask_rejoin("the group rebalances")
            return
        assert error is not None
        self._confirmed_at()
        self._heartbeat_ok = False
        if isinstance(reply, KafkaError):
            self._heartbeating = None
        if code in GENERATION_OVER_ERRORS or code == KafkaError.FENCED_INSTANCE_ID:
            self._failed("Heartbeat", error)
            return
        if not self._coordinator.note(error):
            self._reports.report("Heartbeat", error)
        if self._coordinator.target is None:
            self._stop_heartbeat()  # on_found continues
        elif self._heartbeating is None:
            self._heartbeat_at = now + self._settings.heartbeat_interval_s

    def _on_coordinator(self) -> None:
        """Sends a heartbeat to a new coordinator."""
        if self.state in HEARTBEAT_STATES and self._member.joined:
            self._stop_heartbeat()
            self._heartbeat_at = self._clock()

    def _poll_session(self, now: float) -> float:
        """Ends the membership if the coordinator hasn't replied for session.timeout.ms.

        The group has removed this member then.
        """
        if self.state not in HEARTBEAT_STATES or not self._member.joined:
            return NEVER
        ends_at = self._confirmed_at() + self._settings.session_timeout_s
        if now >= ends_at:
            ms = int((now - self._alive_at) * 1000)
            text = f"session timed out: the coordinator has not answered for {ms} ms"
            self._logger.warning("group %s: %s", self._member.group_id, text)
            self._member.member_id = ""
            self._lose(State.UNJOINED, text)
            return 0.0
        return ends_at

    # --- failures ---

    def _failed(self, what: str, error: KafkaError) -> None:
        """Handles the failure of a request and schedules the next JoinGroup."""
        code, now = error.code(), self._clock()
        if code == KafkaError.FENCED_INSTANCE_ID:
            self._fail(error)
            return
        error = self._explained(error)
        reason = f"{what} failed: {error.name()}"
        self._reports.log(what, error)
        is_over = code in GENERATION_OVER_ERRORS
        is_retriable = is_over or self._coordinator.note(error)
        at_once = is_over and self._backoff.failures < AT_ONCE
        pause_s = self._coordinator.pause_s(self._backoff)
        self._join_at = now if at_once else now + pause_s
        if code == KafkaError.UNKNOWN_MEMBER_ID:
            self._member.member_id = ""
            self._lose(State.UNJOINED, reason)
        elif code == KafkaError.ILLEGAL_GENERATION:
            self._lose(State.UNJOINED, reason)
        else:
            if not is_retriable:
                self._reports.report(what, error)
            self.state = State.UNJOINED
            self._reason = reason

    def _explained(self, error: KafkaError) -> KafkaError:
        """The error with its usual cause: a session timeout or a release that isn't possible."""
        if error.code() == KafkaError._UNSUPPORTED_FEATURE:
            return KafkaError(error.code(), f"{error.str()}: {NEEDS[GROUP]} or newer")
        if error.code() != KafkaError.INVALID_SESSION_TIMEOUT:
            return error
        timeout_ms = int(self._settings.session_timeout_s * 1000)
        text = (
            f"{error.str()}: session.timeout.ms={timeout_ms} isn't between "
            "the brokers' group.min.session.timeout.ms and group.max.session.timeout.ms "
            "(at most 30000 by default before Apache Kafka 0.10.1)"
        )
        return KafkaError(error.code(), text)

    def _fail(self, error: KafkaError) -> None:
        self._member.member_id = ""
        self._lose(State.FAILED)
        text = (
            f"group {self._member.group_id}: another member has taken over group.instance.id="
            f"{self._member.instance_id}: {error.str()}"
        )
        self._on_fatal(KafkaError(error.code(), text, fatal=True))

    # --- sessions in the group ---

    def _if_current(self, serial: int, work: Callable[[], None]) -> None:
        if serial == self._serial:
            work()

    def _end_session(self) -> None:
        """Ends the session in the group: later replies to it are ignored.

        Heartbeats go on until stopped.
        """
        self._serial += 1
        self._in_step = self._losing
        self._assignment = set()
        self._changing = set()
        self._reason = None
        self._leader.end()

    def _lose(self, then: State, reason: str | None = None) -> None:
        """Gives up all partitions as lost: other members may own them already."""
        self._stop_heartbeat()
        self._end_session()
        self._waits_in_broker = False
        self._member.generation = NO_GENERATION
        self.state = then
        self._reason = reason
        if not self._losing:
            self._in_step = self._losing = True
            self._rebalance.lose(self._on_lost)

    def _on_lost(self) -> None:
        self._in_step = self._losing = False

    # --- leaving ---

    def _on_all_revoked(self) -> None:
        self._in_step = False
        self._revoked_all = True
        self._leave_by = self._clock() + min(self._settings.timeout_s, LEAVE_TIMEOUT_S)

    def _poll_leaving(self, calls: list[Call], now: float) -> float:
        """Sends LeaveGroup once, if the coordinator is found in time.

        Otherwise the session times out.
        """
        if not self._revoked_all:
            return NEVER
        reason, serial = self._leave_reason, self._serial
        said = self._leave_sent
        if now >= self._leave_by or not (
            said or (self._member.member_id and self._member.instance_id is None)
        ):
            self._left()
            return 0.0
        if not said:
            self._coordinator.want(now)
            call = self._leave_call(reason, lambda reply: self._if_current(serial, self._left), now)
            if call is not None:
                self._leave_sent = True
                calls.append(call)
        return self._leave_by

    def _leave_call(
        self, reason: str, on_reply: Callable[[Reply], None], now: float
    ) -> Call | None:
        """A LeaveGroup call; None if there is no coordinator or the member is static."""
        target, member = self._coordinator.target, self._member
        if target is None or not member.member_id or member.instance_id is not None:
            return None
        self._stop_heartbeat()
        if self._waits_in_broker and target >= COORDINATORS:
            # The broker reads nothing behind a pending JoinGroup, so use another connection.
            target -= COORDINATORS
            self._waits_in_broker = False
        message = self._leave_request(member.member_id, reason)
        return Call(message, target, now + min(self._settings.timeout_s, LEAVE_TIMEOUT_S), on_reply)

    def _leave_request(self, member_id: str, reason: str) -> LeaveGroupRequest:
        leaving = LeaveGroupRequest.Member(
            member_id=member_id, reason=reason[:REASON_MAX_CHARACTERS]
        )
        return LeaveGroupRequest(
            group_id=self._member.group_id, member_id=member_id, members=[leaving]
        )

    def _left(self) -> None:
        self._stop_heartbeat()
        self._serial += 1
        self._revoked_all = False
        self._waits_in_broker = False
        self._member.member_id = ""
        self._member.generation = NO_GENERATION
        self._join_at = 0.0
        self.state = State.OUT if self.state is not State.FAILED else State.FAILED
        waiting, self._on_left = self._on_left, []
        if self._join_again:
            self._join_again = False
            self._enter(self._clock())
        for done in waiting:
            done()

    # --- topics ---

    def _on_topics(self) -> None:
        """Joins again if the topics that match have changed.

        (The leader watches the partition counts.)
        """
        if self.state in ACTIVE and self._subscription.topics != self._sent_topics:
            self._ask_rejoin("the topics that are subscribed to have changed")


def _error_of(reply: Reply) -> KafkaError | None:
    if isinstance(reply, KafkaError):
        return reply
    return KafkaError(reply.error_code) if reply.error_code else None
