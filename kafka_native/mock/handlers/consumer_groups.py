"""ConsumerGroupHeartbeat and ConsumerGroupDescribe (KIP-848)."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.assignors import ASSIGNORS
from kafka_native.mock.consumer_groups import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_MEMBER_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    check_first_heartbeat,
)
from kafka_native.mock.handlers.groups import check_group
from kafka_native.mock.membership import GroupError
from kafka_native.mock.streams_groups import StreamsGroup
from kafka_native.protocol.group_admin import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    MemberAssignment,
)
from kafka_native.protocol.groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from kafka_native.mock.assignors import Key
    from kafka_native.mock.call import Call

_FIRST_WITH_OWN_IDS = 1
_CONSUMER_TYPE = 1
_CLASSIC_TYPE = 0


def heartbeat(call: Call, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    """Let a member join, stay or leave."""
    with call.cluster.lock:
        try:
            _check(call, request)
            check_group(call, request.group_id)
            return _heartbeat(call, request)
        except GroupError as error:
            return ConsumerGroupHeartbeatResponse(
                error_code=error.code, error_message=error.text, assignment=None
            )


def _check(call: Call, request: ConsumerGroupHeartbeatRequest) -> None:
    """Raise ``GroupError`` if a request contradicts itself."""
    text = ""
    if not request.group_id:
        text = "GroupId can't be empty."
    elif request.instance_id == "":
        text = "InstanceId can't be empty."
    elif request.rack_id == "":
        text = "RackId can't be empty."
    elif not request.member_id and (
        call.version >= _FIRST_WITH_OWN_IDS or request.member_epoch != JOIN_EPOCH
    ):
        text = "MemberId can't be empty."
    elif request.member_epoch == LEAVE_STATIC_MEMBER_EPOCH and request.instance_id is None:
        text = "InstanceId can't be null."
    elif request.member_epoch < LEAVE_STATIC_MEMBER_EPOCH:
        text = "MemberEpoch is invalid."
    if text:
        raise GroupError(ErrorCode.INVALID_REQUEST, text=text)
    if request.member_epoch == JOIN_EPOCH:
        check_first_heartbeat(request)
    if request.server_assignor is not None and request.server_assignor not in ASSIGNORS:
        names = ", ".join(ASSIGNORS)
        text = (
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {names}."
        )
        raise GroupError(ErrorCode.UNSUPPORTED_ASSIGNOR, text=text)
    if any(map(call.denies_topic, request.subscribed_topic_names or ())):
        raise GroupError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _heartbeat(
    call: Call, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    joins = request.member_epoch == JOIN_EPOCH
    group = call.cluster.groups.for_heartbeat(request.group_id, make=joins)
    if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_MEMBER_EPOCH):
        epoch = group.leave(request.member_id, request.instance_id, request.member_epoch)
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=epoch, assignment=None
        )
    if not request.member_id:
        request.member_id = str(uuid.uuid4())
    member, has_assignment = group.heartbeat(request, call.client_id, call.connection.peer[0])
    return ConsumerGroupHeartbeatResponse(
        member_id=member.id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=group.heartbeat_ms(),
        assignment=_assignment(member.assigned) if has_assignment else None,
    )


def _by_topic(assigned: set[Key]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(assigned):
        found.setdefault(topic_id, []).append(index)
    return found


def _assignment(assigned: set[Key]) -> ConsumerGroupHeartbeatResponse.Assignment:
    part = ConsumerGroupHeartbeatResponse.Assignment.TopicPartitions
    return ConsumerGroupHeartbeatResponse.Assignment(
        topic_partitions=[
            part(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in _by_topic(assigned).items()
        ]
    )


def describe(call: Call, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    """Return state, epochs and members of groups."""
    response = ConsumerGroupDescribeResponse()
    with call.cluster.lock:
        for name in request.group_ids:
            answer = ConsumerGroupDescribeResponse.Group(group_id=name)
            response.groups.append(answer)
            try:
                if not name:
                    raise GroupError(ErrorCode.INVALID_GROUP_ID)
                check_group(call, name)
                group = call.cluster.groups.find(name)
                if not isinstance(group, ConsumerGroup) or isinstance(group, StreamsGroup):
                    text = (
                        f"Group {name} is not a consumer group."
                        if group
                        else f"Group {name} not found."
                    )
                    raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, text=text)
            except GroupError as error:
                answer.error_code, answer.error_message = error.code, error.text
                continue
            answer.group_state = group.state.value
            answer.group_epoch, answer.assignment_epoch = group.epoch, group.target_epoch
            answer.assignor_name = group.assignor
            answer.members = [
                _describe_member(call, group, member) for member in group.members.values()
            ]
    return response


def _describe_member(
    call: Call, group: ConsumerGroup, member: ConsumerMember
) -> ConsumerGroupDescribeResponse.Group.Member:
    return ConsumerGroupDescribeResponse.Group.Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id or None,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=f"/{member.host}",
        subscribed_topic_names=member.topics,
        subscribed_topic_regex=member.regex or None,
        assignment=describe_assignment(call, member.assigned),
        target_assignment=describe_assignment(call, group.target.get(member.id, set())),
        member_type=_CONSUMER_TYPE if member.classic is None else _CLASSIC_TYPE,
    )


def describe_assignment(call: Call, assigned: set[Key]) -> MemberAssignment:
    """Return an assignment with the names of its topics."""
    parts = []
    for topic_id, indexes in _by_topic(assigned).items():
        topic = call.cluster.topic_by_id(topic_id)
        if topic is not None:
            parts.append(
                MemberAssignment.TopicPartitions(
                    topic_id=topic_id, topic_name=topic.name, partitions=indexes
                )
            )
    return MemberAssignment(topic_partitions=parts)
