"""Membership of a group in the consumer protocol (KIP-848): the coordinator assigns, and heartbeats carry everything.

There are two kinds of heartbeat. A full one says all that there is to say (subscription, timeout, what is owned) and
goes out as a call: to join, when the subscription or what is owned has changed, and after every failure, as its answer
holds the whole assignment again. In between, the broker's own thread repeats a short one (`BrokerPool.beat()`), and
what its answers say anew comes back here.

- They take turns. Short ones begin with the answer to a full one, and whatever an answer to a short one changes ends
  them and makes a full one due: so no answer to a heartbeat that was already replaced is ever missed, and none goes
  out with an epoch that the coordinator has moved on from.
- While the application keeps the interpreter to itself, that can't be helped: an answer waits here, and the broker's
  thread goes on with the old epoch. A coordinator takes that one only from a member that owns no more than it should;
  therefore short ones, too, name what is owned, though nothing has changed.

Thread: the control thread only.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from kafka_native.control.backoff import Backoff
from kafka_native.control.calls import NEVER, Call, Reply
from kafka_native.control.member import NO_GENERATION
from kafka_native.control.membership import LEAVE_TIMEOUT_S, REPORT_EVERY_S, GroupSettings, Reports
from kafka_native.control.positions import Key
from kafka_native.errors import KafkaError
from kafka_native.logs import Logger
from kafka_native.protocol.groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from kafka_native.control.brokers import BrokerPool
    from kafka_native.control.coordinator import Coordinator
    from kafka_native.control.member import Member
    from kafka_native.control.metadata import Metadata
    from kafka_native.control.rebalance import Rebalance
    from kafka_native.control.subscription import Subscription

Heartbeat: TypeAlias = ConsumerGroupHeartbeatRequest

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_FOR_A_WHILE_EPOCH = -2
"""Of a static member: what it owned stays its own until the session times out."""

FIRST_INTERVAL_S = 5.0
"""Until the coordinator says another (its group.consumer.heartbeat.interval.ms)."""
INTERVAL_LEAST_S = 0.1
"""However short an interval the coordinator asks for."""
ANSWER_LEAST_S = 10.0
"""How long an answer may take, or three intervals if that is more; socket.timeout.ms at the most."""

FENCED = frozenset({KafkaError.FENCED_MEMBER_EPOCH, KafkaError.UNKNOWN_MEMBER_ID})
"""Somebody else may own the partitions already: they are lost, and the member joins anew under the same id."""

FATAL = frozenset(
    {
        KafkaError.INVALID_REQUEST,
        KafkaError.INVALID_GROUP_ID,
        KafkaError.GROUP_ID_NOT_FOUND,
        KafkaError.GROUP_MAX_SIZE_REACHED,
        KafkaError.UNSUPPORTED_ASSIGNOR,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError._UNSUPPORTED_FEATURE,
        KafkaError.UNRELEASED_INSTANCE_ID,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""As in librdkafka. Asking again can't help, or (UNRELEASED_INSTANCE_ID) would take what another instance is using."""

