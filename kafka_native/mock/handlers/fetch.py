"""Fetch: long polls, sessions, and slices of the log instead of copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.clock import RequestWait
from kafka_native.mock.handlers.leaders import Hints, find
from kafka_native.mock.replies import RECORDS_HERE, Reply
from kafka_native.mock.sessions import FetchPartition, partitions_of
from kafka_native.mock.topics import Waiter
from kafka_native.protocol import ApiKey
from kafka_native.protocol.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka_native.mock.call import Call
    from kafka_native.mock.sessions import Session
    from kafka_native.mock.state import ClusterState
    from kafka_native.mock.topics import Partition

_FIRST_WITH_HINTS = 16
_FIRST_WITH_SESSIONS = 7
_FIRST_FROM_FOLLOWERS = 11
# Errors for the request as a whole. All others are errors of a partition.
_REQUEST_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class _FetchAttempt:
    """One read of the wanted partitions."""

    def __init__(self, call: Call, request: FetchRequest) -> None:
        self.call = call
        self.request = request
        self.hints = Hints(call, _FIRST_WITH_HINTS)
        self.answers: list[
            tuple[FetchPartition, FetchResponse.Topic.Partition, list[memoryview]]
        ] = []
        self.size_bytes = 0
        self.has_error = False
        self.has_redirect = False
        self.partitions: list[Partition] = []

    def read_all(self, wanted: Iterable[FetchPartition]) -> None:
        """Read every partition, within the limits of the request."""
        for one in wanted:
            self._read_partition(one)

    def _read_partition(self, wanted: FetchPartition) -> None:
        answer = FetchResponse.Topic.Partition(
            partition_index=wanted.index, high_watermark=-1, aborted_transactions=None, records=b""
        )
        any_replica = (
            self.call.version >= _FIRST_FROM_FOLLOWERS and self.call.broker.rack is not None
        )
        epoch = wanted.last_leader_epoch
        found = find(
            self.call, wanted.topic, wanted.topic_id, wanted.index, epoch, or_follower=any_replica
        )
        error: int = found.error
        partition = found.partition
        name = wanted.topic if found.topic is None else found.topic.name
        pushed = self.call.cluster.faults.take_error_within(
            ApiKey.FETCH, self.call.broker.id, name, wanted.index
        )
        if pushed is not None and pushed.code != ErrorCode.NO_ERROR:
            error = pushed.code
        slices: list[memoryview] = []
        if error == ErrorCode.NO_ERROR and partition is not None:
            log = partition.log
            end = partition.end_at(self.call.broker.id)
            stable = min(log.last_stable_offset, end)
            readable = end
            closer = self._closer_replica(partition, wanted.offset)
            if self.request.isolation_level == 1:
                readable = stable
                answer.aborted_transactions = [
                    FetchResponse.Topic.Partition.AbortedTransaction(
                        producer_id=each.producer_id, first_offset=each.first_offset
                    )
                    for each in log.aborted_transactions(wanted.offset, stable)
                ]
            if closer is not None:
                answer.preferred_read_replica = closer
                self.has_redirect = True
            else:
                answer.high_watermark, answer.last_stable_offset = end, stable
                answer.log_start_offset = log.start_offset
            if not log.start_offset <= wanted.offset <= end:
                error = ErrorCode.OFFSET_OUT_OF_RANGE
            elif closer is None:
                slices = self._read(partition, wanted, readable)
                self.partitions.append(partition)
        if error != ErrorCode.NO_ERROR:
            self.has_error = True
            answer.error_code = error
            leader, epoch = self.hints.leader(error, partition)
            answer.current_leader.leader_id = leader
            answer.current_leader.leader_epoch = epoch
        if slices:
            answer.records = RECORDS_HERE
        self.answers.append((wanted, answer, slices))

    def _closer_replica(self, partition: Partition, offset: int) -> int | None:
        """Return the follower in the client's rack that the leader recommends (KIP-392)."""
        rack = self.request.rack_id
        if not rack or partition.leader != self.call.broker.id or self.call.broker.rack == rack:
            return None
        cluster = self.call.cluster
        near = [node for node in partition.in_sync() if cluster.rack_of(node) == rack]
        near = [
            node for node in near if partition.log.start_offset <= offset <= partition.end_at(node)
        ]
        return max(near, key=partition.end_at, default=None)

    def _read(self, partition: Partition, wanted: FetchPartition, end: int) -> list[memoryview]:
        left = self.request.max_bytes - self.size_bytes
        if left <= 0 and self.size_bytes:
            return []
        slices, size = partition.log.read(
            wanted.offset,
            min(wanted.max_bytes, left),
            at_least_one=self.size_bytes == 0,
            cut=self.call.cluster.settings.partial_batches,
            end=end if end < partition.log.end_offset else None,
        )
        self.size_bytes += size
        return slices

    def reply(self, session: Session | None, is_full: bool) -> Reply:
        """Return the response.

        In a session it has only the partitions with news, except in the first response.
        """
        response = FetchResponse(session_id=session.id if session is not None else 0)
        records: list[list[memoryview]] = []
        topic: FetchResponse.Topic | None = None
        for wanted, answer, slices in self.answers:
            if session is not None and not _has_news(wanted, answer, slices) and not is_full:
                continue
            if topic is None or (topic.topic, topic.topic_id) != (wanted.topic, wanted.topic_id):
                topic = FetchResponse.Topic(topic=wanted.topic, topic_id=wanted.topic_id)
                response.responses.append(topic)
            topic.partitions.append(answer)
            if slices:
                records.append(self._corrupt(answer, wanted, slices))
                if session is not None:
                    session.move_to_back(wanted)
        response.node_endpoints = [
            FetchResponse.NodeEndpoint(
                node_id=broker.id,
                host=broker.endpoint[0],
                port=broker.endpoint[1],
                rack=broker.rack,
            )
            for broker in self.hints.brokers.values()
        ]
        return Reply(response, records)

    def _corrupt(
        self,
        answer: FetchResponse.Topic.Partition,
        wanted: FetchPartition,
        slices: list[memoryview],
    ) -> list[memoryview]:
        found = self.call.cluster.topic_by_id(wanted.topic_id)
        name = found.name if found is not None else wanted.topic
        return corrupt(self.call.cluster, name, answer.partition_index, slices)


