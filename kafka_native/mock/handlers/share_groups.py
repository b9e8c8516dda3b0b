"""ShareGroupHeartbeat, ShareFetch and ShareAcknowledge (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.clock import RequestWait
from kafka_native.mock.handlers.fetch import corrupt
from kafka_native.mock.handlers.groups import check_group
from kafka_native.mock.handlers.leaders import Found, Hints, find
from kafka_native.mock.membership import GroupError
from kafka_native.mock.replies import RECORDS_HERE, Reply
from kafka_native.mock.share_groups import (
    FINAL_EPOCH,
    FIRST_EPOCH,
    JOIN_EPOCH,
    LEAVE_EPOCH,
    Key,
    ShareSession,
)
from kafka_native.mock.topics import SHARE_GROUP_STATE, Waiter
from kafka_native.protocol import ApiKey
from kafka_native.protocol.share import (
    NodeEndpoint,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from kafka_native.mock.call import Call
    from kafka_native.mock.topics import Partition
    from kafka_native.protocol.share import AcknowledgementBatch

_PART = ShareFetchResponse.ShareFetchableTopicResponse.PartitionData
_FIRST_HINTS = 1
RECORD_LIMIT = 1
"""The acquire mode in which max_records is strict (KIP-1206)."""


def heartbeat(call: Call, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    """Let a member join, stay or leave."""
    share = call.cluster.share
    with call.cluster.lock:
        try:
            if not request.group_id or not request.member_id or request.member_epoch < LEAVE_EPOCH:
                raise GroupError(ErrorCode.INVALID_REQUEST)
            if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
                text = "SubscribedTopicNames must be set in first request."
                raise GroupError(ErrorCode.INVALID_REQUEST, text=text)
            check_group(call, request.group_id)
            other = call.cluster.groups.find(request.group_id)
            if other is not None and other.members:
                text = f"Group {request.group_id} is not a share group."
                raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, text=text)
            group = share.find(request.group_id, make=request.member_epoch == JOIN_EPOCH)
            call.cluster.ensure_internal_topic(SHARE_GROUP_STATE)
            if request.member_epoch == LEAVE_EPOCH:
                group.leave(request.member_id)
                return ShareGroupHeartbeatResponse(
                    member_id=request.member_id, member_epoch=LEAVE_EPOCH
                )
            member, has_assignment = group.heartbeat(
                request, call.client_id, call.connection.peer[0]
            )
        except GroupError as error:
            return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.text)
        return ShareGroupHeartbeatResponse(
            member_id=member.id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=group.settings.heartbeat_ms,
            assignment=_assignment(member.assigned) if has_assignment else None,
        )


def _assignment(assigned: set[Key]) -> ShareGroupHeartbeatResponse.Assignment:
    part = ShareGroupHeartbeatResponse.Assignment.TopicPartitions
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(assigned):
        by_topic.setdefault(topic_id, []).append(number)
    parts = [part(topic_id=topic_id, partitions=numbers) for topic_id, numbers in by_topic.items()]
    return ShareGroupHeartbeatResponse.Assignment(topic_partitions=parts)


class _Acknowledgements:
    """The acknowledgements of one request, and the result for each partition."""

    def __init__(self, call: Call, hints: Hints, *, renews: bool) -> None:
        self.call = call
        self.hints = hints
        self.renews = renews
        self.answers: dict[Key, tuple[int, tuple[int, int]]] = {}

    def take(self, session: ShareSession, key: Key, batches: list[AcknowledgementBatch]) -> None:
        """Process the acknowledgements of one partition."""
        found = find(self.call, "", *key)
        error: int = found.error
        if error == ErrorCode.NO_ERROR and found.topic is not None:
            faults, broker = self.call.cluster.faults, self.call.broker.id
            pushed = faults.take_error_within(
                ApiKey.SHARE_ACKNOWLEDGE, broker, found.topic.name, key[1]
            )
            if pushed is None or pushed.done or not pushed.code:
                held = session.group.partition(found.topic, key[1])
                now = self.call.cluster.clock.now()
                error = held.acknowledge(session.member_id, batches, now, renews=self.renews)
            if pushed is not None and pushed.code:
                error = pushed.code
        self.answers[key] = (error, self.hints.leader(error, found.partition))


class _ShareFetchAttempt:
    """One read of the partitions of a session."""

    def __init__(
        self, call: Call, request: ShareFetchRequest, session: ShareSession, hints: Hints
    ) -> None:
        self.call = call
        self.request = request
        self.session = session
        self.hints = hints
        self.answers: dict[
            Key,
            tuple[ShareFetchResponse.ShareFetchableTopicResponse.PartitionData, list[memoryview]],
        ]
        self.answers = {}
        self.has_error = False
        self.partitions: list[Partition] = []
        self.expires = float("inf")
        self.records_left = request.max_records
        self.bytes_left = request.max_bytes

    def acquire_all(self) -> None:
        """Acquire the available records, within the limits of the request."""
        for key in self.session.partitions:
            found = find(self.call, "", *key)
            error: int = found.error
            if found.topic is not None:
                faults = self.call.cluster.faults
                pushed = faults.take_error_within(
                    ApiKey.SHARE_FETCH, self.call.broker.id, found.topic.name, key[1]
                )
                error = pushed.code if pushed is not None and pushed.code else error
            if error:
                self.has_error = True
                leader, epoch = self.hints.leader(error, found.partition)
                answer = _PART(partition_index=key[1], error_code=error, records=b"")
                answer.current_leader.leader_id, answer.current_leader.leader_epoch = leader, epoch
                self.answers[key] = (answer, [])
            else:
                self._acquire(key, found)

    def _acquire(self, key: Key, found: Found) -> None:
        assert found.topic is not None
        assert found.partition is not None
        self.partitions.append(found.partition)
        held = self.session.group.partition(found.topic, key[1])
        if self.records_left > 0 and self.bytes_left > 0:
            now = self.call.cluster.clock.now()
            slices, ranges = held.acquire(
                self.session.member_id,
                self.records_left,
                self.bytes_left,
                now,
                strict=self.request.share_acquire_mode == RECORD_LIMIT,
            )
            if ranges:
                self.records_left -= sum(last - first + 1 for first, last, _ in ranges)
                self.bytes_left -= sum(map(len, slices))
                answer = _PART(partition_index=key[1], records=RECORDS_HERE)
                answer.acquired_records = [
                    _PART.AcquiredRecords(
                        first_offset=first, last_offset=last, delivery_count=count
                    )
                    for first, last, count in ranges
                ]
                slices = corrupt(self.call.cluster, found.topic.name, key[1], slices)
                self.answers[key] = (answer, slices)
        self.expires = min(self.expires, held.next_expiry())

    def reply(self, acknowledged: _Acknowledgements) -> Reply:
        """Return the response: the partitions with records, an error, or acknowledgements."""
        response = ShareFetchResponse(acquisition_lock_timeout_ms=_lock_ms(self.session))
        records: list[list[memoryview]] = []
        for key in sorted(self.answers.keys() | acknowledged.answers.keys()):
            answer, slices = self.answers.get(key) or (
                _PART(partition_index=key[1], records=b""),
                [],
            )
            if key in acknowledged.answers:
                answer.acknowledge_error_code, (leader, epoch) = acknowledged.answers[key]
                if not answer.error_code:
                    answer.current_leader.leader_id, answer.current_leader.leader_epoch = (
                        leader,
                        epoch,
                    )
            topic = ShareFetchResponse.ShareFetchableTopicResponse(
                topic_id=key[0], partitions=[answer]
            )
            if response.responses and response.responses[-1].topic_id == key[0]:
                response.responses[-1].partitions.append(answer)
            else:
                response.responses.append(topic)
            if slices:
                records.append(slices)
        response.node_endpoints = _endpoints(self.hints)
        return Reply(response, records)


def _wants_records(request: ShareFetchRequest) -> bool:
    """Return whether a ShareFetch asks for records. One that renews locks can't."""
    return any((request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms))


