"""A share group (KIP-932): membership, one share session per leader, and acknowledgements.

The coordinator assigns each member the partitions to fetch from, but no member owns a partition.
Therefore there are no revocations and no reconciliation.

The broker acquires the records that it delivers: they belong to this member until it acknowledges
them, or until their lock expires. Therefore the client doesn't fetch ahead. It fetches when the
application waits for records, from each leader without a request in flight. Acknowledgements go
into the next fetch, or into their own request when there is nothing to fetch.

A session numbers its requests, so only one is in flight at a time. A session ends when the broker
has forgotten it or its connection was closed; the next request opens a new session. Records that
were acquired in the old one are delivered again. Acknowledgements of the old delivery fail, so that
they don't count for the new one.

`ShareConsumerControl` owns the managers, as `ConsumerControl` does for a consumer.

Thread: the control thread only; the public API gets here through `MainThread.run()` and `post()`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kafka_native.control.brokers.coordinator import Coordinator
from kafka_native.control.consumer.held_records import (
    Acknowledgement,
    Acquired,
    Outcome,
    Session,
    ShareKey,
)
from kafka_native.control.errors import SHARE_SESSION_ERRORS, STALE_METADATA_ERRORS
from kafka_native.control.group.heartbeats import JOIN_EPOCH, LEAVE_EPOCH, Heartbeats, State
from kafka_native.control.group.membership import GroupSettings, Member, PollWatch
from kafka_native.control.requests import NEVER, Backoff, Call, Reply
from kafka_native.errors import KafkaError
from kafka_native.protocol.share import (
    AcknowledgementBatch,
    LeaderIdAndEpoch,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kafka_native.types import AcknowledgeType

if TYPE_CHECKING:
    from kafka_native.config import Config
    from kafka_native.control.brokers.coordinator import Coordinator
    from kafka_native.control.brokers.pool import BrokerPool
    from kafka_native.control.context import ManagerContext
    from kafka_native.control.group.membership import GroupSettings, Member
    from kafka_native.control.metadata import Metadata, Topic
    from kafka_native.logs import Logger

Heartbeat: TypeAlias = ShareGroupHeartbeatRequest
_TOO_OLD = (
    "the broker doesn't speak the share group protocol (KIP-932): Apache Kafka does since 4.1"
)


class ShareMembership(Heartbeats[Heartbeat, ShareGroupHeartbeatResponse]):
    """One member of one share group. It is idle until `subscribe()`."""

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
        """``on_assigned`` gets the whole assignment at each change; after leaving, an empty set.

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
        self._on_assigned = on_assigned
        self.topics: list[str] = []

    @property
    def assignor_protocol(self) -> str:
        """Always ``NONE``: a share group has no rebalances."""
        return "NONE"

    chosen_protocol = assignor_protocol

    # --- calls of the application ---

    def replace(self, topics: list[str], now: float) -> None:
        """Replaces the subscription with these topics, at least one."""
        self.topics = list(topics)
        self.subscribe(now)

    def leave(self, reason: str, done: Callable[[], None], now: float) -> None:
        """Leaves the group.

        ``done`` is called when the coordinator has replied or can't be reached.
        """
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
        if not was_in or not self._send_leave(now, lambda reply: self._left()):
            self._left()

    def rejoin(self, reason: str, now: float) -> None:
        """Joins again, if the member has left because the application didn't poll."""
        self._logger.debug("group %s: %s", self._member.group_id, reason)
        if self.state is State.STALE:
            self._join(now)

    def on_poll_exceeded(self, now: float) -> None:
        """Leaves the group: the application has exceeded max.poll.interval.ms. See rejoin()."""
        if self.state in (State.JOINED, State.JOINING):
            self._send_leave(now, lambda reply: None)
            self._lose(State.STALE)

    # --- heartbeats ---

    def _short(self, epoch: int) -> Heartbeat:
        return Heartbeat(
            group_id=self._member.group_id, member_id=self._member.member_id, member_epoch=epoch
        )

    def _full(self) -> Heartbeat:
        message = self._short(max(self._member.generation, JOIN_EPOCH))
        message.rack_id = self._settings.rack
        message.subscribed_topic_names = sorted(self.topics)
        return message

    def _last_heartbeat(self) -> Heartbeat:
        return self._short(LEAVE_EPOCH)

    def _take_answer(self, reply: ShareGroupHeartbeatResponse) -> None:
        if reply.assignment is not None and self.state is State.JOINED:
            named = reply.assignment.topic_partitions
            self._on_assigned(
                {
                    (each.topic_id, number)
                    for each in named
                    for number in each.partitions
                    if number >= 0
                }
            )

    def _lose(self, then: State) -> None:
        self._stop_heartbeat()
        self._end_session()
        self._member.generation = JOIN_EPOCH
        self.state = then
        self._on_assigned(set())
        if then is State.LOSING:
            self._join(max(self._clock(), self._join_at))


