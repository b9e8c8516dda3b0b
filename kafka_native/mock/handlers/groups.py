"""FindCoordinator, the classic group APIs, and the offsets of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.groups import MOST_METADATA_BYTES, Committed, Group, GroupError, Member, State
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
from kafka_native.protocol.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka_native.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kafka_native.mock.call import Call

_FIRST_WITH_COORDINATORS = 4
_FIRST_WITH_LEAVERS = 3
_FIRST_WITH_GROUPS = 8
_NOTHING = Committed(-1, -1, "")
_CONSUMER = "consumer"


# --- coordinators ---


def find_coordinator(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Who looks after groups (and, some day, transactions)."""
    with call.cluster.lock:
        if call.version >= _FIRST_WITH_COORDINATORS:
            return FindCoordinatorResponse(coordinators=[_coordinator(call, key) for key in request.coordinator_keys])
        found = _coordinator(call, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code, error_message=None, node_id=found.node_id, host=found.host, port=found.port
    )


def _coordinator(call: Call, key: str) -> FindCoordinatorResponse.Coordinator:
    broker = call.cluster.coordinator_of(key)
    if broker is None:
        return _no_coordinator(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return FindCoordinatorResponse.Coordinator(
        key=key, node_id=broker.id, host=broker.endpoint[0], port=broker.endpoint[1], error_message=None
    )


def _no_coordinator(key: str, code: int) -> FindCoordinatorResponse.Coordinator:
    return FindCoordinatorResponse.Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=None)


def coordinator_refused(call: Call, request: FindCoordinatorRequest, code: int) -> FindCoordinatorResponse:
    """The same error for every key."""
    if call.version >= _FIRST_WITH_COORDINATORS:
        return FindCoordinatorResponse(coordinators=[_no_coordinator(key, code) for key in request.coordinator_keys])
    return FindCoordinatorResponse(error_code=code, error_message=None, node_id=-1, port=-1)


def _own_group(call: Call, group_id: str, *, make: bool = False) -> Group:
    """A group that this broker coordinates. Raises ``GroupError``."""
    cluster = call.cluster
    if not group_id:
        raise GroupError(ErrorCode.INVALID_GROUP_ID)
    if cluster.coordinator_of(group_id) is not call.broker:
        raise GroupError(ErrorCode.NOT_COORDINATOR)
    group = cluster.groups.find_or_make(group_id) if make else cluster.groups.find(group_id)
    if group is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    return group


# --- membership ---


def join_group(call: Call, request: JoinGroupRequest) -> JoinGroupResponse:
    """Join, and wait for the others."""
    with call.cluster.lock:
        try:
            group = _own_group(call, request.group_id, make=True)
            member = group.join(call, request)
        except GroupError as error:
            name = None if call.version >= 7 else ""
            member_id = error.member_id or request.member_id
            return JoinGroupResponse(error_code=error.code, member_id=member_id, protocol_name=name)
        response = JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=group.leader,
            member_id=member.id,
        )
        if member.id == group.leader:
            response.members = [_for_leader(group, one) for one in group.members.values()]
        return response


def _for_leader(group: Group, member: Member) -> JoinGroupResponse.Member:
    return JoinGroupResponse.Member(
        member_id=member.id,
        group_instance_id=member.instance_id,
        metadata=member.protocols.get(group.protocol or "", b""),
    )


def sync_group(call: Call, request: SyncGroupRequest) -> SyncGroupResponse:
    """Give and get the assignment."""
    with call.cluster.lock:
        try:
            group = _own_group(call, request.group_id)
            member = group.sync(call, request)
        except GroupError as error:
            return SyncGroupResponse(error_code=error.code)
        return SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
        )


