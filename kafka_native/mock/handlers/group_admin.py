"""Descriptions of share groups (KIP-932).

Also the admin APIs for the offsets of share groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.handlers.consumer_groups import describe_assignment
from kafka_native.mock.handlers.groups import check_group
from kafka_native.mock.membership import GroupError
from kafka_native.protocol.group_admin import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from kafka_native.protocol.share import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from kafka_native.protocol.streams import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse

if TYPE_CHECKING:
    from kafka_native.mock.call import Call
    from kafka_native.mock.share_groups import ShareGroup
    from kafka_native.mock.share_partitions import SharePartition

_OFFSETS = DescribeShareGroupOffsetsResponse.Group


def _find_share_group(call: Call, group_id: str) -> ShareGroup:
    """Return a share group that this broker coordinates. Raises ``GroupError``."""
    if not group_id:
        raise GroupError(ErrorCode.INVALID_GROUP_ID)
    check_group(call, group_id)
    group = call.cluster.share.find(group_id, make=False)
    group.tick()
    return group


def describe_share(call: Call, request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
    """Return state, epoch and members of share groups."""
    response = ShareGroupDescribeResponse()
    with call.cluster.lock:
        for name in request.group_ids:
            answer = ShareGroupDescribeResponse.Group(group_id=name)
            response.groups.append(answer)
            try:
                group = _find_share_group(call, name)
            except GroupError as error:
                answer.error_code, answer.error_message = error.code, error.text
                continue
            answer.group_state = group.state.value
            answer.group_epoch = answer.assignment_epoch = group.epoch
            answer.assignor_name = "simple"
            answer.members = [
                ShareGroupDescribeResponse.Group.Member(
                    member_id=member.id,
                    member_epoch=member.epoch,
                    client_id=member.client_id,
                    client_host=f"/{member.host}",
                    subscribed_topic_names=member.topics,
                    assignment=describe_assignment(call, member.assigned),
                )
                for member in group.members.values()
            ]
    return response


def describe_offsets(
    call: Call, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    """Return the start offsets of share groups: the records before them are done."""
    response = DescribeShareGroupOffsetsResponse()
    with call.cluster.lock:
        for requested in request.groups:
            answer = _OFFSETS(group_id=requested.group_id)
            response.groups.append(answer)
            held: dict[str, dict[int, SharePartition]] = {}
            try:
                held = _find_share_group(call, requested.group_id).topics_of()
            except GroupError as error:
                # a group that doesn't exist has no offsets
                if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                    answer.error_code, answer.error_message = error.code, error.text
                    continue
            wanted = {name: list(parts) for name, parts in held.items()}
            if requested.topics is not None:
                wanted = {topic.topic_name: topic.partitions for topic in requested.topics}
            answer.topics = [
                _topic_offsets(call, held.get(name, {}), name, numbers)
                for name, numbers in wanted.items()
            ]
    return response


def _topic_offsets(
    call: Call, held: dict[int, SharePartition], name: str, numbers: list[int]
) -> _OFFSETS.Topic:
    topic = call.cluster.topics.get(name)
    answer = _OFFSETS.Topic(topic_name=name)
    if topic is not None:
        answer.topic_id = topic.id
    for number in numbers:
        one = _OFFSETS.Topic.Partition(partition_index=number, start_offset=-1, leader_epoch=0)
        answer.partitions.append(one)
        if number in held:
            part = held[number]
            one.start_offset, one.leader_epoch, one.lag = part.start, part.leader_epoch, part.lag
    return answer


def alter_offsets(
    call: Call, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    """Change the start offsets of a group without members."""
    with call.cluster.lock:
        try:
            check_group(call, request.group_id)
            call.cluster.share.find(request.group_id, make=True)  # Kafka creates the group too
            group = call.cluster.share.without_members(request.group_id)
        except GroupError as error:
            return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.text)
        response = AlterShareGroupOffsetsResponse()
        for requested in request.topics:
            topic = call.cluster.topics.get(requested.topic_name)
            answer = AlterShareGroupOffsetsResponse.Topic(topic_name=requested.topic_name)
            response.responses.append(answer)
            for part in requested.partitions:
                one = AlterShareGroupOffsetsResponse.Topic.Partition(
                    partition_index=part.partition_index
                )
                answer.partitions.append(one)
                if topic is None or topic.partition(part.partition_index) is None:
                    one.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    group.partition(topic, part.partition_index).move(part.start_offset)
        return response


def delete_offsets(
    call: Call, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    """Delete the offsets of topics in a group without members."""
    with call.cluster.lock:
        try:
            _find_share_group(call, request.group_id)
            group = call.cluster.share.without_members(request.group_id)
        except GroupError as error:
            return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.text)
        response = DeleteShareGroupOffsetsResponse()
        for requested in request.topics:
            topic = call.cluster.topics.get(requested.topic_name)
            answer = DeleteShareGroupOffsetsResponse.Topic(topic_name=requested.topic_name)
            response.responses.append(answer)
            if topic is None:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                answer.topic_id = topic.id
                group.forget(topic)
        return response


def refuse_describe(
    request: ShareGroupDescribeRequest
    | StreamsGroupDescribeRequest
    | DescribeShareGroupOffsetsRequest,
    code: int,
) -> ShareGroupDescribeResponse | StreamsGroupDescribeResponse | DescribeShareGroupOffsetsResponse:
    """Return the same error for every group."""
    if isinstance(request, DescribeShareGroupOffsetsRequest):
        groups = [_OFFSETS(group_id=each.group_id, error_code=code) for each in request.groups]
        return DescribeShareGroupOffsetsResponse(groups=groups)
    if isinstance(request, ShareGroupDescribeRequest):
        share = ShareGroupDescribeResponse.Group
        return ShareGroupDescribeResponse(
            groups=[share(group_id=each, error_code=code) for each in request.group_ids]
        )
    streams = StreamsGroupDescribeResponse.Group
    return StreamsGroupDescribeResponse(
        groups=[streams(group_id=each, error_code=code) for each in request.group_ids]
    )
