"""StreamsGroupHeartbeat and StreamsGroupDescribe (KIP-1071)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.consumer_groups import JOIN_EPOCH, LEAVE_EPOCH
from kafka_native.mock.handlers.groups import check_group
from kafka_native.mock.membership import GroupError
from kafka_native.mock.streams_groups import StreamsGroup, StreamsMember, task_ids
from kafka_native.protocol.streams import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from kafka_native.mock.call import Call

_NOT_REQUESTED, _NOT_STORED = 0, 1  # states of the description of a topology


def heartbeat(call: Call, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
    """Let a member join, stay or leave."""
    with call.cluster.lock:
        try:
            _check(request)
            check_group(call, request.group_id)
            return _heartbeat(call, request)
        except GroupError as error:
            return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.text)


def _check(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise ``GroupError`` if a request contradicts itself."""
    text = ""
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if not request.member_id:
        text = "MemberId can't be empty."
    elif not request.group_id:
        text = "GroupId can't be empty."
    elif request.member_epoch < LEAVE_EPOCH:
        text = "MemberEpoch is invalid."
    elif len({each is None for each in tasks}) > 1:
        text = "If one task-type is non-null, all must be non-null."
    elif request.member_epoch != JOIN_EPOCH:
        if request.topology is not None:
            text = "Topology can only be provided when (re-)joining."
    elif request.rebalance_timeout_ms == -1:
        text = "RebalanceTimeoutMs must be provided in first request."
    elif tasks != ([], [], []):
        text = "ActiveTasks, StandbyTasks and WarmupTasks must be empty when (re-)joining."
    elif request.topology is None:
        text = "Topology must be non-null when (re-)joining."
    if text:
        raise GroupError(ErrorCode.INVALID_REQUEST, text=text)


def _heartbeat(call: Call, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
    group = call.cluster.groups.for_streams_heartbeat(
        request.group_id, make=request.member_epoch == JOIN_EPOCH
    )
    if request.member_epoch == LEAVE_EPOCH:
        if request.shutdown_application:
            group.shutdown_by = request.member_id
        epoch = group.leave(request.member_id, None, LEAVE_EPOCH)
        return StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=epoch)
    member, has_tasks = group.let_in(request, call.client_id, call.connection.peer[0])
    for name, (partitions, info) in group.missing_internal_topics().items():
        replicas = info.replication_factor if info.replication_factor > 0 else None
        planned = call.cluster.plan_topic(name, partitions, replicas, None)
        configs = {each.key: each.value for each in info.topic_configs}
        call.cluster.add_topic(name, planned, configs)
    return _response(group, member, request, has_tasks)


def _response(
    group: StreamsGroup,
    member: StreamsMember,
    request: StreamsGroupHeartbeatRequest,
    has_tasks: bool,
) -> StreamsGroupHeartbeatResponse:
    response = StreamsGroupHeartbeatResponse(
        member_id=member.id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=group.heartbeat_ms(),
        status=group.statuses(member),
        endpoint_information_epoch=group.endpoint_epoch,
    )
    if has_tasks:
        response.active_tasks, response.standby_tasks, response.warmup_tasks = map(
            task_ids, member.tasks()
        )
    if request.endpoint_information_epoch != group.endpoint_epoch:
        response.partitions_by_user_endpoint = group.endpoints()
    return response


def describe(call: Call, request: StreamsGroupDescribeRequest) -> StreamsGroupDescribeResponse:
    """Return streams groups with their topologies, members and tasks."""
    response = StreamsGroupDescribeResponse()
    with call.cluster.lock:
        for name in request.group_ids:
            try:
                check_group(call, name)
                group = call.cluster.groups.find(name)
                if not isinstance(group, StreamsGroup):
                    text = (
                        f"Group {name} is not a streams group."
                        if group
                        else f"Group {name} not found."
                    )
                    raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, text=text)
                response.groups.append(_requested(group.describe(), request))
            except GroupError as error:
                refused = StreamsGroupDescribeResponse.Group(
                    group_id=name, error_code=error.code, error_message=error.text
                )
                response.groups.append(refused)
    return response


def _requested(
    group: StreamsGroupDescribeResponse.Group, request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse.Group:
    """Return the group with the description of its topology only if it is requested."""
    group = copy.copy(group)
    if not request.include_topology_description:
        group.topology_description, group.topology_description_status = None, _NOT_REQUESTED
    elif group.topology_description is None:
        group.topology_description_status = _NOT_STORED
    return group
