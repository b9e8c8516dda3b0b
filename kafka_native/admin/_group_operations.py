"""The operations about groups. They run on the control thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kafka_native.admin._acl import AclOperation
from kafka_native.admin._group import (
    ConsumerGroupDescription,
    ConsumerGroupListing,
    ListConsumerGroupsResult,
    MemberAssignment,
    MemberDescription,
)
from kafka_native.admin._metadata import BrokerMetadata, GroupMember, GroupMetadata
from kafka_native.admin._topic_operations import operations_of, told
from kafka_native.control.assignors import wire
from kafka_native.control.operations import Ask, Operation, Same, Settle, Steps
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.protocol.group_admin import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka_native.protocol.group_admin import MemberAssignment as WireAssignment
from kafka_native.protocol.groups import LeaveGroupRequest, LeaveGroupResponse
from kafka_native.protocol.schema import Request
from kafka_native.types import ConsumerGroupState, ConsumerGroupType, Node, TopicPartition

STATE_NAMES = {
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.EMPTY: "Empty",
    ConsumerGroupState.ASSIGNING: "Assigning",
    ConsumerGroupState.RECONCILING: "Reconciling",
    ConsumerGroupState.NOT_READY: "NotReady",
    ConsumerGroupState.UNKNOWN: "Unknown",
}
TYPE_NAMES = {
    ConsumerGroupType.CONSUMER: "Consumer",
    ConsumerGroupType.CLASSIC: "Classic",
    ConsumerGroupType.SHARE: "Share",
    ConsumerGroupType.STREAMS: "Streams",
}
STATES = {name.lower(): state for state, name in STATE_NAMES.items()}
TYPES = {name.lower(): kind for kind, name in TYPE_NAMES.items()}
OF_CONSUMERS = frozenset({"consumer", ""})
"""The protocol types of consumers' groups; those without members that subscribe have none."""
OTHERS = {ConsumerGroupType.SHARE: "share", ConsumerGroupType.STREAMS: "streams"}
"""The protocol types of groups that are no consumers' groups."""
NOT_OF_ITS_KIND = frozenset(
    {KafkaError.GROUP_ID_NOT_FOUND, KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE}
)
"""What ConsumerGroupDescribe answers about a classic group, and what brokers say that don't know KIP-848."""


def state_of(name: str) -> ConsumerGroupState:
    """A state by the broker's name for it."""
    return STATES.get(name.lower(), ConsumerGroupState.UNKNOWN)


def type_of(name: str) -> ConsumerGroupType:
    """A type by the broker's name for it."""
    return TYPES.get(name.lower(), ConsumerGroupType.UNKNOWN)


def list_groups(states: list[str], types: list[str], items: list[Any]) -> Request:
    """The request; each broker is asked for its own."""
    return ListGroupsRequest(states_filter=states, types_filter=types)


def each_broker(make: Callable[[list[Any]], Request], operation: Operation) -> Steps[dict[int, Any]]:
    """What each broker says: its reply, or a KafkaError."""
    cluster = yield from operation.cluster()
    replies: dict[int, Any] = {}

    def place(keys: list[int]) -> Steps[dict[Any, Any]]:
        return operation.nodes(keys, lambda node: node)

    def outcomes(reply: Any, target: int | None) -> dict[Any, Any]:
        return {target: told(reply.error_code) or reply}

    yield from operation.rounds(
        [each.node_id for each in cluster.brokers],
        place,
        lambda nodes: make([]),
        outcomes,
        replies.__setitem__,
        change=False,
    )
    return replies


def list_consumer_groups(
    protocol_types: frozenset[str],
    make: Callable[[list[Any]], Request],
    items: dict[Any, Any],
    settle: Settle,
    operation: Operation,
) -> Steps[None]:
    """ListGroups, of every broker; settles the one item with the groups of these protocol types."""
    replies = yield from each_broker(make, operation)
    found: dict[str, ConsumerGroupListing] = {}
    errors: list[Exception] = []
    for reply in replies.values():
        if isinstance(reply, KafkaError):
            errors.append(KafkaException(reply))
            continue
        for group in reply.groups:
            if group.protocol_type in protocol_types:
                found[group.group_id] = ConsumerGroupListing(
                    group.group_id, not group.protocol_type, state_of(group.group_state), type_of(group.group_type)
                )
    for key in items:
        settle(key, ListConsumerGroupsResult(list(found.values()), errors))