def _endpoints(hints: Hints) -> list[NodeEndpoint]:
    return [
        NodeEndpoint(
            node_id=broker.id, host=broker.endpoint[0], port=broker.endpoint[1], rack=broker.rack
        )
        for broker in hints.brokers.values()
    ]


def _lock_ms(session: ShareSession) -> int:
    return int(session.group.settings.lock_seconds * 1000)


def share_fetch(call: Call, request: ShareFetchRequest) -> Reply | ShareFetchResponse | None:
    """Process acknowledgements, then answer with acquired records or an error, or after the time.

    A client that has disconnected gets no answer.
    """
    cluster = call.cluster
    hints = Hints(call, _FIRST_HINTS)
    acknowledged = _Acknowledgements(call, hints, renews=request.is_renew_ack)
    epoch = request.share_session_epoch
    with cluster.lock:
        given = [(topic.topic_id, each) for topic in request.topics for each in topic.partitions]
        if epoch == FIRST_EPOCH and any(each.acknowledgement_batches for _, each in given):
            return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
        if request.is_renew_ack and _wants_records(request):
            return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
        session, error = cluster.share.session(
            call.broker.id, request.group_id or "", request.member_id or "", epoch, call.connection
        )
        if session is None:
            return ShareFetchResponse(error_code=error)
        for topic_id, each in given:
            key = (topic_id, each.partition_index)
            if epoch != FINAL_EPOCH:
                session.partitions[key] = None
            if each.acknowledgement_batches:
                acknowledged.take(session, key, each.acknowledgement_batches)
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                session.partitions.pop((topic.topic_id, number), None)
        if epoch == FINAL_EPOCH:
            cluster.share.close(call.broker.id, session)
        if epoch == FINAL_EPOCH or request.is_renew_ack:
            return _ShareFetchAttempt(call, request, session, hints).reply(acknowledged)
    wait = RequestWait(cluster.clock, request.max_wait_ms)
    waiter = Waiter()
    while True:
        with cluster.lock:
            done = _ShareFetchAttempt(call, request, session, hints)
            if not call.connection.is_closing:
                done.acquire_all()
            now, left = cluster.clock.now(), wait.left()
            if done.answers or done.has_error or left <= 0 or call.connection.is_closing:
                return done.reply(acknowledged)
            waiter.watch(cluster.waiters, done.partitions)
        waiter.wait(cluster.lock, min(left, max(done.expires - now, 0)))
        if call.connection.is_abandoned():
            return None  # acquire no records for a client that has disconnected