def heartbeat(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    """Stay a member."""
    with call.cluster.lock:
        try:
            group = _own_group(call, request.group_id)
            group.heartbeat(request.member_id, request.group_instance_id, request.generation_id)
        except GroupError as error:
            return HeartbeatResponse(error_code=error.code)
    return HeartbeatResponse()


def leave_group(call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Leave."""
    with call.cluster.lock:
        try:
            group = _own_group(call, request.group_id)
            if call.version < _FIRST_WITH_LEAVERS:
                group.leave(request.member_id, None)
                return LeaveGroupResponse()
        except GroupError as error:
            return LeaveGroupResponse(error_code=error.code)
        response = LeaveGroupResponse()
        for member in request.members:
            answer = LeaveGroupResponse.Member(member_id=member.member_id, group_instance_id=member.group_instance_id)
            response.members.append(answer)
            try:
                group.leave(member.member_id, member.group_instance_id)
            except GroupError as error:
                answer.error_code = error.code
        return response


# --- offsets ---


def offset_commit(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Store offsets."""
    cluster = call.cluster
    with cluster.lock:
        try:
            group = _own_group(call, request.group_id, make=True)
            generation = request.generation_id_or_member_epoch
            group.check_commit(request.member_id, request.group_instance_id, generation)
        except GroupError as error:
            return commit_refused(request, error.code)
        response = OffsetCommitResponse()
        for topic in request.topics:
            by_name = topic.topic_id == ZERO_UUID
            found = cluster.topics.get(topic.name) if by_name else cluster.topic_by_id(topic.topic_id)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID
            answers = []
            for part in topic.partitions:
                text = part.committed_metadata or ""
                code = ErrorCode.NO_ERROR
                if found is None:
                    code = unknown
                elif found.partition(part.partition_index) is None:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif len(text.encode("utf-8", "surrogatepass")) > MOST_METADATA_BYTES:
                    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    stored = Committed(part.committed_offset, part.committed_leader_epoch, text)
                    group.offsets[found.name, part.partition_index] = stored
                answers.append(
                    OffsetCommitResponse.Topic.Partition(partition_index=part.partition_index, error_code=code)
                )
            response.topics.append(
                OffsetCommitResponse.Topic(name=topic.name, topic_id=topic.topic_id, partitions=answers)
            )
        return response


def commit_refused(request: OffsetCommitRequest, code: int) -> OffsetCommitResponse:
    """The same error for every partition."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.Topic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponse.Topic.Partition(partition_index=part.partition_index, error_code=code)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def offset_fetch(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Read stored offsets."""
    with call.cluster.lock:
        if call.version >= _FIRST_WITH_GROUPS:
            return OffsetFetchResponse(groups=[_group_offsets(call, asked) for asked in request.groups])
        try:
            offsets = _stored(call, request.group_id)
        except GroupError as error:
            return fetch_refused(call, request, error.code)
        if request.topics is None:
            wanted = _by_topic(offsets)
        else:
            wanted = [(topic.name, topic.partition_indexes) for topic in request.topics]
        response = OffsetFetchResponse()
        for name, indexes in wanted:
            answer = OffsetFetchResponse.Topic(name=name)
            for index in indexes:
                found = offsets.get((name, index), _NOTHING)
                answer.partitions.append(
                    OffsetFetchResponse.Topic.Partition(
                        partition_index=index,
                        committed_offset=found.offset,
                        committed_leader_epoch=found.leader_epoch,
                        metadata=found.metadata,
                    )
                )
            response.topics.append(answer)
        return response


def _stored(call: Call, group_id: str) -> dict[tuple[str, int], Committed]:
    if call.cluster.coordinator_of(group_id) is not call.broker:
        raise GroupError(ErrorCode.NOT_COORDINATOR)
    group = call.cluster.groups.find(group_id)
    return {} if group is None else group.offsets


def _by_topic(offsets: dict[tuple[str, int], Committed]) -> list[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for name, index in sorted(offsets):
        found.setdefault(name, []).append(index)
    return list(found.items())


def _group_offsets(call: Call, asked: OffsetFetchRequest.Group) -> OffsetFetchResponse.Group:
    response = OffsetFetchResponse.Group(group_id=asked.group_id)
    try:
        offsets = _stored(call, asked.group_id)
    except GroupError as error:
        response.error_code = error.code
        return response
    cluster = call.cluster
    wanted: list[tuple[str, bytes, list[int]]] = []
    if asked.topics is None:
        for name, indexes in _by_topic(offsets):
            known = cluster.topics.get(name)
            wanted.append((name, ZERO_UUID if known is None else known.id, indexes))
    else:
        for topic in asked.topics:
            by_id = cluster.topic_by_id(topic.topic_id)
            wanted.append((topic.name if by_id is None else by_id.name, topic.topic_id, topic.partition_indexes))
    for name, topic_id, indexes in wanted:
        answer = OffsetFetchResponse.Group.Topic(name=name, topic_id=topic_id)
        is_unknown = call.version >= 10 and cluster.topic_by_id(topic_id) is None
        for index in indexes:
            found = offsets.get((name, index), _NOTHING)
            answer.partitions.append(
                OffsetFetchResponse.Group.Topic.Partition(
                    partition_index=index,
                    committed_offset=found.offset,
                    committed_leader_epoch=found.leader_epoch,
                    metadata=found.metadata,
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID if is_unknown else ErrorCode.NO_ERROR,
                )
            )
        response.topics.append(answer)
    return response


def fetch_refused(call: Call, request: OffsetFetchRequest, code: int) -> OffsetFetchResponse:
    """The same error for every group; in version 1, which has no place for that, for every partition."""
    if call.version >= _FIRST_WITH_GROUPS:
        groups = [OffsetFetchResponse.Group(group_id=asked.group_id, error_code=code) for asked in request.groups]
        return OffsetFetchResponse(groups=groups)
    response = OffsetFetchResponse(error_code=code)
    for topic in request.topics or ():
        response.topics.append(
            OffsetFetchResponse.Topic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponse.Topic.Partition(
                        partition_index=index, committed_offset=-1, metadata="", error_code=code
                    )
                    for index in topic.partition_indexes
                ],
            )
        )
    return response


def offset_delete(call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Forget stored offsets."""
    with call.cluster.lock:
        try:
            group = _own_group(call, request.group_id)
        except GroupError as error:
            unknown = error.code == ErrorCode.UNKNOWN_MEMBER_ID
            return OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND if unknown else error.code)
        response = OffsetDeleteResponse()
        for topic in request.topics:
            answer = OffsetDeleteResponse.Topic(name=topic.name)
            for part in topic.partitions:
                group.offsets.pop((topic.name, part.partition_index), None)
                answer.partitions.append(OffsetDeleteResponse.Topic.Partition(partition_index=part.partition_index))
            response.topics.append(answer)
        return response


# --- seen from outside ---


def describe_groups(call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """State and members of groups; one that doesn't exist is shown as dead."""
    response = DescribeGroupsResponse()
    with call.cluster.lock:
        for name in request.groups:
            answer = DescribeGroupsResponse.Group(group_id=name, group_state=State.DEAD.value)
            response.groups.append(answer)
            try:
                group = _own_group(call, name)
            except GroupError as error:
                if error.code != ErrorCode.UNKNOWN_MEMBER_ID:
                    answer.error_code = error.code
                elif call.version >= 6:
                    answer.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                    answer.error_message = f"there is no group {name}"
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
                    member_metadata=member.protocols.get(group.protocol or "", b"") if is_stable else b"",
                    member_assignment=member.assignment,
                )
                for member in group.members.values()
            ]
    return response


def list_groups(call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    """The groups that this broker coordinates."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    with call.cluster.lock:
        return ListGroupsResponse(
            groups=[
                ListGroupsResponse.Group(
                    group_id=group.id,
                    protocol_type=group.protocol_type or _CONSUMER,
                    group_state=group.state.value,
                    group_type="classic",
                )
                for group in call.cluster.groups.all()
                if call.cluster.coordinator_of(group.id) is call.broker
                and (not states or group.state.value.lower() in states)
                and (not types or "classic" in types)
            ]
        )


def delete_groups(call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete groups without members."""
    response = DeleteGroupsResponse()
    with call.cluster.lock:
        for name in request.groups_names:
            if call.cluster.coordinator_of(name) is not call.broker:
                code = ErrorCode.NOT_COORDINATOR
            else:
                code = call.cluster.groups.delete(name)
            response.results.append(DeleteGroupsResponse.Group(group_id=name, error_code=code))
    return response
