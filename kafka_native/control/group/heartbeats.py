"""Heartbeats that carry everything: what members of the consumer protocol (KIP-848) and of share groups have in common.

There are two kinds of heartbeat. A full one says all that there is to say (subscription, timeout, what is owned) and
goes out as a call: to join, when the subscription or what is owned has changed, and after every failure, as its answer
holds the whole assignment again. In between, the broker's own thread repeats a short one (`BrokerPool.heartbeat`), and
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
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from kafka_native.control.errors import HEARTBEAT_FATAL_ERRORS, HEARTBEAT_RETRIABLE_ERRORS, MEMBER_FENCED_ERRORS
from kafka_native.control.group.membership import LEAVE_TIMEOUT_S, NO_GENERATION, GroupSettings, Reports
from kafka_native.control.requests import NEVER, Backoff, Call, Reply
from kafka_native.errors import KafkaError
from kafka_native.logs import Logger

if TYPE_CHECKING:
    from kafka_native.control.brokers.coordinator import Coordinator
    from kafka_native.control.brokers.pool import BrokerPool
    from kafka_native.control.group.membership import Member

JOIN_EPOCH = 0
LEAVE_EPOCH = -1

STEADY_S = 1.0
"""A member that was last fenced so long ago joins again at once."""
FIRST_INTERVAL_S = 5.0
"""Until the coordinator says another (its group.consumer.heartbeat.interval.ms, or group.share's)."""
INTERVAL_MIN_S = 0.1
"""However short an interval the coordinator asks for."""
INTERVAL_MAX_S = 60.0
"""However long an interval it asks for: assignments come with its answers. Sessions last 60 s at most by default."""
ANSWER_LEAST_S = 10.0
"""How long an answer may take, or three intervals if that is more; socket.timeout.ms at the most."""


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
class Heartbeat:
    """The short heartbeat that a broker's thread repeats."""

    target: int


class Heartbeats(ABC):
    """A member's heartbeats, and what their failures mean; the protocols say what is in them and what an answer does.

    `poll()` is what `requests.Manager` asks for.
    """

    api = ""
    """The heartbeat's name, for errors."""
    texts: dict[int, str] = {}  # noqa: RUF012 - read only
    """What fatal errors mean here, where their own text doesn't say it."""

    def __init__(
        self,
        member: Member,
        coordinator: Coordinator,
        pool: BrokerPool,
        settings: GroupSettings,
        *,
        on_error: Callable[[KafkaError], None],
        on_fatal: Callable[[KafkaError], None],
        logger: Logger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``on_error`` reaches the application through its next poll(), ``on_fatal`` ends the consumer."""
        self._member = member
        self._coordinator = coordinator
        self._pool = pool
        self._settings = settings
        self._backoff = Backoff(settings.retry_s, settings.retry_max_s)
        self._rejoins = Backoff(settings.retry_s, settings.retry_max_s)
        self._reports = Reports(member.group_id, on_error, logger, clock)
        self._on_fatal = on_fatal
        self._logger = logger
        self._clock = clock

        self.state = State.OUT
        self.interval_s = FIRST_INTERVAL_S
        self._serial = 0  # of this life in the group: what belongs to an earlier one is ignored
        self._send_at = NEVER  # a full heartbeat is due
        self._in_flight = False  # a full heartbeat is under way
        self._urgent: list[Call] = []
        self._heartbeating: Heartbeat | None = None
        self._on_left: list[Callable[[], None]] = []
        self._join_again = False  # subscribed while leaving
        self._said_goodbye = False
        self._join_at = 0.0
        self._fenced_at = -NEVER

        member.member_id = member.member_id or new_member_id()
        coordinator.on_found.append(self._on_coordinator)
        coordinator.on_refused.append(on_error)

    # --- what the protocols have to say ---

    @abstractmethod
    def _short(self, epoch: int) -> Any:
        """A heartbeat that says nothing new."""

    @abstractmethod
    def _full(self) -> Any:
        """A heartbeat that says everything."""

    @abstractmethod
    def _goodbye(self) -> Any:
        """The last heartbeat."""

    @abstractmethod
    def _take_answer(self, reply: Any) -> None:
        """What an answer without an error says besides the epoch."""

    @abstractmethod
    def _lose(self, then: State) -> None:
        """Out of the group, or as good as that: nothing is owned any more."""

    def _refused(self, error: KafkaError, message: Any) -> bool:
        """Whether the failure of a full heartbeat has been dealt with, and needs no more."""
        return False

    def _forget(self) -> None:  # noqa: B027 - share groups have nothing to forget
        """A life in the group has ended: what is known of it goes."""

    # --- sending ---

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
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
        self._stop_heartbeat()
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

    def _heartbeat(self) -> None:
        """Lets the broker's thread go on with short heartbeats, unless a full one is due."""
        target = self._coordinator.target
        if target is None or self._send_at != NEVER:
            return
        heartbeat = self._heartbeating = Heartbeat(target)
        serial = self._serial
        self._pool.heartbeat(
            target,
            self._short(self._member.generation),
            self.interval_s,
            self._answer_s,
            lambda reply: self._if_current(serial, lambda: self._on_heartbeat(heartbeat, reply)),
        )

    def _stop_heartbeat(self) -> None:
        if self._heartbeating is not None:
            self._pool.stop_heartbeat(self._heartbeating.target)
            self._heartbeating = None

    def _on_coordinator(self) -> None:
        """It was looked for, or is another one now: it hears everything, at once."""
        if self._heartbeats:
            self._stop_heartbeat()
            self._send_at = min(self._send_at, self._clock())

    def _say_goodbye(self, now: float, done: Callable[[Reply], None]) -> bool:
        """Leaves: once, and only where the coordinator is known; otherwise the session times out."""
        target = self._coordinator.target
        if target is None:
            return False
        self._stop_heartbeat()
        serial = self._serial
        deadline = now + min(self._settings.timeout_s, LEAVE_TIMEOUT_S)
        self._urgent.append(
            Call(self._goodbye(), target, deadline, lambda reply: self._if_current(serial, lambda: done(reply)))
        )
        return True

    # --- answers ---

    def _on_full(self, message: Any, reply: Reply) -> None:
        self._in_flight = False
        if not isinstance(reply, KafkaError):
            self._on_answer(reply)
        elif not self._refused(reply, message):
            self._failed(reply)

    def _on_heartbeat(self, heartbeat: Heartbeat, reply: Reply) -> None:
        if heartbeat is not self._heartbeating:
            return
        if isinstance(reply, KafkaError):
            self._heartbeating = None
            self._failed(reply)
            return
        before = self._member.generation, self.interval_s
        self._on_answer(reply)
        if self._heartbeating and (
            reply.assignment is not None or before != (self._member.generation, self.interval_s)
        ):
            self._stop_heartbeat()
            self._send_at = min(self._send_at, self._clock())

    def _on_answer(self, reply: Reply) -> None:
        if reply.error_code:
            if reply.error_code == KafkaError.STALE_MEMBER_EPOCH and reply.member_epoch > 0:
                self._member.generation = reply.member_epoch
            text = reply.error_message
            self._failed(KafkaError(reply.error_code, text) if text else KafkaError(reply.error_code))
            return
        if reply.member_epoch <= JOIN_EPOCH:  # sent back, it would ask for something else than to stay
            text = f"{self.api}: the coordinator answers with the epoch {reply.member_epoch}, which no member has"
            self._failed(KafkaError(KafkaError._BAD_MSG, text))
            return
        self._coordinator.answered()
        self._backoff.reset()
        self._reports.end()
        if reply.member_id:
            self._member.member_id = reply.member_id
        self._member.generation = reply.member_epoch
        if self.state is State.JOINING:
            self.state = State.JOINED
        if reply.heartbeat_interval_ms > 0:
            self._take_interval(reply.heartbeat_interval_ms / 1000)
        self._take_answer(reply)
        if self._heartbeating is None:
            self._heartbeat()

    def _take_interval(self, reported_s: float) -> None:
        interval_s = min(max(reported_s, INTERVAL_MIN_S), INTERVAL_MAX_S)
        if reported_s > INTERVAL_MAX_S and self.interval_s != interval_s:
            text = "group %s: the coordinator wants a heartbeat each %.0f s: one is sent each %.0f s"
            self._logger.warning(text, self._member.group_id, reported_s, interval_s)
        self.interval_s = interval_s

    def _failed(self, error: KafkaError) -> None:
        """A heartbeat wasn't answered, or with an error."""
        self._stop_heartbeat()
        now, code = self._clock(), error.code()
        if self.state is State.LEAVING and code in MEMBER_FENCED_ERRORS | HEARTBEAT_FATAL_ERRORS:
            self._member.generation = JOIN_EPOCH  # out already; the callback isn't interrupted
        elif code in MEMBER_FENCED_ERRORS:
            self._reports.note("fenced, joining again", error)
            self._join_at = now + self._rejoin_pause_s(now)
            self._lose(State.LOSING)
        elif code in HEARTBEAT_FATAL_ERRORS:
            self._fail(error)
        elif code == KafkaError._DESTROY:
            pass  # the client closes
        elif self._coordinator.note(error):
            self._send_at = now if self._coordinator.target is None else now + self._backoff.next_s()
        elif code == KafkaError.INVALID_REGULAR_EXPRESSION:
            self._report(error)
            self._send_at = NEVER  # until the subscription is another one
            if self._member.joined:
                self._heartbeat()
        elif code in HEARTBEAT_RETRIABLE_ERRORS:
            self._send_at = now + self._backoff.next_s()
        else:
            self._report(error)
            self._send_at = now + max(self.interval_s, self._backoff.next_s())

    def _rejoin_pause_s(self, now: float) -> float:
        """A fenced member joins at once. One that is fenced again and again, each time after it has joined, waits."""
        if self.state is not State.JOINED:
            return self._backoff.next_s()
        steady_s, self._fenced_at = now - self._fenced_at, now
        if steady_s < STEADY_S:
            return self._rejoins.next_s()
        self._rejoins.reset()
        return 0.0

    def _report(self, error: KafkaError) -> None:
        self._reports.tell(self.api, error)

    def _fail(self, error: KafkaError) -> None:
        self._lose(State.FAILED)
        text = f"group {self._member.group_id}: {self.texts.get(error.code()) or error.str()}"
        self._on_fatal(KafkaError(error.code(), text, fatal=True))

    # --- lives ---

    def _if_current(self, serial: int, work: Callable[[], None]) -> None:
        if serial == self._serial:
            work()

    def _next_life(self) -> None:
        """Answers and steps of the life before are of no interest any more. Short heartbeats go on until stopped."""
        self._serial += 1
        self._in_flight = False
        self._send_at = NEVER
        self._forget()

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

    def _join(self, at: float) -> None:
        self._stop_heartbeat()
        self._next_life()
        self.state = State.JOINING
        self._member.generation = JOIN_EPOCH
        self._send_at = at

    def quit(self, reason: str, done: Callable[[], None], now: float) -> None:
        """The application is gone: says good-bye, and nothing else from now on. The protocol has no field for why."""
        is_member = self.state in (State.JOINED, State.JOINING, State.LEAVING) and not self._said_goodbye
        self._next_life()
        self.state = State.OUT
        if not is_member or not self._say_goodbye(now, lambda reply: done()):
            done()

    def close(self) -> None:
        """Nothing more is sent; who waits for `leave()` hears of it."""
        self._next_life()
        self._stop_heartbeat()
        self._left()


def new_member_id() -> str:
    """An id that the client makes up for itself (KIP-1082): a random UUID in Kafka's own spelling."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):  # would be taken for an option by command line tools
            return text