FINAL_EPOCH = -1
BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1
ACQUIRE_MODES = {"batch_optimized": BATCH_OPTIMIZED, "record_limit": RECORD_LIMIT}
LOCK_MIN_S, LOCK_MAX_S = 1.0, 3600.0
"""The limits of a lock's duration: the brokers' limits of group.share.record.lock.duration.ms."""
DEFECT_PAUSE_S = 1.0
"""The delay before the next attempt to make a request."""
OFFSETS_MAX = 1 << 22
"""The maximum number of records of one partition in a reply.

Brokers allow a group 2,000 to 10,000 (group.share.partition.max.record.locks).
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a fetch, from the properties below."""

    wait_ms: int
    """fetch.wait.max.ms"""
    min_bytes: int
    """fetch.min.bytes"""
    max_bytes: int
    """fetch.max.bytes"""
    max_records: int
    """max.poll.records"""
    acquire_mode: int
    """share.acquire.mode: BATCH_OPTIMIZED or RECORD_LIMIT"""


class ShareSessions:
    """Fetches the assigned partitions and sends acknowledgements to the brokers of the records."""

    def __init__(
        self,
        member: Member,
        metadata: Metadata,
        limits: Limits,
        *,
        timeout_s: float,
        backoff: Callable[[], Backoff],
        on_records: Callable[[list[Acquired]], None],
        on_outcomes: Callable[[list[Outcome]], None],
        on_error: Callable[[str | None, int | None, KafkaError], None],
        waits: Callable[[], bool],
        log: Logger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``on_outcomes`` gets the results of acknowledgements.

        ``on_error`` reports to the application in its next poll(). ``waits`` returns whether the
        application waits for records right now.
        """
        self._member = member
        self._metadata = metadata
        self._limits = limits
        self._timeout_s = timeout_s
        self._make_backoff = backoff
        self._on_records = on_records
        self._on_outcomes = on_outcomes
        self._on_error = on_error
        self._waits = waits
        self._log = log
        self._clock = clock
        self.assigned: set[ShareKey] = set()
        self._wanted = False
        self._sessions: dict[int, Session] = {}
        self._by_leader: dict[int, set[ShareKey]] = {}
        self._check_at = NEVER  # when to check the partitions' leaders
        self._pauses: dict[ShareKey, tuple[float, Backoff]] = {}
        self._holds: dict[int, tuple[float, Backoff]] = {}
        self._reported: dict[ShareKey | int, int] = {}
        self._on_ended: list[tuple[set[Session], Callable[[], None]]] = []
        metadata.on_topic.append(self._on_topic)

    # --- calls of the consumer ---

    def assign(self, keys: Iterable[ShareKey]) -> None:
        """Replaces the assignment."""
        self.assigned = set(keys)
        self._pauses = {key: pause for key, pause in self._pauses.items() if key in self.assigned}
        self._check_at = 0.0
        self._log.debug(
            "share group %s: %d partitions assigned", self._member.group_id, len(self.assigned)
        )

    def fetch(self) -> None:
        """Fetches once from each leader, and again while the application waits for records."""
        self._wanted = True
        for session in self._sessions.values():
            session.asked = False

    def acknowledge(self, acknowledged: Iterable[Acknowledgement]) -> None:
        """Queues acknowledgements. If their session is over, they fail at once."""
        late: list[Outcome] = []
        for each in acknowledged:
            if each.session.over or each.session.closing:
                late.append((each, _session_over()))
            else:
                each.session.waiting.append(each)
        self._settle(late)

    def end(self, done: Callable[[], None]) -> None:
        """Ends all sessions, then calls ``done``.

        Sends the acknowledgements and releases other records.
        """
        self._wanted = False
        for session in self._sessions.values():
            session.closing = True
        self._on_ended.append((set(self._sessions.values()), done))
        self._report_ended()

    def close(self) -> None:
        """Ends all sessions without sending anything."""
        for session in list(self._sessions.values()):
            self._finish(session, _session_over())

    # --- leaders ---

    def _on_topic(self, topic: Topic) -> None:
        self._check_at = 0.0

    def _topics(self) -> dict[bytes, Topic]:
        return {topic.id: topic for topic in self._metadata.topics.values() if topic.known}

    def _check(self, now: float) -> None:
        """Groups the assigned partitions by leader; checks those without a leader again later."""
        topics, again, missing = self._topics(), NEVER, False
        found: dict[int, set[ShareKey]] = {}
        for key in self.assigned:
            until, _ = self._pauses.get(key, (0.0, None))
            topic = topics.get(key[0])
            leader = (
                -1
                if topic is None or key[1] >= len(topic.partitions)
                else topic.partitions[key[1]].leader
            )
            if now < until:
                again = min(again, until)
            elif leader < 0:
                missing = True
                again = min(again, now + self._pause(key))
            else:
                found.setdefault(leader, set()).add(key)
        if missing:
            self._metadata.refresh(now)
        self._by_leader = found
        self._check_at = again

    def _pause(self, key: ShareKey) -> float:
        """Skips a partition for a while, with back-off. Returns the delay."""
        _, backoff = self._pauses.get(key, (0.0, None))
        backoff = backoff or self._make_backoff()
        delay_s = backoff.next_s()
        self._pauses[key] = (self._clock() + delay_s, backoff)
        return delay_s

    # --- requests ---

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        if now >= self._check_at:
            self._check(now)
        wake_up = self._check_at
        if self._wanted:
            for node in self._by_leader.keys() - self._sessions.keys():
                self._sessions[node] = Session(node)
        calls = []
        for session in list(self._sessions.values()):
            held_until, _ = self._holds.get(session.node, (0.0, None))
            if session.busy:
                continue
            if session.epoch == 0 and not session.closing and now < held_until:
                wake_up = min(wake_up, held_until)
                continue
            waiting = list(session.waiting)
            try:
                call = self._next(session, now)
            except Exception:  # the calls made so far must still be sent
                self._log.exception(
                    "share session with broker %d: the next request can't be made", session.node
                )
                session.waiting = waiting
                wake_up = min(wake_up, now + DEFECT_PAUSE_S)
                continue
            if call is not None:
                session.busy = True
                calls.append(call)
        return calls, wake_up

    def _next(self, session: Session, now: float) -> Call | None:
        """The session's next request; None: nothing is due."""
        if session.closing:
            if session.epoch == 0:
                self._finish(session, None)
                return None
            return self._acknowledge(session, FINAL_EPOCH, now)
        wanted = self._by_leader.get(session.node, set())
        fetches = self._wanted and not session.asked and bool(wanted)
        # A fetch that renews locks would return no records.
        if session.waiting and (
            not fetches or any(each.key not in wanted or each.renewed for each in session.waiting)
        ):
            return self._acknowledge(session, session.epoch, now)
        return self._fetch(session, set(wanted), now) if fetches else None

    def _fetch(self, session: Session, wanted: set[ShareKey], now: float) -> Call:
        request = ShareFetchRequest.FetchTopic
        taken = session.take()
        batches: dict[ShareKey, list[AcknowledgementBatch]] = {
            key: [] for key in wanted - session.partitions
        }
        batches.update((each.key, _batches(each)) for each in taken)
        topics = [
            request(
                topic_id=topic_id,
                partitions=[
                    request.FetchPartition(
                        partition_index=number, acknowledgement_batches=batches[topic_id, number]
                    )
                    for number in numbers
                ],
            )
            for topic_id, numbers in _by_topic(batches)
        ]
        forgotten = [
            ShareFetchRequest.ForgottenTopic(topic_id=topic_id, partitions=numbers)
            for topic_id, numbers in _by_topic(session.partitions - wanted)
        ]
        limits = self._limits
        message = ShareFetchRequest(
            group_id=self._member.group_id,
            member_id=self._member.member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=limits.wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            max_records=limits.max_records,
            batch_size=limits.max_records,
            share_acquire_mode=limits.acquire_mode,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        session.asked = True
        deadline = now + limits.wait_ms / 1000 + self._timeout_s
        return Call(
            message,
            session.node,
            deadline,
            lambda reply: self._on_fetched(session, taken, wanted, reply),
            is_data=True,
        )

    def _acknowledge(self, session: Session, epoch: int, now: float) -> Call:
        request = ShareAcknowledgeRequest.AcknowledgeTopic
        taken = session.take()
        batches = {each.key: _batches(each) for each in taken}
        topics = [
            request(
                topic_id=topic_id,
                partitions=[
                    request.AcknowledgePartition(
                        partition_index=number, acknowledgement_batches=batches[topic_id, number]
                    )
                    for number in numbers
                ],
            )
            for topic_id, numbers in _by_topic(batches)
        ]
        renews = any(each.renewed for each in taken)
        if epoch == FINAL_EPOCH and (session.waiting or renews):
            epoch = session.epoch  # not the last request yet: a partition has more
        message = ShareAcknowledgeRequest(
            group_id=self._member.group_id,
            member_id=self._member.member_id,
            share_session_epoch=epoch,
            is_renew_ack=renews,
            topics=topics,
        )
        last = epoch == FINAL_EPOCH
        deadline = now + self._timeout_s
        return Call(
            message,
            session.node,
            deadline,
            lambda reply: self._on_acknowledged(session, taken, last, reply),
            is_data=True,
        )

    # --- answers ---

    def _on_fetched(
        self, session: Session, taken: list[Acknowledgement], wanted: set[ShareKey], reply: Reply
    ) -> None:
        if not self._answered(session, taken, reply):
            return
        session.partitions = wanted
        response: ShareFetchResponse = reply
        if any(
            not _are_valid(each.acquired_records)
            for topic in response.responses
            for each in topic.partitions
        ):
            text = "the broker's ShareFetch response has invalid acquired records"
            self._session_failed(session, KafkaError(KafkaError._BAD_MSG, text))
            self._settle([(each, _unanswered()) for each in taken])
            return
        until = self._clock() + _lock_s(response.acquisition_lock_timeout_ms)
        names = {topic_id: topic.name for topic_id, topic in self._topics().items()}
        answers: dict[ShareKey, KafkaError | None] = {}
        found = []
        for topic in response.responses:
            for each in topic.partitions:
                key = (topic.topic_id, each.partition_index)
                answers[key] = _error(each.acknowledge_error_code, each.acknowledge_error_message)
                if each.error_code:
                    error = _error(each.error_code, each.error_message)
                    self._partition_failed(session, key, error, each.current_leader)
                else:
                    self._pauses.pop(key, None)
                    self._reported.pop(key, None)
                ranges = [
                    (one.first_offset, one.last_offset, one.delivery_count)
                    for one in each.acquired_records
                ]
                name = names.get(key[0])
                if ranges and name is None:  # a topic that isn't wanted any more
                    batches = [
                        (first, last, bytes([AcknowledgeType.RELEASE])) for first, last, _ in ranges
                    ]
                    session.waiting.append(Acknowledgement(session, key, "", batches))
                elif ranges and name is not None:
                    found.append(Acquired(session, key, name, each.records or b"", ranges, until))
        self._settle([(each, answers.get(each.key, _unanswered())) for each in taken])
        if found:
            self._wanted = False
            self._on_records(found)
        elif self._waits():
            session.asked = False

    def _on_acknowledged(
        self, session: Session, taken: list[Acknowledgement], last: bool, reply: Reply
    ) -> None:
        if _cannot_renew(reply, taken):
            session.busy = False
            self._settle([(each, _no_renewal()) for each in taken])
            return
        if not self._answered(session, taken, reply):
            return
        response: ShareAcknowledgeResponse = reply
        until = self._clock() + _lock_s(response.acquisition_lock_timeout_ms)
        answers = {
            (topic.topic_id, each.partition_index): _error(each.error_code, each.error_message)
            for topic in response.responses
            for each in topic.partitions
        }
        self._settle([(each, answers.get(each.key, _unanswered())) for each in taken], until)
        if any(
            error is not None and error.code() in STALE_METADATA_ERRORS
            for error in answers.values()
        ):
            self._metadata.refresh(self._clock())
        if last:
            self._finish(session, None)

    def _answered(self, session: Session, taken: list[Acknowledgement], reply: Reply) -> bool:
        """Returns whether the reply is a success; otherwise ends the session."""
        session.busy = False
        if session.over:
            self._settle([(each, _session_over()) for each in taken])
            return False
        error = (
            reply
            if isinstance(reply, KafkaError)
            else _error(reply.error_code, reply.error_message)
        )
        if error is None:
            session.advance()
            self._holds.pop(session.node, None)
            self._reported.pop(session.node, None)
            return True
        self._settle([(each, error) for each in taken])
        self._session_failed(session, error)
        return False

    def _session_failed(self, session: Session, error: KafkaError) -> None:
        node, now = session.node, self._clock()
        self._log.debug("share session with broker %d is over: %s", node, error.str())
        _, backoff = self._holds.get(node, (0.0, None))
        backoff = backoff or self._make_backoff()
        self._holds[node] = (now + backoff.next_s(), backoff)
        if error.code() not in SHARE_SESSION_ERRORS and self._reported.get(node) != error.code():
            self._reported[node] = error.code()
            text = (
                f"group {self._member.group_id}: fetching from broker {node} failed: {error.str()}"
            )
            self._on_error(None, None, KafkaError(error.code(), text))
        if error.code() < 0:  # no reply
            self._metadata.refresh(now)
        self._finish(session, _session_over())

    def _partition_failed(
        self, session: Session, key: ShareKey, error: KafkaError | None, hint: LeaderIdAndEpoch
    ) -> None:
        assert error is not None
        code, now = error.code(), self._clock()
        topic = self._topics().get(key[0])
        self._check_at = 0.0
        if code in STALE_METADATA_ERRORS:
            if topic is None or code != KafkaError.NOT_LEADER_FOR_PARTITION:
                self._metadata.refresh(now)
            else:
                self._metadata.on_hint(topic.name, key[1], hint.leader_id, hint.leader_epoch, now)
                leader = self._metadata.leader(topic.name, key[1])
                if leader is not None and leader.leader not in (-1, session.node):
                    return  # the new leader is known: no pause
        elif self._reported.get(key) != code:
            self._reported[key] = code
            self._on_error(None if topic is None else topic.name, key[1], error)
        self._pause(key)

    def _settle(self, outcomes: list[Outcome], until: float = 0.0) -> None:
        """Reports outcomes. ``until``: when renewed locks expire."""
        if outcomes:
            for each, error in outcomes:
                for held in each.renewed:
                    held.until = until if error is None else 0.0
            self._on_outcomes(outcomes)

    def _finish(self, session: Session, error: KafkaError | None) -> None:
        """Ends a session. Its pending acknowledgements fail."""
        session.over = True
        if self._sessions.get(session.node) is session:
            del self._sessions[session.node]
        waiting, session.waiting = session.waiting, []
        self._settle([(each, error or _session_over()) for each in waiting])
        for sessions, _ in self._on_ended:
            sessions.discard(session)
        self._report_ended()

    def _report_ended(self) -> None:
        ended = [done for sessions, done in self._on_ended if not sessions]
        self._on_ended = [each for each in self._on_ended if each[0]]
        for done in ended:
            done()


def _are_valid(
    ranges: list[ShareFetchResponse.ShareFetchableTopicResponse.PartitionData.AcquiredRecords],
) -> bool:
    """Whether the ranges ascend and contain no more records than allowed."""
    before, count = -1, 0
    for each in ranges:
        if not before < each.first_offset <= each.last_offset:
            return False
        before = each.last_offset
        count += each.last_offset - each.first_offset + 1
    return count <= OFFSETS_MAX


def _lock_s(lock_ms: int) -> float:
    """The lock duration in seconds.

    If the broker doesn't send it (0), the client assumes the maximum.
    """
    return min(max(lock_ms / 1000, LOCK_MIN_S), LOCK_MAX_S) if lock_ms > 0 else LOCK_MAX_S


def _by_topic(keys: Iterable[ShareKey]) -> list[tuple[bytes, list[int]]]:
    found: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(keys):
        found.setdefault(topic_id, []).append(number)
    return list(found.items())


def _batches(acknowledged: Acknowledgement) -> list[AcknowledgementBatch]:
    return [
        AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
        for first, last, types in acknowledged.batches
    ]


def _error(code: int, text: str | None) -> KafkaError | None:
    if not code:
        return None
    return KafkaError(code, text) if text else KafkaError(code)


def _session_over() -> KafkaError:
    text = (
        "the share session in which these records were acquired is over: they are delivered again"
    )
    return KafkaError(KafkaError.SHARE_SESSION_NOT_FOUND, text)


def _cannot_renew(reply: Reply, taken: list[Acknowledgement]) -> bool:
    """Whether the request couldn't be encoded, because its version has no renewals."""
    return (
        isinstance(reply, KafkaError)
        and reply.code() == KafkaError._INVALID_ARG
        and any(each.renewed for each in taken)
    )


def _no_renewal() -> KafkaError:
    text = "the broker doesn't renew locks (KIP-1222): Apache Kafka does since 4.2"
    return KafkaError(KafkaError._UNSUPPORTED_FEATURE, text)


def _unanswered() -> KafkaError:
    return KafkaError(
        KafkaError._BAD_MSG,
        "the broker's response has no result for this partition's acknowledgements",
    )


UNSUBSCRIBED = "the share consumer unsubscribed from all topics"
CLOSED = "the share consumer is being closed"
DROPPED = "the share consumer was dropped without being closed"


@dataclass(slots=True)
class ShareHooks:
    """The functions by which managers reach the application."""

    on_records: Callable[[list[Acquired]], None]
    on_outcomes: Callable[[list[Outcome]], None]
    on_error: Callable[[str | None, int | None, KafkaError], None]
    """Adds an error to the messages of the next poll()."""
    on_fatal: Callable[[KafkaError], None]
    polls: Callable[[], tuple[int, bool]]
    """How many polls the application has begun, and whether it is inside one."""


class ShareConsumerControl:
    """The control plane of one share consumer: its membership and its sessions."""

    def __init__(
        self,
        context: ManagerContext,
        config: Config,
        hooks: ShareHooks,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Creates the managers; the control thread isn't running yet."""
        self._metadata = context.metadata
        self._hooks = hooks
        self._settings = settings = GroupSettings.of(config)
        self.member = Member(config.text("group.id"), None, "share")
        self._log = context.pool.logs["consumer"]
        self.coordinator = Coordinator(
            context.pool,
            self.member.group_id,
            timeout_s=settings.timeout_s,
            query_interval_s=config.integer("coordinator.query.interval.ms") / 1000,
            backoff=self._backoff(),
            clock=clock,
        )
        self.sessions = ShareSessions(
            self.member,
            context.metadata,
            Limits(
                config.integer("fetch.wait.max.ms"),
                config.integer("fetch.min.bytes"),
                config.integer("fetch.max.bytes"),
                config.integer("max.poll.records"),
                ACQUIRE_MODES[config.text("share.acquire.mode")],
            ),
            timeout_s=settings.timeout_s,
            backoff=self._backoff,
            on_records=hooks.on_records,
            on_outcomes=hooks.on_outcomes,
            on_error=hooks.on_error,
            waits=lambda: hooks.polls()[1],
            log=context.pool.logs["fetch"],
            clock=clock,
        )
        self.membership = ShareMembership(
            self.member,
            self.coordinator,
            context.pool,
            settings,
            on_assigned=self.sessions.assign,
            on_error=self._on_group_error,
            on_fatal=hooks.on_fatal,
            logger=context.pool.logs["cgrp"],
            clock=clock,
        )
        self.watch = PollWatch(
            self.membership,
            lambda: bool(self.membership.topics),
            hooks.polls,
            interval_s=settings.rebalance_timeout_s,
            on_error=self._on_group_error,
        )
        self._missing: set[str] = set()  # missing topics that the application knows about
        context.metadata.on_topic.append(lambda topic: self._missing.discard(topic.name))
        context.metadata.on_missing.append(self._on_missing)
        context.metadata.on_failure.append(self._on_failure)
        context.metadata.uses.append(lambda since: self.membership.topics)
        self.managers = (self.watch, self.membership, self.sessions, self.coordinator)
        """In the order in which the control thread polls them."""

    def _backoff(self) -> Backoff:
        return Backoff(self._settings.retry_s, self._settings.retry_max_s)

    def _on_group_error(self, error: KafkaError) -> None:
        self._hooks.on_error(None, None, error)

    def _on_missing(self, topic: Topic, error: KafkaError) -> None:
        if topic.name in self.membership.topics and topic.name not in self._missing:
            self._missing.add(topic.name)
            self._hooks.on_error(topic.name, None, error)

    def _on_failure(self, topic: Topic, error: KafkaError) -> None:
        if error.code() == KafkaError._UNKNOWN_TOPIC:
            self._on_missing(topic, KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, error.str()))
        elif topic.name in self.membership.topics:
            self._hooks.on_error(topic.name, None, error)

    # --- for the public API ---

    def subscribe(self, topics: list[str], now: float) -> None:
        """Joins the group with these topics, at least one. They replace the subscription."""
        self._log.debug("share group %s: subscribes to %s", self.member.group_id, topics)
        dropped = set(self.membership.topics) - set(topics)
        for name in topics:
            self._metadata.want(name, now)
        self._missing.clear()
        self.membership.replace(topics, now)
        self._metadata.forget(dropped)

    def unsubscribe(self, done: Callable[[], None], now: float) -> None:
        """Ends the sessions and leaves the group, then calls ``done``.

        Ending a session releases its unacknowledged records.
        """
        self._leave(UNSUBSCRIBED, done, now)

    def close(self, done: Callable[[], None], now: float) -> None:
        """Does what `unsubscribe()` does, when the consumer closes."""
        self._leave(CLOSED, done, now)

    def quit(self, done: Callable[[], None]) -> None:
        """Leaves the group for a share consumer that was dropped without `close()`.

        Closing the sessions' connections releases its locks.
        """
        self.membership.quit(DROPPED, done, time.monotonic())

    def _leave(self, reason: str, done: Callable[[], None], now: float) -> None:
        dropped, self.membership.topics = self.membership.topics, []
        self._metadata.forget(dropped)
        left = [2]

        def ended() -> None:
            left[0] -= 1
            if not left[0]:
                done()

        # In parallel: neither needs the other's reply.
        self.sessions.end(ended)
        self.membership.leave(reason, ended, now)

    def on_close(self, error: KafkaError) -> None:
        """Ends the membership and the sessions when the control thread ends."""
        self.membership.close()
        self.sessions.close()