def describe_all(
    wanted: str | None,
    make: Callable[[list[Any]], Request],
    items: dict[Any, Any],
    settle: Settle,
    operation: Operation,
) -> Steps[None]:
    """ListGroups of every broker, and DescribeGroups for classic groups; settles the one item with GroupMetadata."""
    replies = yield from each_broker(make, operation)
    found: dict[int, dict[str, GroupMetadata]] = {}
    for node_id, reply in replies.items():
        if isinstance(reply, KafkaError):
            raise KafkaException(reply)
        found[node_id] = {
            each.group_id: _metadata_of(each, operation.pool.where(node_id))
            for each in reply.groups
            if wanted in (None, each.group_id)
        }
    others = (ConsumerGroupType.CONSUMER, *OTHERS)  # before KIP-848 brokers don't tell: all groups are classic there
    classic = {node_id: [str(e.id) for e in some.values() if e.type not in others] for node_id, some in found.items()}
    asks = [Ask(DescribeGroupsRequest(groups=names), node_id) for node_id, names in classic.items() if names]
    answers = yield asks
    for ask, answer in zip(asks, answers, strict=True):
        if isinstance(answer, KafkaError):
            raise KafkaException(answer)
        assert ask.target is not None
        for each in answer.groups:
            if each.group_id in found[ask.target]:
                _fill(found[ask.target][each.group_id], each)
    for key in items:
        settle(key, [each for some in found.values() for each in some.values()])


def _metadata_of(source: ListGroupsResponse.Group, where: tuple[int, str, int]) -> GroupMetadata:
    group = GroupMetadata()
    group.broker = BrokerMetadata()
    group.broker.id, group.broker.host, group.broker.port = where
    group.id = source.group_id
    group.type = type_of(source.group_type)
    group.state = source.group_state
    group.protocol_type = source.protocol_type
    return group


def _fill(group: GroupMetadata, source: DescribeGroupsResponse.Group) -> None:
    group.error = told(source.error_code, source.error_message)
    group.state = source.group_state
    group.protocol_type = source.protocol_type
    group.protocol = source.protocol_data
    for each in source.members:
        member = GroupMember()
        member.id, member.client_id, member.client_host = each.member_id, each.client_id, each.client_host
        member.metadata, member.assignment = bytes(each.member_metadata), bytes(each.member_assignment)
        group.members.append(member)


def describe_groups(operations: bool, groups: list[str]) -> Request:
    """The request about groups of the consumer protocol; `_classic()` is the one about the others."""
    return ConsumerGroupDescribeRequest(group_ids=groups, include_authorized_operations=operations)


def describe_consumer_groups(
    operations: bool,
    make: Callable[[list[Any]], Request],
    items: dict[Any, Any],
    settle: Settle,
    operation: Operation,
) -> Steps[None]:
    """ConsumerGroupDescribe (KIP-848) to the coordinators; DescribeGroups for groups that aren't of that protocol."""
    classic: list[str] = []

    def first(group: str, outcome: Any) -> None:
        if isinstance(outcome, KafkaError) and outcome.code() in NOT_OF_ITS_KIND:
            classic.append(group)
        else:
            settle(group, outcome)

    def modern(reply: ConsumerGroupDescribeResponse, target: int | None) -> dict[str, Any]:
        node = node_of(operation, target)
        return {
            each.group_id: told(each.error_code, each.error_message) or _described(each, node) for each in reply.groups
        }

    def older(reply: DescribeGroupsResponse, target: int | None) -> dict[str, Any]:
        node = node_of(operation, target)
        return {each.group_id: _described_classic(each, node) for each in reply.groups}

    yield from operation.rounds(items, operation.coordinators, make, modern, first, change=False)

    def make_classic(groups: list[str]) -> Request:
        return DescribeGroupsRequest(groups=groups, include_authorized_operations=operations)

    yield from operation.rounds(classic, operation.coordinators, make_classic, older, settle, change=False)


def node_of(operation: Operation, target: int | None) -> Node:
    """The broker that a reply came from."""
    assert target is not None
    return Node(*operation.pool.where(target))


def _described(group: ConsumerGroupDescribeResponse.Group, coordinator: Node) -> ConsumerGroupDescription:
    members = [
        MemberDescription(
            each.member_id,
            each.client_id,
            each.client_host,
            assignment_of(each.assignment),
            each.instance_id,
            assignment_of(each.target_assignment),
        )
        for each in group.members
    ]
    return ConsumerGroupDescription(
        group.group_id,
        False,
        members,
        group.assignor_name,
        state_of(group.group_state),
        coordinator,
        operations_of(group.authorized_operations),
        ConsumerGroupType.CONSUMER,
    )