TRANSIENT = frozenset(
    {
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Tried again, and nobody is told."""

_TOO_OLD = "the broker doesn't speak the consumer group protocol (KIP-848); use group.protocol=classic"
_TEXTS = {
    KafkaError.UNSUPPORTED_VERSION: _TOO_OLD,
    KafkaError._UNSUPPORTED_FEATURE: _TOO_OLD,
    KafkaError.GROUP_ID_NOT_FOUND: "the group is there already and can't change to the consumer protocol; "
    "use group.protocol=classic or another group.id",
    KafkaError.UNRELEASED_INSTANCE_ID: "another member of the group uses this group.instance.id, "
    "or one did and its session has not timed out yet",
}


class State(Enum):
    """Where the member is on its way into the group and out."""

    OUT = "not subscribed"
    JOINING = "joining"
    JOINED = "a member"
    LOSING = "its partitions are lost, then it joins"
    STALE = "out until the application polls again"
    LEAVING = "its partitions are revoked, then it leaves"
    FAILED = "a fatal error"


@dataclass(slots=True, eq=False)
class Beat:
    """The short heartbeat that a broker's thread repeats."""

    target: int


class ConsumerMembership:
    """One member of one group. See `control.membership.Membership`."""

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
        """``assignor``: group.remote.assignor, None leaves it to the broker.

        ``on_error`` reaches the application through its next poll(), ``on_fatal`` ends the consumer.
        """
        self._member = member
        self._coordinator = coordinator
        self._pool = pool
        self._metadata = metadata
        self._subscription = subscription
        self._rebalance = rebalance
        self._settings = settings
        self._backoff = Backoff(settings.retry_s, settings.retry_most_s)
        self._assignor = assignor
        self._reports = Reports(member.group_id, on_error, clock)
        self._on_fatal = on_fatal
        self._logger = logger
        self._clock = clock

        self.state = State.OUT
        self.interval_s = FIRST_INTERVAL_S
        self._subscribed_once = False
        self._regex_sent = False
        self._serial = 0  # of this life in the group: what belongs to an earlier one is ignored
        self._send_at = NEVER  # a full heartbeat is due
        self._in_flight = False  # a full heartbeat is under way
        self._urgent: list[Call] = []
        self._beating: Beat | None = None
        self._owned: dict[Key, bytes] = {}  # with the topics' ids
        self._target: dict[bytes, list[int]] | None = None  # what the coordinator has assigned
        self._unnamed: set[bytes] = set()
        self._changing: set[Key] = set()  # what the step under way assigns
        self._in_step = False
        self._on_left: list[Callable[[], None]] = []
        self._join_again = False  # subscribed while leaving
        self._said_goodbye = False
        self._join_at = 0.0

        member.member_id = member.member_id or new_member_id()
        coordinator.on_found.append(self._on_coordinator)
        coordinator.on_refused.append(on_error)
        subscription.on_change.append(self._on_topics)
        metadata.on_names.append(self._on_names)

    @property
    def assignor_protocol(self) -> str:
        """``COOPERATIVE`` from the first subscription on, ``NONE`` before, as librdkafka has it."""
        return "COOPERATIVE" if self._subscribed_once else "NONE"

    @property
    def rebalance_reason(self) -> str:
        """Unknown: the coordinator decides."""
        return ""

    # --- what the application does ---

    def subscribe(self, now: float) -> None:
        """The subscription is another one: join with it, or tell it."""
        self._subscribed_once = True
        if self.state is State.OUT:
            self._join(now)
        elif self.state in (State.JOINING, State.JOINED):
            self._send_at = now
        elif self.state is State.LEAVING:
            self._join_again = True

    def leave(self, reason: str, done: Callable[[], None], now: float) -> None:
        """Has everything revoked, then leaves. ``done`` comes when the coordinator knows, or can't be told.

        A static member says that it comes back. The protocol has no field for the reason.
        """
        if self.state in (State.OUT, State.FAILED):
            done()
            return
        self._on_left.append(done)
        self._join_again = False
        if self.state is State.LEAVING:
            return
        self._logger.debug("leaving group %s: %s", self._member.group_id, reason)
        # A member until the application has given up everything: what it commits then has to be of the current epoch.
        was_in = self.state in (State.JOINED, State.JOINING)
        if not self._member.joined:
            self._send_at = NEVER
        self.state = State.LEAVING
        self._target = None
        serial = self._serial
        going = set(self._owned) | self._changing
        self._rebalance.revoke(going, lambda: self._if_current(serial, lambda: self._revoked_all(was_in)))

    def rejoin(self, reason: str, now: float) -> None:
        """Joins again if it is out because the application didn't poll; a member tells everything once more."""
        self._logger.debug("group %s: %s", self._member.group_id, reason)
        if self.state is State.STALE:
            self.state = State.LOSING
            if not self._in_step:
                self._join(now)
        elif self.state is State.JOINED:
            self._send_at = now

    def on_poll_exceeded(self, now: float) -> None:
        """The application has not polled for max.poll.interval.ms: leaves, partitions are lost; see rejoin()."""
        if self.state in (State.JOINED, State.JOINING):
            self._say_goodbye(now, lambda reply: None)
            self._lose(State.STALE)
        elif self.state is State.LEAVING and not self._said_goodbye:  # its callback would have been called in a poll()
            self._rebalance.lose(lambda: None)
            self._revoked_all(True)

    def close(self) -> None:
        """Nothing more is sent; who waits for `leave()` hears of it."""
        self._next_life()
        self._stop_beat()
        self._left()

    # --- heartbeats ---

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `calls.Manager`."""
        calls, self._urgent = self._urgent, []
        if not self._heartbeats or self._in_flight:
            return calls, NEVER
        if now < self._send_at:
            return calls, self._send_at
        target = self._coordinator.want(now)
        if target is None:
            return calls, NEVER  # on_found tells
        self._send_at = NEVER
        self._in_flight = True
        self._stop_beat()
        serial, message = self._serial, self._full()
        calls.append(
            Call(
                message,
                target,
                now + self._answer_s,
                lambda reply: self._if_current(serial, lambda: self._on_full(message, reply)),
            )
        )
        return calls, NEVER

    @property
    def _heartbeats(self) -> bool:
        """Whether there is a member, or one to be, whose heartbeats go out."""
        return self.state in (State.JOINING, State.JOINED) or (self.state is State.LEAVING and self._member.joined)

    @property
    def _answer_s(self) -> float:
        return min(self._settings.timeout_s, max(ANSWER_LEAST_S, 3 * self.interval_s))

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
        message.subscribed_topic_names = subscription.names if subscription.server_side else list(subscription.topics)
        if subscription.server_side and (patterns or self._regex_sent):
            message.subscribed_topic_regex = server_regex(patterns)
            self._regex_sent = True
        return message

    def _owned_partitions(self) -> list[Heartbeat.TopicPartitions]:
        by_id: dict[bytes, list[int]] = {}
        for (_, number), topic_id in sorted(self._owned.items()):
            by_id.setdefault(topic_id, []).append(number)
        return [Heartbeat.TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in by_id.items()]

    def _beat(self) -> None:
        """Lets the broker's thread go on with short heartbeats, unless a full one is due."""
        target = self._coordinator.target
        if target is None or self._send_at != NEVER:
            return
        beat = self._beating = Beat(target)
        serial = self._serial
        self._pool.beat(
            target,
            self._short(self._member.generation),
            self.interval_s,
            self._answer_s,
            lambda reply: self._if_current(serial, lambda: self._on_beat(beat, reply)),
        )

    def _stop_beat(self) -> None:
        if self._beating is not None:
            self._pool.stop_beat(self._beating.target)
            self._beating = None

    def _on_coordinator(self) -> None:
        """It was looked for, or is another one now: it hears everything, at once."""
        if self._heartbeats:
            self._stop_beat()
            self._send_at = min(self._send_at, self._clock())

    def _on_full(self, message: Heartbeat, reply: Reply) -> None:
        self._in_flight = False
        if isinstance(reply, KafkaError):
            if reply.code() == KafkaError._INVALID_ARG and message.subscribed_topic_regex is not None:
                self._match_here()
            else:
                self._failed(reply)
        else:
            self._on_answer(reply)

    def _on_beat(self, beat: Beat, reply: Reply) -> None:
        if beat is not self._beating:
            return
        if isinstance(reply, KafkaError):
            self._beating = None
            self._failed(reply)
            return
        before = self._member.generation, self.interval_s
        self._on_answer(reply)
        if self._beating and (reply.assignment is not None or before != (self._member.generation, self.interval_s)):
            self._stop_beat()
            self._send_at = min(self._send_at, self._clock())

    def _match_here(self) -> None:
        """The broker (Apache Kafka before 4.0) knows no patterns: they are matched here, as in the classic protocol."""
        self._logger.info("group %s: the broker doesn't match patterns, the client does", self._member.group_id)
        self._subscription.server_side = False
        self._regex_sent = False
        now = self._clock()
        try:
            self._subscription.replace(self._subscription.wanted, now)
        except ValueError as error:
            self._report(KafkaError(KafkaError.INVALID_REGULAR_EXPRESSION, str(error)))
        self._send_at = now

    # --- answers ---

    def _on_answer(self, reply: ConsumerGroupHeartbeatResponse) -> None:
        if reply.error_code:
            if reply.error_code == KafkaError.STALE_MEMBER_EPOCH and reply.member_epoch > 0:
                self._member.generation = reply.member_epoch
            text = reply.error_message
            self._failed(KafkaError(reply.error_code, text) if text else KafkaError(reply.error_code))
            return
        self._coordinator.answered()
        self._backoff.reset()
        if reply.member_id:
            self._member.member_id = reply.member_id
        self._member.generation = reply.member_epoch
        if self.state is State.JOINING:
            self.state = State.JOINED
        if reply.heartbeat_interval_ms > 0:
            self.interval_s = max(reply.heartbeat_interval_ms / 1000, INTERVAL_LEAST_S)
        if reply.assignment is not None and self.state is State.JOINED:
            self._target = {each.topic_id: list(each.partitions) for each in reply.assignment.topic_partitions}
        self._reconcile()
        if self._beating is None:
            self._beat()

    def _failed(self, error: KafkaError) -> None:
        """A heartbeat wasn't answered, or with an error."""
        self._stop_beat()
        now, code = self._clock(), error.code()
        if self.state is State.LEAVING and code in FENCED | FATAL:
            self._member.generation = JOIN_EPOCH  # out already; the callback isn't interrupted
        elif code in FENCED:
            self._logger.info("group %s: fenced (%s), joining again", self._member.group_id, error.name())
            self._join_at = now if self.state is State.JOINED else now + self._backoff.next_s()
            self._lose(State.LOSING)
        elif code in FATAL:
            self._fail(error)
        elif code == KafkaError._DESTROY:
            pass  # the client closes
        elif self._coordinator.note(error):
            self._send_at = now if self._coordinator.target is None else now + self._backoff.next_s()
        elif code == KafkaError.INVALID_REGULAR_EXPRESSION:
            self._report(error)
            self._send_at = NEVER  # until the subscription is another one
            if self._member.joined:
                self._beat()
        elif code in TRANSIENT:
            self._send_at = now + self._backoff.next_s()
        else:
            self._report(error)
            self._send_at = now + max(self.interval_s, self._backoff.next_s())

    def _report(self, error: KafkaError) -> None:
        self._reports.tell("ConsumerGroupHeartbeat", error, max(REPORT_EVERY_S, self.interval_s))

    def _fail(self, error: KafkaError) -> None:
        self._lose(State.FAILED)
        text = f"group {self._member.group_id}: {_TEXTS.get(error.code()) or error.str()}"
        self._on_fatal(KafkaError(error.code(), text, fatal=True))

    # --- lives ---

    def _if_current(self, serial: int, work: Callable[[], None]) -> None:
        if serial == self._serial:
            work()

    def _next_life(self) -> None:
        """Answers and steps of the life before are of no interest any more. Short heartbeats go on until stopped."""
        self._serial += 1
        self._in_flight = False
        self._in_step = False
        self._changing = set()
        self._send_at = NEVER
        self._metadata.unresolve(self._unnamed)
        self._unnamed = set()
        self._target = None

    def _join(self, at: float) -> None:
        self._stop_beat()
        self._next_life()
        self._owned.clear()
        self.state = State.JOINING
        self._member.generation = JOIN_EPOCH
        self._send_at = at

    def _lose(self, then: State) -> None:
        """Out of the group, or as good as that: nothing is owned any more."""
        self._stop_beat()
        self._next_life()
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
        self._next_life()
        self._owned.clear()
        self._stop_beat()
        self._said_goodbye = True
        if not was_in or not self._say_goodbye(self._clock(), lambda reply: self._left()):
            self._left()

    def _say_goodbye(self, now: float, done: Callable[[Reply], None]) -> bool:
        """Leaves: once, and only where the coordinator is known; otherwise the session times out."""
        target = self._coordinator.target
        if target is None:
            return False
        self._stop_beat()
        epoch = LEAVE_EPOCH if self._member.instance_id is None else LEAVE_FOR_A_WHILE_EPOCH
        message = self._short(epoch)
        message.topic_partitions = None
        serial = self._serial
        deadline = now + min(self._settings.timeout_s, LEAVE_TIMEOUT_S)
        self._urgent.append(
            Call(message, target, deadline, lambda reply: self._if_current(serial, lambda: done(reply)))
        )
        return True

    def _left(self) -> None:
        self.state = State.OUT
        self._said_goodbye = False
        self._member.generation = NO_GENERATION
        waiting, self._on_left = self._on_left, []
        if self._join_again:
            self._join_again = False
            self._join(self._clock())
        for done in waiting:
            done()

    # --- from one assignment to the next ---

    def _on_topics(self) -> None:
        """Another topic matches a pattern, or one is gone: of interest only where the client has to match."""
        matched_here = not self._subscription.server_side and self._subscription.patterns
        if matched_here and self.state in (State.JOINING, State.JOINED):
            self._send_at = min(self._send_at, self._clock())

    def _on_names(self) -> None:
        if self._unnamed:
            self._reconcile()

    def _reconcile(self) -> None:
        """Makes the next step from what is owned to what is assigned: revokes, or else assigns; then tells.

        A newer assignment is taken up after the step under way.
        """
        if self._in_step or self._target is None or self.state is not State.JOINED:
            return
        wanted = self._named(self._target)
        revoked = [key for key, topic_id in self._owned.items() if wanted.get(key) != topic_id]
        added = {key: topic_id for key, topic_id in wanted.items() if key not in self._owned}
        serial = self._serial
        if revoked:
            self._in_step = True
            self._rebalance.revoke(revoked, lambda: self._if_current(serial, lambda: self._end_step(revoked, {})))
        elif added:
            self._in_step = True
            self._changing = set(added)
            self._rebalance.assign(added, lambda: self._if_current(serial, lambda: self._end_step((), added)))

    def _end_step(self, revoked: Iterable[Key], added: dict[Key, bytes]) -> None:
        self._in_step = False
        self._changing = set()
        for key in revoked:
            self._owned.pop(key, None)
        self._owned.update(added)
        self._send_at = min(self._send_at, self._clock())
        self._reconcile()

    def _named(self, assigned: dict[bytes, list[int]]) -> dict[Key, bytes]:
        """The assignment by name. What has no name yet is asked for, and taken up once it has."""
        names = {topic_id: name for (name, _), topic_id in self._owned.items()}
        found: dict[Key, bytes] = {}
        unnamed = set()
        for topic_id, numbers in assigned.items():
            name = names.get(topic_id) or self._metadata.name_of(topic_id)
            if name is None:
                unnamed.add(topic_id)
            else:
                found.update(((name, number), topic_id) for number in numbers if number >= 0)
        if unnamed - self._unnamed:
            self._logger.info("group %s: %d assigned topics have no name here yet", self._member.group_id, len(unnamed))
        self._metadata.unresolve(self._unnamed - unnamed)
        self._unnamed = unnamed
        if unnamed:
            self._metadata.resolve(unnamed, self._clock())
        return found


def new_member_id() -> str:
    """An id that the client makes up for itself (KIP-1082): a random UUID in Kafka's own spelling."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):  # would be taken for an option by command line tools
            return text


def server_regex(patterns: Iterable[str]) -> str:
    """One RE2 expression that matches a whole topic name wherever one of the patterns is found in it; "" for none.

    The broker compares whole names, the classic protocol and librdkafka search in them: ``^orders`` means
    orders-eu, too.
    """
    patterns = list(patterns)
    return ".*(?:" + "|".join(f"(?:{each})" for each in patterns) + ").*" if patterns else ""
