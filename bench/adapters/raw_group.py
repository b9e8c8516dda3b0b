"""The cost of a cold start in a group: the requests of any client, one after the other."""

from __future__ import annotations

import time
import uuid
from functools import partial
from statistics import median
from typing import TypeVar

from bench.adapters import COLD_STARTS, Figures, Stopwatch, Task
from bench.adapters.raw_connection import (
    FETCH_BYTES,
    FETCH_VERSION,
    Connection,
    check_produced,
    framed,
    produce_frame,
)
from kafka_native.protocol import decode_response, encode_request
from kafka_native.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka_native.protocol.coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_native.protocol.fetch import FetchRequest, FetchResponse
from kafka_native.protocol.groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka_native.protocol.metadata import MetadataRequest, MetadataResponse
from kafka_native.protocol.offsets import OffsetFetchRequest, OffsetFetchResponse
from kafka_native.protocol.schema import Request, Response

Answer = TypeVar("Answer", bound=Response)
VERSIONS = {
    FindCoordinatorRequest: 3,
    JoinGroupRequest: 5,
    SyncGroupRequest: 4,
    LeaveGroupRequest: 2,
    MetadataRequest: 7,
    OffsetFetchRequest: 6,
    FetchRequest: FETCH_VERSION,
    ConsumerGroupHeartbeatRequest: 0,
}
COORDINATOR_ERRORS = (14, 15, 16)  # it is loading, not available, or another broker
RETRY_S = 0.005
MEMBER_ID_REQUIRED = 79
SESSION_MS = 45_000
JOIN_TIMEOUT_S = 30.0


def ask(connection: Connection, request: Request, kind: type[Answer]) -> Answer:
    """Send a request and return its answer."""
    version = VERSIONS[type(request)]
    connection.send(framed(encode_request(request, version, 1, "bench")))
    _, reply = decode_response(request.api_key, version, bytes(connection.receive()))
    assert isinstance(reply, kind)
    return reply


def cold(task: Task) -> Figures:
    """Measure from the connection to the first fetched bytes, several times. The median counts."""
    connection = Connection(task)
    for number in range(task.partitions):
        connection.send(produce_frame(task, number, 1))
        check_produced(connection.receive())
    times = []
    watch = Stopwatch()
    for number in range(COLD_STARTS):
        started = time.perf_counter()
        member = Member(task, number)
        member.read()
        times.append((time.perf_counter() - started) * 1e3)
        member.leave()
    figures = watch.figures(COLD_STARTS)
    figures.more["first ms"] = median(times)
    return figures


class Member:
    """The only member of a new group."""

    def __init__(self, task: Task, number: int) -> None:
        self._task = task
        self._group = f"{task.topic}-raw-{number}"
        self._connection = Connection(task)
        self._id = str(uuid.uuid4())
        ask(
            self._connection,
            MetadataRequest(topics=[MetadataRequest.Topic(name=task.topic)]),
            MetadataResponse,
        )
        deadline = time.perf_counter() + JOIN_TIMEOUT_S
        while code := self._join():
            if code not in COORDINATOR_ERRORS or time.perf_counter() > deadline:
                raise RuntimeError(f"the group answers with error {code}")
            time.sleep(RETRY_S)

    def _join(self) -> int:
        """Join the group. Returns the error code, 0 for none."""
        found = ask(
            self._connection, FindCoordinatorRequest(key=self._group), FindCoordinatorResponse
        )
        if found.error_code:
            return found.error_code
        return self._join_consumer() if self._task.protocol == "consumer" else self._join_classic()

    def _join_consumer(self) -> int:
        """Join with the new protocol.

        The first answer has the assignment: no other member joins.
        """
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group, member_id=self._id, member_epoch=0
        )
        request.rebalance_timeout_ms, request.topic_partitions = SESSION_MS, []
        request.subscribed_topic_names = [self._task.topic]
        reply = ask(self._connection, request, ConsumerGroupHeartbeatResponse)
        assert reply.error_code or reply.assignment is not None
        return reply.error_code

    def _join_classic(self) -> int:
        metadata = ConsumerProtocolSubscription(topics=[self._task.topic]).pack(1)
        request = JoinGroupRequest(
            group_id=self._group, session_timeout_ms=SESSION_MS, protocol_type="consumer"
        )
        request.rebalance_timeout_ms = SESSION_MS
        request.protocols = [JoinGroupRequest.Protocol(name="range", metadata=metadata)]
        reply = ask(self._connection, request, JoinGroupResponse)
        if reply.error_code == MEMBER_ID_REQUIRED:
            request.member_id = reply.member_id
            reply = ask(self._connection, request, JoinGroupResponse)
        if reply.error_code:
            return reply.error_code
        self._id = reply.member_id
        sync = SyncGroupRequest(
            group_id=self._group, generation_id=reply.generation_id, member_id=self._id
        )
        every = ConsumerProtocolAssignment.AssignedPartitions(
            topic=self._task.topic, partitions=list(range(self._task.partitions))
        )
        packed = ConsumerProtocolAssignment(assigned_partitions=[every]).pack(1)
        sync.assignments = [SyncGroupRequest.Assignment(member_id=self._id, assignment=packed)]
        return ask(self._connection, sync, SyncGroupResponse).error_code

    def read(self) -> None:
        """Request the committed offsets, although there are none, and then messages."""
        numbers = list(range(self._task.partitions))
        topic = OffsetFetchRequest.Topic(name=self._task.topic, partition_indexes=numbers)
        ask(
            self._connection,
            OffsetFetchRequest(group_id=self._group, topics=[topic]),
            OffsetFetchResponse,
        )
        wanted = FetchRequest.Topic(topic=self._task.topic)
        entry = partial(
            FetchRequest.Topic.Partition, fetch_offset=0, partition_max_bytes=FETCH_BYTES
        )
        wanted.partitions = [entry(partition=number) for number in numbers]
        request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=64 << 20, topics=[wanted])
        reply = ask(self._connection, request, FetchResponse)
        if not any(found.records for found in reply.responses[0].partitions):
            raise RuntimeError("no message came")

    def leave(self) -> None:
        """Leave the group."""
        if self._task.protocol == "consumer":
            leaving = ConsumerGroupHeartbeatRequest(
                group_id=self._group, member_id=self._id, member_epoch=-1
            )
            ask(self._connection, leaving, ConsumerGroupHeartbeatResponse)
        else:
            ask(
                self._connection,
                LeaveGroupRequest(group_id=self._group, member_id=self._id),
                LeaveGroupResponse,
            )
