"""Heartbeats as the whole protocol: shared by the consumer protocol (KIP-848) and share groups.

There are two kinds of heartbeat. A full heartbeat contains everything: the subscription, the
timeout, the owned partitions. The control thread sends it to join, after a change of the
subscription or of the owned partitions, and after every failure. Its reply contains the whole
assignment. Between full heartbeats, the broker's own thread repeats a short one
(`BrokerPool.heartbeat`). Its replies come back here if they contain something new.

- The two kinds alternate. Short heartbeats start after the reply to a full one. If a reply to a
  short one changes anything, they stop and a full one is due. So no reply to a replaced heartbeat
  is missed, and none is sent with an outdated epoch.
- There is one exception. While the application holds the interpreter, a reply waits here, and the
  broker's thread repeats the old epoch. A coordinator accepts the old epoch only from a member that
  owns no more than its assignment. Therefore short heartbeats also contain the owned partitions,
  although they haven't changed.

Thread: the control thread only.
"""

from __future__ import annotations

import base64
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

from kafka_native.control.errors import (
    HEARTBEAT_FATAL_ERRORS,
    HEARTBEAT_RETRIABLE_ERRORS,
    MEMBER_FENCED_ERRORS,
)
from kafka_native.control.group.membership import (
    LEAVE_TIMEOUT_S,
    NO_GENERATION,
    GroupSettings,
    Reports,
)
from kafka_native.control.requests import NEVER, Backoff, Call, Reply
from kafka_native.errors import KafkaError
from kafka_native.logs import Logger
from kafka_native.protocol.schema import Request

if TYPE_CHECKING:
    from kafka_native.control.brokers.coordinator import Coordinator
    from kafka_native.control.brokers.pool import BrokerPool
    from kafka_native.control.group.membership import Member

JOIN_EPOCH = 0
LEAVE_EPOCH = -1

STEADY_S = 1.0
"""A member joins again at once if it was last fenced longer ago than this."""
FIRST_INTERVAL_S = 5.0
"""The first interval, until the coordinator sends its own.

The brokers' property is group.consumer.heartbeat.interval.ms, or group.share.heartbeat.interval.ms.
"""
INTERVAL_MIN_S = 0.1
"""The minimum interval, whatever the coordinator sends."""
INTERVAL_MAX_S = 60.0
"""The maximum interval, whatever the coordinator sends.

Assignments arrive with the replies. By default, sessions last at most 60 s.
"""
ANSWER_LEAST_S = 10.0
"""The minimum timeout for a reply.

The timeout is three intervals if that is longer, and at most socket.timeout.ms.
"""

M = TypeVar("M", bound=Request)
"""The heartbeat request of a protocol."""
R = TypeVar("R")
"""The heartbeat response of a protocol."""


class State(Enum):
    """The member's state, from joining to leaving."""

    OUT = "not subscribed"
    JOINING = "joining"
    JOINED = "a member"
    LOSING = "its partitions are lost, then it joins"
    STALE = "out until the application polls again"
    LEAVING = "its partitions are revoked, then it leaves"
    FAILED = "a fatal error"


class Heartbeat:
    """The short heartbeat that a broker's thread repeats."""

    def __init__(
        self,
        target: int,
    ) -> None:
        """Stores the arguments."""
        self.target = target


