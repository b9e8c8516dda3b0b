"""FindCoordinator, and the classic group APIs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import migration
from kafka_native.mock.groups import Group, Member, State
from kafka_native.mock.membership import GroupClient, GroupError
from kafka_native.mock.topics import GROUP_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kafka_native.protocol.coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_native.protocol.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka_native.protocol.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from kafka_native.mock.call import Call
    from kafka_native.mock.consumer_groups import ConsumerGroup
    from kafka_native.mock.group_registry import AnyGroup

_FIRST_WITH_COORDINATORS = 4
_FIRST_WITH_LEAVERS = 3
_FIRST_WITH_PROTOCOL = 5
_CONSUMER = "consumer"
_GROUP_KEY, _TRANSACTION_KEY, _SHARE_KEY = range(3)
_STATE_TOPICS = {
    _GROUP_KEY: GROUP_OFFSETS,
    _TRANSACTION_KEY: TRANSACTION_STATE,
    _SHARE_KEY: SHARE_GROUP_STATE,
}


# --- coordinators ---


def find_coordinator(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Return the coordinators of groups or transactional ids."""
    with call.cluster.lock:
        if call.version >= _FIRST_WITH_COORDINATORS:
            keys, kind = request.coordinator_keys, request.key_type
            return FindCoordinatorResponse(
                coordinators=[_coordinator(call, key, kind) for key in keys]
            )
        found = _coordinator(call, request.key, request.key_type)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=None,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _coordinator(call: Call, key: str, kind: int) -> FindCoordinatorResponse.Coordinator:
    if kind == _GROUP_KEY and call.denies_group(key):
        return _no_coordinator(key, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if kind == _TRANSACTION_KEY and call.denies_transactional_id(key):
        return _no_coordinator(key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if kind in _STATE_TOPICS:
        with call.cluster.lock:
            call.cluster.ensure_internal_topic(_STATE_TOPICS[kind])
    broker = call.cluster.coordinator_of(key)
    if broker is None:
        return _no_coordinator(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return FindCoordinatorResponse.Coordinator(
        key=key,
        node_id=broker.id,
        host=broker.endpoint[0],
        port=broker.endpoint[1],
        error_message=None,
    )


def _no_coordinator(key: str, code: int) -> FindCoordinatorResponse.Coordinator:
    return FindCoordinatorResponse.Coordinator(
        key=key, node_id=-1, port=-1, error_code=code, error_message=None
    )


def refuse_find_coordinator(
    call: Call, request: FindCoordinatorRequest, code: int
) -> FindCoordinatorResponse:
    """Return the same error for every key."""
    if call.version >= _FIRST_WITH_COORDINATORS:
        return FindCoordinatorResponse(
            coordinators=[_no_coordinator(key, code) for key in request.coordinator_keys]
        )
    return FindCoordinatorResponse(error_code=code, error_message=None, node_id=-1, port=-1)


def check_group(call: Call, group_id: str) -> None:
    """Raise ``GroupError`` unless this broker coordinates the group and the client may see it."""
    groups = call.cluster.groups
    if call.denies_group(group_id):
        raise GroupError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    _check_coordinator(call, group_id)
    groups.coordinators.check_loaded(group_id)


def _check_coordinator(call: Call, group_id: str) -> None:
    """Raise ``GroupError`` unless this broker coordinates the group."""
    if call.cluster.coordinator_of(group_id) is not call.broker:
        raise GroupError(ErrorCode.NOT_COORDINATOR)


def _find_group(call: Call, group_id: str) -> AnyGroup:
    """Return a group that this broker coordinates. Raises ``GroupError``."""
    if not group_id:
        raise GroupError(ErrorCode.INVALID_GROUP_ID)
    check_group(call, group_id)
    group = call.cluster.groups.find(group_id)
    if group is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    return group


# --- membership ---


def _client(call: Call, group_id: str) -> GroupClient:
    return GroupClient(
        call.client_id,
        call.connection.peer[0],
        call.version,
        lambda: call.connection.is_closing,
        partial(_check_coordinator, call, group_id),
    )


def join_group(call: Call, request: JoinGroupRequest) -> JoinGroupResponse:
    """Let a member join, and wait for the others."""
    with call.cluster.lock:
        try:
            if not request.group_id:
                raise GroupError(ErrorCode.INVALID_GROUP_ID)
            check_group(call, request.group_id)
            group = call.cluster.groups.for_classic_join(request.group_id)
            if not isinstance(group, Group):
                return _join_consumer_group(group, call, request)
            joined = group.join(_client(call, group.id), request)
        except GroupError as error:
            name = None if call.version >= 7 else ""
            member_id = error.member_id or request.member_id
            return JoinGroupResponse(error_code=error.code, member_id=member_id, protocol_name=name)
        response = JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=joined.leader,
            skip_assignment=joined.skip_assignment,
            member_id=joined.member.id,
        )
        if joined.has_members:
            response.members = [_for_leader(group, one) for one in group.members.values()]
        return response


def _join_consumer_group(
    group: ConsumerGroup, call: Call, request: JoinGroupRequest
) -> JoinGroupResponse:
    joined = migration.join(group, _client(call, group.id), request)
    return JoinGroupResponse(
        generation_id=group.members[joined.id].epoch,
        protocol_type=_CONSUMER,
        protocol_name=request.protocols[0].name,
        leader="",
        member_id=joined.id,
    )


def _for_leader(group: Group, member: Member) -> JoinGroupResponse.Member:
    metadata = member.protocols.get(group.protocol or "", b"")
    if group.edit_metadata is not None:
        metadata = group.edit_metadata(member.id, metadata)
    return JoinGroupResponse.Member(
        member_id=member.id, group_instance_id=member.instance_id, metadata=metadata
    )


def sync_group(call: Call, request: SyncGroupRequest) -> SyncGroupResponse:
    """Wait for the assignment. The leader's request contains it."""
    with call.cluster.lock:
        try:
            group = _find_group(call, request.group_id)
            if call.version >= _FIRST_WITH_PROTOCOL and None in (
                request.protocol_type,
                request.protocol_name,
            ):
                raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if not isinstance(group, Group):
                name, assignment = migration.sync(group, request, call.cluster.topics)
                return SyncGroupResponse(
                    protocol_type=_CONSUMER, protocol_name=name, assignment=assignment
                )
            member = group.sync(_client(call, group.id), request)
        except GroupError as error:
            return SyncGroupResponse(error_code=error.code)
        return SyncGroupResponse(
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            assignment=member.assignment,
        )


def heartbeat(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    """Restart the member's session."""
    with call.cluster.lock:
        try:
            group = _find_group(call, request.group_id)
            if isinstance(group, Group):
                group.heartbeat(request.member_id, request.group_instance_id, request.generation_id)
            else:
                migration.heartbeat(
                    group, request.member_id, request.group_instance_id, request.generation_id
                )
        except GroupError as error:
            return HeartbeatResponse(error_code=error.code)
    return HeartbeatResponse()


def leave_group(call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Remove members from their group."""
    with call.cluster.lock:
        try:
            group = _find_group(call, request.group_id)
            if call.version < _FIRST_WITH_LEAVERS:
                _leave(group, request.member_id, None, None)
                return LeaveGroupResponse()
        except GroupError as error:
            return LeaveGroupResponse(error_code=error.code)
        response = LeaveGroupResponse()
        for member in request.members:
            answer = LeaveGroupResponse.Member(
                member_id=member.member_id, group_instance_id=member.group_instance_id
            )
            response.members.append(answer)
            try:
                _leave(group, member.member_id, member.group_instance_id, member.reason)
            except GroupError as error:
                answer.error_code = error.code
        return response


def _leave(group: AnyGroup, member_id: str, instance_id: str | None, reason: str | None) -> None:
    if isinstance(group, Group):
        group.leave(member_id, instance_id, reason)
    else:
        migration.leave(group, member_id, instance_id, reason)


# --- descriptions ---


def describe_groups(call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Return state and members of groups. A group that doesn't exist is ``Dead``."""
    response = DescribeGroupsResponse()
    with call.cluster.lock:
        for name in request.groups:
            answer = DescribeGroupsResponse.Group(group_id=name, group_state=State.DEAD.value)
            response.groups.append(answer)
            try:
                group = _find_group(call, name)
                if not isinstance(group, Group):
                    raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
            except GroupError as error:
                if error.code != ErrorCode.UNKNOWN_MEMBER_ID:
                    answer.error_code = error.code
                elif call.version >= 6:
                    answer.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                    answer.error_message = f"there is no classic group {name}"
                continue
            answer.group_state = group.state.value
            answer.protocol_type = group.protocol_type
            is_stable = group.state is State.STABLE
            answer.protocol_data = (group.protocol or "") if is_stable else ""
            answer.members = [
                DescribeGroupsResponse.Group.Member(
                    member_id=member.id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=f"/{member.host}",
                    member_metadata=member.protocols.get(group.protocol or "", b"")
                    if is_stable
                    else b"",
                    member_assignment=member.assignment,
                )
                for member in group.members.values()
            ]
    return response


def list_groups(call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    """Return the groups that this broker coordinates."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    with call.cluster.lock:
        return ListGroupsResponse(
            groups=[
                ListGroupsResponse.Group(
                    group_id=group.id,
                    protocol_type=group.protocol_type or _CONSUMER,
                    group_state=group.state.value,
                    group_type=group.type,
                )
                for group in (*call.cluster.groups.all(), *call.cluster.share.all())
                if call.cluster.coordinator_of(group.id) is call.broker
                and (not states or group.state.value.lower() in states)
                and (not types or group.type in types)
            ]
        )


def delete_groups(call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete groups without members."""
    response = DeleteGroupsResponse()
    with call.cluster.lock:
        for name in request.groups_names:
            try:
                check_group(call, name)
                code = call.cluster.groups.delete(name)
                if code == ErrorCode.GROUP_ID_NOT_FOUND:
                    call.cluster.share.delete(name)
                    code = ErrorCode.NO_ERROR
            except GroupError as error:
                code = error.code
            response.results.append(DeleteGroupsResponse.Group(group_id=name, error_code=code))
    return response