def assignment_of(assignment: WireAssignment) -> MemberAssignment:
    """What a member reads, from the protocol's form."""
    return MemberAssignment(
        [
            TopicPartition(topic.topic_name, number)
            for topic in assignment.topic_partitions
            for number in topic.partitions
        ]
    )


def _described_classic(group: DescribeGroupsResponse.Group, coordinator: Node) -> ConsumerGroupDescription | KafkaError:
    """From version 6 on a group that isn't there is an error (KIP-1043); before, and here, it is dead."""
    missing = group.error_code == KafkaError.GROUP_ID_NOT_FOUND
    if group.error_code and not missing:
        return KafkaError(group.error_code, group.error_message or None)
    try:
        members = [_classic_member(each) for each in group.members]
    except KafkaException as error:
        cause: KafkaError = error.args[0]
        return cause
    state = state_of(group.group_state)
    operations: list[AclOperation | str | int] | None = operations_of(group.authorized_operations)
    return ConsumerGroupDescription(
        group.group_id,
        not group.protocol_type,
        members,
        group.protocol_data,
        ConsumerGroupState.DEAD if missing else state,
        coordinator,
        operations,
        ConsumerGroupType.CLASSIC,
    )


def _classic_member(member: DescribeGroupsResponse.Group.Member) -> MemberDescription:
    raw = bytes(member.member_assignment)
    assigned = [TopicPartition(topic, number) for topic, number in wire.unpack_assignment(raw)] if raw else []
    return MemberDescription(
        member.member_id, member.client_id, member.client_host, MemberAssignment(assigned), member.group_instance_id
    )


def delete_groups(groups: list[str]) -> Request:
    """The request."""
    return DeleteGroupsRequest(groups_names=groups)


def delete_consumer_groups(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """DeleteGroups, to the coordinators."""

    def outcomes(reply: Any, target: int | None) -> dict[str, Any]:
        return {each.group_id: told(each.error_code) for each in reply.results}

    return operation.rounds(items, operation.coordinators, make, outcomes, settle, change=True)


def static_members(group: str, reason: str | None, instance_ids: list[str]) -> Request:
    """The request about static members."""
    members = [LeaveGroupRequest.Member(group_instance_id=each, reason=reason) for each in instance_ids]
    return LeaveGroupRequest(group_id=group, members=members)


def remove_members(
    group: str, make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """LeaveGroup, to the coordinator, for static members."""

    def outcomes(reply: LeaveGroupResponse, target: int | None) -> dict[Any, Any] | Same:
        if reply.error_code:
            return Same(KafkaError(reply.error_code))
        return {each.group_instance_id: told(each.error_code) for each in reply.members}

    return operation.rounds(items, operation.within_group(group), make, outcomes, settle, change=True)


def some_members(group: str, reason: str | None, member_ids: list[Any]) -> Request:
    """The request about members, by the ids that the coordinator knows them by."""
    members = [LeaveGroupRequest.Member(member_id=each or "", reason=reason) for each in member_ids]
    return LeaveGroupRequest(group_id=group, members=members)


def remove_all_members(
    group: str,
    reason: str | None,
    make: Callable[[list[Any]], Request],
    items: dict[Any, Any],
    settle: Settle,
    operation: Operation,
) -> Steps[None]:
    """Describes the group, then LeaveGroup, to the coordinator; settles the one item with what became of each."""
    found: dict[str, Any] = {}
    ask = partial(describe_groups, False)
    yield from describe_consumer_groups(False, ask, {group: group}, found.__setitem__, operation)
    described = found[group]
    if isinstance(described, KafkaError):
        raise KafkaException(described)
    reported_of: dict[str, KafkaError | None] = {}

    def outcomes(reply: LeaveGroupResponse, target: int | None) -> dict[Any, Any] | Same:
        if reply.error_code:
            return Same(KafkaError(reply.error_code))
        return {each.member_id: told(each.error_code) for each in reply.members}

    yield from operation.rounds(
        [each.member_id for each in described.members],
        operation.within_group(group),
        partial(some_members, group, reason),
        outcomes,
        reported_of.__setitem__,
        change=True,
    )
    for key in items:
        settle(key, reported_of)