class Heartbeats(ABC, Generic[M, R]):
    """Sends a member's heartbeats and handles their failures.

    The subclasses make the requests and apply the replies. `poll()` is that of `requests.Manager`.
    """

    api = ""
    """The name of the request, for errors."""
    texts: dict[int, str] = {}  # noqa: RUF012 - read only
    """Texts of fatal errors that are clearer than the error's own text."""

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
        """``on_error`` reports to the application's next poll(); ``on_fatal`` ends the consumer."""
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
        # number of the current session in the group: replies to earlier ones are ignored
        self._serial = 0
        self._send_at = NEVER  # when a full heartbeat is due
        self._in_flight = False  # a full heartbeat is in flight
        self._urgent: list[Call] = []
        self._heartbeating: Heartbeat | None = None
        self._on_left: list[Callable[[], None]] = []
        self._join_again = False  # subscribed while leaving
        self._leave_sent = False
        self._join_at = 0.0
        self._fenced_at = -NEVER

        member.member_id = member.member_id or new_member_id()
        coordinator.on_found.append(self._on_coordinator)
        coordinator.on_refused.append(on_error)

    @property
    def rebalance_reason(self) -> str:
        """Always empty: only the coordinator knows it."""
        return ""

    def subscribe(self, now: float) -> None:
        """Joins with the new subscription, or sends it with the next heartbeat."""
        if self.state is State.OUT:
            self._join(now)
        elif self.state in (State.JOINING, State.JOINED):
            self._send_at = now
        elif self.state is State.LEAVING:
            self._join_again = True

    # --- for subclasses ---

    @abstractmethod
    def _short(self, epoch: int) -> M:
        """Makes a heartbeat without changes."""

    @abstractmethod
    def _full(self) -> M:
        """Makes a heartbeat that contains everything."""

    @abstractmethod
    def _last_heartbeat(self) -> M:
        """Makes the last heartbeat, which leaves the group."""

    @abstractmethod
    def _take_answer(self, reply: R) -> None:
        """Applies a successful reply, except for its epoch."""

    @abstractmethod
    def _lose(self, then: State) -> None:
        """Gives up all partitions as lost, because the member is, or may be, out of the group."""

    def _has_news(self, reply: Reply) -> bool:
        """Whether the reply to a short heartbeat needs a full one as its answer."""
        return reply.assignment is not None

    def _refused(self, error: KafkaError, message: M) -> bool:
        """Whether the subclass has handled the failure of a full heartbeat."""
        return False

    def _forget(self) -> None:
        """Drops the state of the session that has ended."""

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
            return calls, NEVER  # on_found continues
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
        """Whether the member, or one that is joining, sends heartbeats."""
        return self.state in (State.JOINING, State.JOINED) or (
            self.state is State.LEAVING and self._member.joined
        )

    @property
    def _answer_s(self) -> float:
        return min(self._settings.timeout_s, max(ANSWER_LEAST_S, 3 * self.interval_s))

    def _heartbeat(self) -> None:
        """Starts short heartbeats by the broker's thread, unless a full one is due."""
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
        """Sends a full heartbeat to a new coordinator at once."""
        if self._heartbeats:
            self._stop_heartbeat()
            self._send_at = min(self._send_at, self._clock())

    def _send_leave(self, now: float, done: Callable[[Reply], None]) -> bool:
        """Sends the last heartbeat, if the coordinator is known.

        Otherwise the session times out.
        """
        target = self._coordinator.target
        if target is None:
            return False
        self._stop_heartbeat()
        serial = self._serial
        deadline = now + min(self._settings.timeout_s, LEAVE_TIMEOUT_S)
        self._urgent.append(
            Call(
                self._last_heartbeat(),
                target,
                deadline,
                lambda reply: self._if_current(serial, lambda: done(reply)),
            )
        )
        return True

    # --- answers ---

    def _on_full(self, message: M, reply: Reply) -> None:
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
            self._has_news(reply) or before != (self._member.generation, self.interval_s)
        ):
            self._stop_heartbeat()
            self._send_at = min(self._send_at, self._clock())

    def _on_answer(self, reply: Reply) -> None:
        if reply.error_code:
            if reply.error_code == KafkaError.STALE_MEMBER_EPOCH and reply.member_epoch > 0:
                self._member.generation = reply.member_epoch
            text = reply.error_message
            self._failed(
                KafkaError(reply.error_code, text) if text else KafkaError(reply.error_code)
            )
            return
        # sent back to the coordinator, it would mean join or leave
        if reply.member_epoch <= JOIN_EPOCH:
            text = f"{self.api}: the coordinator answers with the epoch {reply.member_epoch}, "
            text += "which is invalid"
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
            text = "group %s: the coordinator asks for a heartbeat every %.0f s: "
            text += "the client sends one every %.0f s"
            self._logger.warning(text, self._member.group_id, reported_s, interval_s)
        self.interval_s = interval_s

    def _failed(self, error: KafkaError) -> None:
        """Handles a heartbeat that got no reply or an error."""
        self._stop_heartbeat()
        now, code = self._clock(), error.code()
        if self.state is State.LEAVING and code in MEMBER_FENCED_ERRORS | HEARTBEAT_FATAL_ERRORS:
            # it isn't a member any more; the revoke callback still runs to its end
            self._member.generation = JOIN_EPOCH
        elif code in MEMBER_FENCED_ERRORS:
            self._reports.log("fenced, joining again", error)
            self._join_at = now + self._rejoin_pause_s(now)
            self._lose(State.LOSING)
        elif code in HEARTBEAT_FATAL_ERRORS:
            self._fail(error)
        elif code == KafkaError._DESTROY:
            pass  # the client closes
        elif self._coordinator.note(error):
            self._send_at = now + self._coordinator.pause_s(self._backoff)
        elif code == KafkaError.INVALID_REGULAR_EXPRESSION:
            self._report(error)
            self._send_at = NEVER  # until the subscription changes
            if self._member.joined:
                self._heartbeat()
        elif code in HEARTBEAT_RETRIABLE_ERRORS:
            self._send_at = now + self._backoff.next_s()
        else:
            self._report(error)
            self._send_at = now + max(self.interval_s, self._backoff.next_s())

    def _rejoin_pause_s(self, now: float) -> float:
        """The delay before a fenced member joins again: 0, unless it was fenced shortly before."""
        if self.state is not State.JOINED:
            return self._backoff.next_s()
        steady_s, self._fenced_at = now - self._fenced_at, now
        if steady_s < STEADY_S:
            return self._rejoins.next_s()
        self._rejoins.reset()
        return 0.0

    def _report(self, error: KafkaError) -> None:
        self._reports.report(self.api, error)

    def _fail(self, error: KafkaError) -> None:
        self._lose(State.FAILED)
        text = f"group {self._member.group_id}: {self.texts.get(error.code()) or error.str()}"
        self._on_fatal(KafkaError(error.code(), text, fatal=True))

    # --- sessions in the group ---

    def _if_current(self, serial: int, work: Callable[[], None]) -> None:
        if serial == self._serial:
            work()

    def _end_session(self) -> None:
        """Ends the session in the group: later replies to it are ignored.

        Short heartbeats go on.
        """
        self._serial += 1
        self._in_flight = False
        self._send_at = NEVER
        self._forget()

    def _left(self) -> None:
        self.state = State.OUT
        self._leave_sent = False
        self._member.generation = NO_GENERATION
        waiting, self._on_left = self._on_left, []
        if self._join_again:
            self._join_again = False
            self._join(self._clock())
        for done in waiting:
            done()

    def _join(self, at: float) -> None:
        self._stop_heartbeat()
        self._end_session()
        self.state = State.JOINING
        self._member.generation = JOIN_EPOCH
        self._send_at = at

    def quit(self, reason: str, done: Callable[[], None], now: float) -> None:
        """Leaves the group and sends nothing more. The protocol has no field for the reason."""
        is_member = (
            self.state in (State.JOINED, State.JOINING, State.LEAVING) and not self._leave_sent
        )
        self._end_session()
        self.state = State.OUT
        if not is_member or not self._send_leave(now, lambda reply: done()):
            done()

    def close(self) -> None:
        """Stops all requests and calls the functions that wait for `leave()`."""
        self._end_session()
        self._stop_heartbeat()
        self._left()


def new_member_id() -> str:
    """A member id that the client generates (KIP-1082): a random UUID in Kafka's text form."""
    import uuid  # not at the top: few clients are members of such a group

    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):  # command line tools would read it as an option
            return text