def share_acknowledge(call: Call, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
    """Process acknowledgements. The final epoch ends the session and releases the other records."""
    hints = Hints(call, _FIRST_HINTS)
    acknowledged = _Acknowledgements(call, hints, renews=request.is_renew_ack)
    epoch = request.share_session_epoch
    share = call.cluster.share
    part = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
    with call.cluster.lock:
        if epoch == FIRST_EPOCH:
            return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session, error = share.session(
            call.broker.id, request.group_id or "", request.member_id or "", epoch, call.connection
        )
        if session is None:
            return ShareAcknowledgeResponse(error_code=error)
        for topic in request.topics:
            for each in topic.partitions:
                acknowledged.take(
                    session, (topic.topic_id, each.partition_index), each.acknowledgement_batches
                )
        if epoch == FINAL_EPOCH:
            share.close(call.broker.id, session)
    response = ShareAcknowledgeResponse(acquisition_lock_timeout_ms=_lock_ms(session))
    for key, (code, (leader, leader_epoch)) in acknowledged.answers.items():
        answer = part.PartitionData(partition_index=key[1], error_code=code)
        answer.current_leader.leader_id, answer.current_leader.leader_epoch = leader, leader_epoch
        response.responses.append(part(topic_id=key[0], partitions=[answer]))
    response.node_endpoints = _endpoints(hints)
    return response