def corrupt(
    cluster: ClusterState, topic: str, partition: int, slices: list[memoryview]
) -> list[memoryview]:
    """Return the slices, with a bit flipped in the first batch if a test ordered it."""
    if not cluster.faults.take_corrupt(topic, partition):
        return slices
    data = bytearray(b"".join(slices))
    end = min(12 + int.from_bytes(data[8:12], "big"), len(data))
    data[end - 1] ^= 0x01
    return [memoryview(data)]


def _has_news(
    wanted: FetchPartition, answer: FetchResponse.Topic.Partition, slices: list[memoryview]
) -> bool:
    """Return whether the response is news to the session's client, and remember it as sent."""
    sent = (wanted.high_watermark, wanted.log_start)
    wanted.high_watermark, wanted.log_start = answer.high_watermark, answer.log_start_offset
    changed = sent != (answer.high_watermark, answer.log_start_offset)
    # An error is repeated until the client drops the partition or fetches from another offset.
    is_redirect = answer.preferred_read_replica >= 0
    return changed or bool(slices) or is_redirect or answer.error_code != ErrorCode.NO_ERROR


def fetch(call: Call, request: FetchRequest) -> Reply | None:
    """Answer when there are ``min_bytes``, an error, or the time is over.

    A client that has disconnected gets no answer.
    """
    cluster = call.cluster
    session: Session | None = None
    is_full = True
    with cluster.lock:
        if call.version >= _FIRST_WITH_SESSIONS:
            session, is_full, error = call.broker.sessions.find(request)
            if error != ErrorCode.NO_ERROR:
                return Reply(FetchResponse(error_code=error), [])
        if session is not None:
            session.update(request)
            if not is_full:
                session.advance()
        wanted = partitions_of(request) if session is None else list(session.partitions.values())
    wait = RequestWait(cluster.clock, request.max_wait_ms)
    waiter = Waiter()
    while True:
        with cluster.lock:
            expires = cluster.transactions.expire()
            done = _FetchAttempt(call, request)
            done.read_all(wanted)
            now = cluster.clock.now()
            left = wait.left()
            is_news = done.has_error or done.has_redirect
            if (
                is_news
                or done.size_bytes >= request.min_bytes
                or left <= 0
                or call.connection.is_closing
            ):
                return done.reply(session, is_full)
            waiter.watch(cluster.waiters, done.partitions)
        waiter.wait(cluster.lock, min(left, max(expires - now, 0)))
        if call.connection.is_abandoned():
            return None  # Faults that a test armed during the wait stay for the next request.


def refuse(call: Call, request: FetchRequest, code: int) -> FetchResponse:
    """Return an error for the whole request, or for each of its partitions.

    An error of partitions keeps the session.
    """
    if code in _REQUEST_ERRORS and call.version >= _FIRST_WITH_SESSIONS:
        return FetchResponse(error_code=code)
    hints = Hints(call, _FIRST_WITH_HINTS)
    response = FetchResponse()
    with call.cluster.lock:
        session: Session | None = None
        if call.version >= _FIRST_WITH_SESSIONS:
            session, is_full, error = call.broker.sessions.find(request)
            if error != ErrorCode.NO_ERROR:
                return FetchResponse(error_code=error)
            if session is not None:
                session.update(request)
                response.session_id = session.id
                if not is_full:
                    session.advance()
        for wanted in partitions_of(request) if session is None else session.partitions.values():
            answer = FetchResponse.Topic.Partition(
                partition_index=wanted.index, error_code=code, high_watermark=-1, records=b""
            )
            partition = find(call, wanted.topic, wanted.topic_id, wanted.index).partition
            answer.current_leader.leader_id, answer.current_leader.leader_epoch = hints.leader(
                code, partition
            )
            response.responses.append(
                FetchResponse.Topic(
                    topic=wanted.topic, topic_id=wanted.topic_id, partitions=[answer]
                )
            )
    response.node_endpoints = [
        FetchResponse.NodeEndpoint(
            node_id=broker.id, host=broker.endpoint[0], port=broker.endpoint[1], rack=broker.rack
        )
        for broker in hints.brokers.values()
    ]
    return response
