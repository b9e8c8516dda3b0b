"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.handlers.leaders import find
from kafka_native.protocol.offsets import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka_native.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kafka_native.mock.call import Call
    from kafka_native.mock.log import PartitionLog

_FIRST_WITH_EPOCHS = 4
_FIRST_WITH_ONE_OFFSET = 1
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
_FIRST_VERSIONS = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The first ListOffsets version with each special timestamp."""


def list_offsets(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Return offsets by timestamp."""
    response = ListOffsetsResponse()
    for topic in request.topics:
        answers = []
        for part in topic.partitions:
            answer = ListOffsetsResponse.Topic.Partition(partition_index=part.partition_index)
            with call.cluster.lock:
                found = find(
                    call, topic.name, ZERO_UUID, part.partition_index, part.current_leader_epoch
                )
                answer.error_code = _error_of(call, topic.name, part.partition_index, found.error)
                if answer.error_code == ErrorCode.NO_ERROR and found.partition is not None:
                    log, epoch = found.partition.log, found.partition.leader_epoch
                    if call.version < _FIRST_VERSIONS.get(part.timestamp, 0):
                        answer.error_code = ErrorCode.UNSUPPORTED_VERSION
                    elif part.timestamp == LATEST and request.isolation_level == 1:
                        answer.offset, answer.leader_epoch = log.last_stable_offset, epoch
                    else:
                        _look_up(log, part.timestamp, epoch, answer)
                    if call.version < _FIRST_WITH_EPOCHS:
                        answer.leader_epoch = -1
                    if call.version < _FIRST_WITH_ONE_OFFSET:
                        answer = ListOffsetsResponse.Topic.Partition(
                            partition_index=part.partition_index,
                            error_code=answer.error_code,
                            old_style_offsets=[answer.offset] if answer.offset >= 0 else [],
                        )
            answers.append(answer)
        response.topics.append(ListOffsetsResponse.Topic(name=topic.name, partitions=answers))
    return response


def _error_of(call: Call, topic: str, partition: int, error: int) -> int:
    """Return the error that a test ordered for this partition, or else the given one."""
    pushed = call.cluster.faults.take_error_within(call.api_key, call.broker.id, topic, partition)
    return error if pushed is None or pushed.code == ErrorCode.NO_ERROR else pushed.code


def _look_up(
    log: PartitionLog,
    timestamp: int,
    leader_epoch: int,
    answer: ListOffsetsResponse.Topic.Partition,
) -> None:
    if timestamp == LATEST:
        answer.offset, answer.leader_epoch = log.end_offset, leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        answer.offset = log.start_offset
        answer.leader_epoch = log.epoch_at(log.start_offset)
    elif timestamp == MAX_TIMESTAMP or timestamp >= 0:
        found = (
            log.offset_of_max_time()
            if timestamp == MAX_TIMESTAMP
            else log.offset_of_time(timestamp)
        )
        if found is not None:
            answer.offset, answer.timestamp, answer.leader_epoch = found
    # this cluster has no tiered storage, so there is no such offset
    elif timestamp not in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        answer.error_code = ErrorCode.UNSUPPORTED_VERSION


def refuse_list(request: ListOffsetsRequest, code: int) -> ListOffsetsResponse:
    """Return the same error for every partition."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.Topic(
                name=topic.name,
                partitions=[
                    ListOffsetsResponse.Topic.Partition(
                        partition_index=part.partition_index, error_code=code
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def offset_for_leader_epoch(
    call: Call, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Return the end offsets of leader epochs."""
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answers = []
        for part in topic.partitions:
            answer = OffsetForLeaderEpochResponse.Topic.Partition(partition=part.partition)
            with call.cluster.lock:
                found = find(
                    call, topic.topic, ZERO_UUID, part.partition, part.current_leader_epoch
                )
                answer.error_code = _error_of(call, topic.topic, part.partition, found.error)
                if answer.error_code == ErrorCode.NO_ERROR and found.partition is not None:
                    partition = found.partition
                    answer.leader_epoch, answer.end_offset = partition.log.end_of_epoch(
                        part.leader_epoch, partition.leader_epoch
                    )
            answers.append(answer)
        response.topics.append(
            OffsetForLeaderEpochResponse.Topic(topic=topic.topic, partitions=answers)
        )
    return response


def delete_records(call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Delete the beginning of logs."""
    response = DeleteRecordsResponse()
    for topic in request.topics:
        answers = []
        for part in topic.partitions:
            answer = DeleteRecordsResponse.Topic.Partition(
                partition_index=part.partition_index, low_watermark=-1
            )
            with call.cluster.lock:
                found = find(call, topic.name, ZERO_UUID, part.partition_index)
                answer.error_code = found.error
                if found.error == ErrorCode.NO_ERROR and found.partition is not None:
                    log = found.partition.log
                    offset = log.end_offset if part.offset == -1 else part.offset
                    if log.start_offset <= offset <= log.end_offset:
                        call.cluster.move_start(found.partition, offset)
                        answer.low_watermark = log.start_offset
                    else:
                        answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            answers.append(answer)
        response.topics.append(DeleteRecordsResponse.Topic(name=topic.name, partitions=answers))
    return response
