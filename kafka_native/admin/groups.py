"""Consumer groups: list, describe and delete them; their members and committed offsets."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import TypeVar, overload

from kafka_native.admin.acls import AclOperation, authorized_operations
from kafka_native.admin.base import (
    AdminBase,
    copied_partitions,
    error_or_none,
    flag,
    list_of,
    member_of,
    members_of,
    nodes_of,
    partitions_by_topic,
    set_of,
)
from kafka_native.cleaning import escaped
from kafka_native.control.assignors import wire
from kafka_native.control.consumer.commits import commit_message, commit_results, fetched_offsets
from kafka_native.control.errors import ADMIN_RETRIABLE_ERRORS
from kafka_native.control.group.membership import Member
from kafka_native.control.main_thread import bound_s
from kafka_native.control.operations import (
    KEYS_MAX,
    UNANSWERED,
    AdminOperation,
    Operation,
    Portion,
    Settle,
    Steps,
    brokers,
    within_group,
)
from kafka_native.control.positions import OffsetPosition, position_of
from kafka_native.deadlines import seconds
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.protocol.group_admin import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka_native.protocol.group_admin import MemberAssignment as WireAssignment
from kafka_native.protocol.groups import LeaveGroupRequest, LeaveGroupResponse
from kafka_native.protocol.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka_native.protocol.schema import Request
from kafka_native.protocol.transactions import ListTransactionsResponse
from kafka_native.types import (
    OFFSET_INVALID,
    BrokerMetadata,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    Node,
    TopicPartition,
)

ListingT = TypeVar("ListingT", ListGroupsResponse, ListTransactionsResponse)

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
CONSUMER_PROTOCOL_TYPES = frozenset({"consumer", ""})
"""The protocol types of consumer groups; "" if no member has subscribed."""
OTHER_PROTOCOL_TYPES = {ConsumerGroupType.SHARE: "share", ConsumerGroupType.STREAMS: "streams"}
"""The protocol types of groups that aren't consumer groups."""
OTHER_KIND_ERRORS = frozenset(
    {KafkaError.GROUP_ID_NOT_FOUND, KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE}
)
"""ConsumerGroupDescribe's errors for a classic group, or from a broker without KIP-848."""
ONE_BY_ONE = KafkaError(
    KafkaError._UNSUPPORTED_FEATURE, "a coordinator before Kafka 3.0 is asked about one group"
)


class ConsumerGroupListing:
    """A group in a list. ``state`` and ``type`` exist only if the broker returns them.

    :param group_id: Its id.
    :param is_simple_consumer_group: It has offsets, but never had members that subscribe.
    :param state: Its state.
    :param type: Its protocol.
    """

    def __init__(
        self,
        group_id: str,
        is_simple_consumer_group: bool,
        state: ConsumerGroupState | str | int | None = None,
        type: ConsumerGroupType | str | int | None = None,
    ) -> None:
        self.group_id = group_id
        self.is_simple_consumer_group = is_simple_consumer_group
        if state is not None:
            self.state = member_of(state, ConsumerGroupState)
        if type is not None:
            self.type = member_of(type, ConsumerGroupType)


class ListConsumerGroupsResult:
    """The groups, and the errors of brokers.

    :param valid: The groups.
    :param errors: One KafkaException for each broker that didn't reply.
    """

    def __init__(
        self, valid: list[ConsumerGroupListing] | None = None, errors: list[Exception] | None = None
    ) -> None:
        self.valid = valid
        self.errors = errors


class MemberAssignment:
    """The partitions of a member.

    :param topic_partitions: The partitions; None counts as an empty list.
    """

    def __init__(self, topic_partitions: list[TopicPartition] | None) -> None:
        self.topic_partitions = [] if topic_partitions is None else topic_partitions


class MemberDescription:
    """A member of a group.

    :param member_id: Its id.
    :param client_id: Its ``client.id``.
    :param host: The host that it connects from.
    :param assignment: Its current partitions.
    :param group_instance_id: Its ``group.instance.id``, if it has one.
    :param target_assignment: Its future partitions, in the consumer protocol (KIP-848).
    """

    def __init__(
        self,
        member_id: str,
        client_id: str,
        host: str,
        assignment: MemberAssignment,
        group_instance_id: str | None = None,
        target_assignment: MemberAssignment | None = None,
    ) -> None:
        self.member_id = member_id
        self.client_id = client_id
        self.host = host
        self.assignment = assignment
        self.target_assignment = target_assignment
        self.group_instance_id = group_instance_id


class ConsumerGroupDescription:
    """A group with its members.

    :param group_id: Its id.
    :param is_simple_consumer_group: It has offsets, but never had members that subscribe.
    :param members: Its members.
    :param partition_assignor: Its assignor.
    :param state: Its state.
    :param coordinator: The broker that coordinates it.
    :param authorized_operations: The operations that this client may do; None if not requested.
    :param type: Its protocol.
    """

    def __init__(
        self,
        group_id: str,
        is_simple_consumer_group: bool,
        members: list[MemberDescription],
        partition_assignor: str,
        state: ConsumerGroupState | str | int | None,
        coordinator: Node,
        authorized_operations: list[AclOperation | str | int] | None = None,
        type: ConsumerGroupType | str | int = ConsumerGroupType.UNKNOWN,
    ) -> None:
        self.group_id = group_id
        self.is_simple_consumer_group = is_simple_consumer_group
        self.members = members
        self.authorized_operations = members_of(authorized_operations, AclOperation)
        self.partition_assignor = partition_assignor
        if state is not None:
            self.state = member_of(state, ConsumerGroupState)
        self.type = member_of(type, ConsumerGroupType)
        self.coordinator = coordinator


class GroupMember:
    """A member of a group, with its metadata and assignment in the group protocol's form."""

    def __init__(self) -> None:
        """Make an empty description, for the client to fill."""
        self.id: str | None = None
        """Its id."""
        self.client_id: str | None = None
        """Its ``client.id``."""
        self.client_host: str | None = None
        """The host that it connects from."""
        self.metadata: bytes | None = None
        """Its subscription, in the group protocol's form."""
        self.assignment: bytes | None = None
        """Its assignment, in the group protocol's form."""


class GroupMetadata:
    """A group with its members."""

    def __init__(self) -> None:
        """Make an empty description, for the client to fill."""
        self.broker: BrokerMetadata | None = None
        """The broker that coordinates it."""
        self.id: str | None = None
        """Its id."""
        self.error: KafkaError | None = None
        """The error if it couldn't be described, or None."""
        self.state: str | None = None
        """Its state, by the broker's name."""
        self.protocol_type: str | None = None
        """Its kind: ``consumer`` for consumer groups."""
        self.type: ConsumerGroupType = ConsumerGroupType.UNKNOWN
        """Its protocol; UNKNOWN if the broker doesn't return it."""
        self.protocol: str | None = None
        """Its protocol: the assignor, for consumers."""
        self.members: list[GroupMember] = []
        """The members of a classic group. Other calls describe the members of other groups."""

    def __repr__(self) -> str:
        error = "" if self.error is None else f", {self.error}"
        return f"GroupMetadata({escaped(self.id)}{error})"

    def __str__(self) -> str:
        return str(self.id)


# --- listing ---


def state_of(name: str) -> ConsumerGroupState:
    """A state, by the broker's name."""
    return STATES.get(name.lower(), ConsumerGroupState.UNKNOWN)


def type_of(name: str) -> ConsumerGroupType:
    """A type, by the broker's name."""
    return TYPES.get(name.lower(), ConsumerGroupType.UNKNOWN)


def _list_request(
    states: set[ConsumerGroupState] | None, types: set[ConsumerGroupType] | None
) -> ListGroupsRequest:
    kinds = set_of("types", types, ConsumerGroupType)
    if ConsumerGroupType.UNKNOWN in kinds:
        raise ValueError("UNKNOWN type is not allowed")
    return ListGroupsRequest(
        states_filter=[STATE_NAMES[each] for each in set_of("states", states, ConsumerGroupState)],
        types_filter=[TYPE_NAMES[each] for each in kinds],
    )


def ask_each_broker(
    request: Request, kind: type[ListingT], operation: Operation
) -> Steps[dict[Node, ListingT | KafkaError]]:
    """Sends a request to each broker: the responses of this kind, or the errors, by broker."""
    cluster = yield from operation.cluster()
    listing: AdminOperation[Node, Node, ListingT, ListingT] = AdminOperation(
        destination=brokers(lambda node: node.id),
        request=lambda _: request,
        outcomes=lambda response, portion: dict.fromkeys(
            portion.items, error_or_none(response.error_code) or response
        ),
        change=False,
    )
    return (
        yield from operation.outcomes(
            listing, {each: each for each in nodes_of(cluster.brokers).values()}
        )
    )


def _list_consumer_groups(
    request: ListGroupsRequest, protocol_types: frozenset[str], operation: Operation
) -> Steps[ListConsumerGroupsResult | KafkaError]:
    """Sends ListGroups to every broker; returns the groups of these protocol types."""
    responses = yield from ask_each_broker(request, ListGroupsResponse, operation)
    found: dict[str, ConsumerGroupListing] = {}
    errors: list[Exception] = []
    for response in responses.values():
        if isinstance(response, KafkaError):
            errors.append(KafkaException(response))
            continue
        for group in response.groups:
            if group.protocol_type in protocol_types:
                found[group.group_id] = ConsumerGroupListing(
                    group.group_id,
                    not group.protocol_type,
                    state_of(group.group_state),
                    type_of(group.group_type),
                )
    return ListConsumerGroupsResult(list(found.values()), errors)


def _list_groups(
    request: ListGroupsRequest, wanted: str | None, operation: Operation
) -> Steps[list[GroupMetadata] | KafkaError]:
    """Sends ListGroups to every broker, and DescribeGroups for classic groups."""
    responses = yield from ask_each_broker(request, ListGroupsResponse, operation)
    found: dict[int, dict[str, GroupMetadata]] = {}
    for node, response in responses.items():
        if isinstance(response, KafkaError):
            raise KafkaException(response)
        found[node.id] = {
            each.group_id: _metadata_of(each, node)
            for each in response.groups
            if wanted in (None, each.group_id)
        }
    # Brokers before KIP-848 don't return the type: all their groups are classic.
    others = (ConsumerGroupType.CONSUMER, *OTHER_PROTOCOL_TYPES)
    classic = {
        (node_id, name): name
        for node_id, some in found.items()
        for name, group in some.items()
        if group.type not in others
    }
    described = yield from operation.outcomes(DESCRIBE_AT_BROKERS, classic)
    for (node_id, name), answer in described.items():
        if isinstance(answer, KafkaError):
            raise KafkaException(answer)
        _fill(found[node_id][name], answer)
    return [each for some in found.values() for each in some.values()]


DESCRIBE_AT_BROKERS: AdminOperation[
    tuple[int, str], str, DescribeGroupsResponse, DescribeGroupsResponse.Group
] = AdminOperation(
    destination=brokers(lambda key: key[0]),
    request=lambda names: DescribeGroupsRequest(groups=names),
    outcomes=lambda response, portion: {
        (portion.target, each.group_id): each
        for each in response.groups
        if portion.target is not None
    },
    change=False,
)
"""Describes groups at the brokers that have listed them."""


def _metadata_of(source: ListGroupsResponse.Group, node: Node) -> GroupMetadata:
    group = GroupMetadata()
    group.broker = BrokerMetadata()
    group.broker.id, group.broker.host, group.broker.port = node.id, node.host, node.port
    group.id = source.group_id
    group.type = type_of(source.group_type)
    group.state = source.group_state
    group.protocol_type = source.protocol_type
    return group


def _fill(group: GroupMetadata, source: DescribeGroupsResponse.Group) -> None:
    group.error = error_or_none(source.error_code, source.error_message)
    group.state = source.group_state
    group.protocol_type = source.protocol_type
    group.protocol = source.protocol_data
    for each in source.members:
        member = GroupMember()
        member.id, member.client_id, member.client_host = (
            each.member_id,
            each.client_id,
            each.client_host,
        )
        member.metadata, member.assignment = (
            bytes(each.member_metadata),
            bytes(each.member_assignment),
        )
        group.members.append(member)


# --- describing ---


def _describe_modern(
    authorized: bool,
) -> AdminOperation[str, str, ConsumerGroupDescribeResponse, ConsumerGroupDescription]:
    """Describes groups of the consumer protocol (KIP-848)."""
    return AdminOperation(
        destination=Operation.coordinators,
        request=lambda groups: ConsumerGroupDescribeRequest(
            group_ids=groups, include_authorized_operations=authorized
        ),
        outcomes=lambda response, portion: {
            each.group_id: error_or_none(each.error_code, each.error_message)
            or _described(each, portion.broker)
            for each in response.groups
        },
        change=False,
    )


def _describe_classic(
    authorized: bool,
) -> AdminOperation[str, str, DescribeGroupsResponse, ConsumerGroupDescription]:
    """Describes groups of the classic protocol."""
    return AdminOperation(
        destination=Operation.coordinators,
        request=lambda groups: DescribeGroupsRequest(
            groups=groups, include_authorized_operations=authorized
        ),
        outcomes=lambda response, portion: {
            each.group_id: _described_classic(each, portion.broker) for each in response.groups
        },
        change=False,
    )


def _describe_groups(
    authorized: bool,
    groups: Mapping[str, str],
    settle: Settle[str, ConsumerGroupDescription],
    operation: Operation,
) -> Steps[None]:
    """Sends ConsumerGroupDescribe (KIP-848), then DescribeGroups for classic groups."""
    classic: dict[str, str] = {}

    def settle_modern(group: str, outcome: ConsumerGroupDescription | KafkaError) -> None:
        if isinstance(outcome, KafkaError) and outcome.code() in OTHER_KIND_ERRORS:
            classic[group] = group
        else:
            settle(group, outcome)

    yield from operation.run(_describe_modern(authorized), groups, settle_modern)
    yield from operation.run(_describe_classic(authorized), classic, settle)


def _described(
    group: ConsumerGroupDescribeResponse.Group, coordinator: Node
) -> ConsumerGroupDescription:
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
        authorized_operations(group.authorized_operations),
        ConsumerGroupType.CONSUMER,
    )


def assignment_of(assignment: WireAssignment) -> MemberAssignment:
    """A member's partitions, from the protocol's form."""
    return MemberAssignment(
        [
            TopicPartition(topic.topic_name, number)
            for topic in assignment.topic_partitions
            for number in topic.partitions
        ]
    )


def _described_classic(
    group: DescribeGroupsResponse.Group, coordinator: Node
) -> ConsumerGroupDescription | KafkaError:
    """Reads a classic group. A missing group is DEAD.

    From version 6 on, brokers report a missing group as an error (KIP-1043). Older versions report
    it as dead.
    """
    missing = group.error_code == KafkaError.GROUP_ID_NOT_FOUND
    if group.error_code and not missing:
        return KafkaError(group.error_code, group.error_message or None)
    try:
        members = [_classic_member(each) for each in group.members]
    except KafkaException as error:
        cause: KafkaError = error.args[0]
        return cause
    state = state_of(group.group_state)
    operations = authorized_operations(group.authorized_operations)
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
    assigned = (
        [TopicPartition(topic, number) for topic, number in wire.unpack_assignment(raw)]
        if raw
        else []
    )
    return MemberDescription(
        member.member_id,
        member.client_id,
        member.client_host,
        MemberAssignment(assigned),
        member.group_instance_id,
    )


# --- deleting, and removing members ---

DELETE_GROUPS: AdminOperation[str, str, DeleteGroupsResponse, None] = AdminOperation(
    destination=Operation.coordinators,
    request=lambda groups: DeleteGroupsRequest(groups_names=groups),
    outcomes=lambda response, portion: {
        each.group_id: error_or_none(each.error_code, each.error_message)
        for each in response.results
    },
    change=True,
)


def _remove_static_members(
    group: str, reason: str | None
) -> AdminOperation[str, str, LeaveGroupResponse, None]:
    """Removes static members, by their instance ids."""

    def outcomes(
        response: LeaveGroupResponse, portion: Portion[str, str]
    ) -> dict[str, KafkaError | None]:
        if response.error_code:
            return dict.fromkeys(portion.items, KafkaError(response.error_code))
        return {
            each.group_instance_id: error_or_none(each.error_code)
            for each in response.members
            if each.group_instance_id is not None
        }

    return AdminOperation(
        destination=within_group(group),
        request=lambda instance_ids: LeaveGroupRequest(
            group_id=group,
            members=[
                LeaveGroupRequest.Member(group_instance_id=each, reason=reason)
                for each in instance_ids
            ],
        ),
        outcomes=outcomes,
        change=True,
    )


def _remove_members(
    group: str, reason: str | None
) -> AdminOperation[str, str, LeaveGroupResponse, None]:
    """Removes members, by their member ids."""

    def outcomes(
        response: LeaveGroupResponse, portion: Portion[str, str]
    ) -> dict[str, KafkaError | None]:
        if response.error_code:
            return dict.fromkeys(portion.items, KafkaError(response.error_code))
        return {each.member_id: error_or_none(each.error_code) for each in response.members}

    return AdminOperation(
        destination=within_group(group),
        request=lambda member_ids: LeaveGroupRequest(
            group_id=group,
            members=[
                LeaveGroupRequest.Member(member_id=each, reason=reason) for each in member_ids
            ],
        ),
        outcomes=outcomes,
        change=True,
    )


def _remove_all_members(
    group: str, reason: str | None, operation: Operation
) -> Steps[dict[str, KafkaError | None] | KafkaError]:
    """Describes the group, then removes its members with LeaveGroup.

    Returns each member's error.
    """
    found: dict[str, ConsumerGroupDescription | KafkaError] = {}
    yield from _describe_groups(False, {group: group}, found.__setitem__, operation)
    described = found[group]
    if isinstance(described, KafkaError):
        raise KafkaException(described)
    member_ids = {each.member_id: each.member_id for each in described.members}
    return (yield from operation.outcomes(_remove_members(group, reason), member_ids))


# --- offsets ---


def _fetch_request(
    require_stable: bool, groups: list[ConsumerGroupTopicPartitions]
) -> OffsetFetchRequest:
    """The OffsetFetch request. Versions before 8 contain only the first group."""
    asked = [_wire_group(group) for group in groups]
    first = asked[0]
    topics = None
    if first.topics is not None:
        kind = OffsetFetchRequest.Topic
        topics = [
            kind(name=each.name, partition_indexes=each.partition_indexes) for each in first.topics
        ]
    return OffsetFetchRequest(
        group_id=first.group_id, topics=topics, groups=asked, require_stable=require_stable
    )


def _wire_group(group: ConsumerGroupTopicPartitions) -> OffsetFetchRequest.Group:
    topics = None
    if group.topic_partitions is not None:
        topics = [
            OffsetFetchRequest.Group.Topic(
                name=name, partition_indexes=[each.partition for each in some]
            )
            for name, some in partitions_by_topic(group.topic_partitions).items()
        ]
    return OffsetFetchRequest.Group(group_id=group.group_id, topics=topics)


def _fetch_offsets(
    require_stable: bool, one_by_one: bool
) -> AdminOperation[
    str, ConsumerGroupTopicPartitions, OffsetFetchResponse, ConsumerGroupTopicPartitions
]:
    """Fetches the offsets of all groups of a coordinator at once (KIP-709), or of one group."""

    def outcomes(
        response: OffsetFetchResponse, portion: Portion[str, ConsumerGroupTopicPartitions]
    ) -> dict[str, ConsumerGroupTopicPartitions | KafkaError]:
        if not response.groups and not one_by_one:
            return dict.fromkeys(portion.items, ONE_BY_ONE)
        return {group: _offsets_of(response, item) for group, item in portion.items.items()}

    return AdminOperation(
        destination=Operation.coordinators,
        request=partial(_fetch_request, require_stable),
        outcomes=outcomes,
        change=False,
        keys_max=1 if one_by_one else KEYS_MAX,
    )


def _list_offsets(
    require_stable: bool,
    groups: dict[str, ConsumerGroupTopicPartitions],
    settle: Settle[str, ConsumerGroupTopicPartitions],
    operation: Operation,
) -> Steps[None]:
    """Sends OffsetFetch for all groups together, or one by one if a coordinator is too old."""
    left: dict[str, ConsumerGroupTopicPartitions] = {}

    def settle_together(group: str, outcome: ConsumerGroupTopicPartitions | KafkaError) -> None:
        if outcome is ONE_BY_ONE:
            left[group] = groups[group]
        else:
            settle(group, outcome)

    together = _fetch_offsets(require_stable, one_by_one=len(groups) == 1)
    yield from operation.run(together, groups, settle_together)
    if left:
        yield from operation.run(_fetch_offsets(require_stable, one_by_one=True), left, settle)


def _offsets_of(
    response: OffsetFetchResponse, asked: ConsumerGroupTopicPartitions
) -> ConsumerGroupTopicPartitions | KafkaError:
    found = fetched_offsets(response, asked.group_id, lambda topic_id: None)
    if isinstance(found, KafkaError):
        return found
    wanted = [TopicPartition(*key) for key in found]
    partitions = []
    for each in wanted if asked.topic_partitions is None else asked.topic_partitions:
        position = found.get((each.topic, each.partition))
        if position == KafkaError.UNSTABLE_OFFSET_COMMIT:
            return KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT)
        partitions.append(_committed_offset(each, position))
    return ConsumerGroupTopicPartitions(asked.group_id, partitions)


def _committed_offset(
    partition: TopicPartition, position: OffsetPosition | int | None
) -> TopicPartition:
    """A partition with its committed offset or its error; None: the response leaves it out."""
    if position is None:
        return partition.with_error(UNANSWERED)
    if isinstance(position, int):
        return partition.with_error(KafkaError(position))
    return TopicPartition(
        partition.topic, partition.partition, position.offset, position.metadata, position.epoch
    )


def _commit_request(groups: list[ConsumerGroupTopicPartitions]) -> OffsetCommitRequest:
    """The OffsetCommit request for one group, without a member id."""
    (group,) = groups
    positions = {
        (each.topic, each.partition): position_of(each) for each in group.topic_partitions or ()
    }
    return commit_message(Member(group.group_id), positions, {})


def _committed(
    response: OffsetCommitResponse, portion: Portion[str, ConsumerGroupTopicPartitions]
) -> dict[str, ConsumerGroupTopicPartitions | KafkaError]:
    codes = commit_results(response, lambda topic_id: None)
    for code in codes.values():
        if code in ADMIN_RETRIABLE_ERRORS:  # the coordinator commits none of them
            return dict.fromkeys(portion.items, KafkaError(code))
    found: dict[str, ConsumerGroupTopicPartitions | KafkaError] = {}
    for group, item in portion.items.items():
        partitions = []
        for each in item.topic_partitions or ():
            key = (each.topic, each.partition)
            partitions.append(
                each.with_error(error_or_none(codes[key]) if key in codes else UNANSWERED)
            )
        found[group] = ConsumerGroupTopicPartitions(group, partitions)
    return found


COMMIT_OFFSETS: AdminOperation[
    str, ConsumerGroupTopicPartitions, OffsetCommitResponse, ConsumerGroupTopicPartitions
] = AdminOperation(
    destination=Operation.coordinators,
    request=_commit_request,
    outcomes=_committed,
    change=True,
)


def _delete_offsets(
    group: str,
) -> AdminOperation[TopicPartition, TopicPartition, OffsetDeleteResponse, None]:
    def request(partitions: list[TopicPartition]) -> OffsetDeleteRequest:
        kind = OffsetDeleteRequest.Topic
        topics = [
            kind(
                name=name,
                partitions=[kind.Partition(partition_index=each.partition) for each in some],
            )
            for name, some in partitions_by_topic(partitions).items()
        ]
        return OffsetDeleteRequest(group_id=group, topics=topics)

    def outcomes(
        response: OffsetDeleteResponse, portion: Portion[TopicPartition, TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        if response.error_code:
            return dict.fromkeys(portion.items, KafkaError(response.error_code))
        return {
            TopicPartition(topic.name, each.partition_index): error_or_none(each.error_code)
            for topic in response.topics
            for each in topic.partitions
        }

    return AdminOperation(
        destination=within_group(group), request=request, outcomes=outcomes, change=True
    )


# --- arguments ---


def _offset_groups(given: object, doing: str) -> list[ConsumerGroupTopicPartitions]:
    """Copies of the groups of a request for "listing" or "altering" offsets, after a check."""
    if given is None:
        raise TypeError("request cannot be None")
    if not isinstance(given, list | tuple) or not all(
        isinstance(e, ConsumerGroupTopicPartitions) for e in given
    ):
        raise TypeError("Expected list of 'ConsumerGroupTopicPartitions'")
    if not given:
        raise ValueError("Expected non-empty list of groups")
    groups = []
    for group in given:
        group_name(group.group_id)
        partitions = None
        if group.topic_partitions is not None:
            partitions = _checked_offsets(group.topic_partitions, doing)
        elif doing == "altering":
            raise ValueError("'topic_partitions' cannot be null")
        groups.append(ConsumerGroupTopicPartitions(group.group_id, partitions))
    return groups


def _checked_offsets(given: object, doing: str) -> list[TopicPartition]:
    """Copies of the partitions of a group, after a check."""
    if not isinstance(given, list):
        raise TypeError("'topic_partitions' must be a list or None")
    if not given:
        raise ValueError("'topic_partitions' cannot be empty")
    partitions = copied_partitions(given)
    offsets = [each.offset for each in partitions]
    if doing == "altering" and min(offsets) < 0:
        raise ValueError(
            "Element of 'topic_partitions' must not have negative value for 'offset' field"
        )
    if doing == "listing" and set(offsets) != {OFFSET_INVALID}:
        raise ValueError("Element of 'topic_partitions' must not have 'offset' value")
    return partitions


def _one_group(given: object) -> ConsumerGroupTopicPartitions:
    """The only group of a request for altering offsets."""
    groups = _offset_groups(given, "altering")
    if len(groups) != 1:
        raise ValueError("Currently we support altering offsets for a single consumer group only")
    return groups[0]


def group_name(given: object) -> str:
    """The given group id, after a check."""
    if not isinstance(given, str):
        raise TypeError("'group_id' must be a string")
    if not given:
        raise ValueError("'group_id' cannot be empty")
    return given


def _each_once(group: ConsumerGroupTopicPartitions) -> ConsumerGroupTopicPartitions | KafkaError:
    """The group, or the error why it can't be requested."""
    partitions = group.topic_partitions or []
    if len(set(partitions)) < len(partitions):
        return KafkaError(KafkaError._INVALID_ARG, "Duplicate partitions not allowed")
    return group


class GroupsAdmin(AdminBase):
    """Calls about consumer groups and their offsets."""

    def list_groups(
        self,
        group: str | None = None,
        timeout: float = -1,
        *,
        states: set[ConsumerGroupState] | None = None,
        types: set[ConsumerGroupType] | None = None,
    ) -> list[GroupMetadata]:
        """Lists all groups that the brokers know, classic ones with their members.

        Waits for the result.

        :param group: Only this group; None for all.
        :param timeout: Seconds to wait; negative waits without limit.
        :param states: Only groups in these states (KIP-518); None or empty for all.
        :param types: Only groups of these protocols (KIP-848, KIP-1043); None or empty for all.
        :raises KafkaException: A broker didn't reply in time.
        """
        wanted = self._groups(group, timeout, states, types)
        found: list[GroupMetadata] = self._client.main.outcome(wanted, bound_s(timeout))
        return found

    def _groups(
        self,
        group: str | None,
        timeout: float,
        states: set[ConsumerGroupState] | None,
        types: set[ConsumerGroupType] | None,
    ) -> Future[list[GroupMetadata]]:
        if group is not None and not isinstance(group, str):
            raise TypeError(f"group must be a str or None, not {type(group).__name__}")
        request = _list_request(states, types)
        return self._begin_one(request, partial(_list_groups, request, group), seconds(timeout))

    def list_consumer_groups(
        self,
        *,
        states: set[ConsumerGroupState] | None = None,
        types: set[ConsumerGroupType] | None = None,
        request_timeout: float = -1,
    ) -> Future[ListConsumerGroupsResult]:
        """Lists the consumer groups of all brokers; with ``types``, also share and streams groups.

        :param states: Only groups in these states (KIP-518); None or empty for all.
        :param types: Only groups of these protocols (KIP-848, KIP-1043); None or empty for consumer
            groups.
        :return: One future: the groups, and an error for each broker that didn't reply.
        """
        request = _list_request(states, types)
        others = frozenset(
            name for kind, name in OTHER_PROTOCOL_TYPES.items() if kind in (types or ())
        )
        steps_of = partial(_list_consumer_groups, request, CONSUMER_PROTOCOL_TYPES | others)
        return self._begin_one(request, steps_of, self._request_timeout(request_timeout))

    def describe_consumer_groups(
        self,
        group_ids: list[str],
        *,
        include_authorized_operations: bool = False,
        request_timeout: float = -1,
    ) -> dict[str, Future[ConsumerGroupDescription]]:
        """Describes consumer groups, of either protocol, with their members.

        A missing group is DEAD.

        :param group_ids: Their ids.
        :param include_authorized_operations: Include the operations that this client may do
            (KIP-430).
        :return: One future per group, by id.
        """
        authorized = flag("include_authorized_operations", include_authorized_operations)
        groups = [(each, each) for each in list_of(group_ids, str)]
        return self._begin(
            groups,
            _describe_modern(authorized).request,
            partial(_describe_groups, authorized),
            self._request_timeout(request_timeout),
        )

    def delete_consumer_groups(
        self, group_ids: list[str], *, request_timeout: float = -1
    ) -> dict[str, Future[None]]:
        """Deletes groups without members, of any type, with their committed offsets.

        :param group_ids: Their ids.
        :return: One future per group, by id: None when it is deleted; KafkaException, for instance
            NON_EMPTY_GROUP.
        """
        groups = [(each, each) for each in list_of(group_ids, str)]
        return self._start(DELETE_GROUPS, groups, self._request_timeout(request_timeout))

    def list_consumer_group_offsets(
        self,
        list_consumer_group_offsets_request: list[ConsumerGroupTopicPartitions],
        *,
        require_stable: bool = False,
        request_timeout: float = -1,
    ) -> dict[str, Future[ConsumerGroupTopicPartitions]]:
        """Returns the committed offsets of groups.

        One request covers all groups of a coordinator (KIP-709).

        :param list_consumer_group_offsets_request: Groups with their partitions; None: all
            partitions with offsets.
        :param require_stable: Wait for pending transactions that change the offsets (KIP-447).
        :return: One future per group, by id. A partition without an offset has OFFSET_INVALID, and
            one whose offset the coordinator didn't return has an ``error``.
        """
        groups = _offset_groups(list_consumer_group_offsets_request, "listing")
        stable = flag("require_stable", require_stable)
        timeout_s = self._request_timeout(request_timeout)
        items = [(each.group_id, _each_once(each)) for each in groups]
        return self._begin(
            items, partial(_fetch_request, stable), partial(_list_offsets, stable), timeout_s
        )

    def alter_consumer_group_offsets(
        self,
        alter_consumer_group_offsets_request: list[ConsumerGroupTopicPartitions],
        *,
        request_timeout: float = -1,
    ) -> dict[str, Future[ConsumerGroupTopicPartitions]]:
        """Commits offsets for a group that has no members.

        :param alter_consumer_group_offsets_request: One group, and its partitions with their new
            offsets.
        :return: One future, by the group's id. A partition has an ``error`` if its offset wasn't
            committed: UNKNOWN_MEMBER_ID while the group has members.
        """
        group = _one_group(alter_consumer_group_offsets_request)
        items = [(group.group_id, _each_once(group))]
        return self._start(COMMIT_OFFSETS, items, self._request_timeout(request_timeout))

    def delete_consumer_group_offsets(
        self, group_id: str, partitions: list[TopicPartition], *, request_timeout: float = -1
    ) -> dict[TopicPartition, Future[None]]:
        """Deletes a group's committed offsets (KIP-496).

        Its members may read other topics meanwhile.

        :param group_id: Its id.
        :param partitions: The partitions of the offsets.
        :return: One future per partition: None when its offset is deleted; KafkaException, for
            instance GROUP_SUBSCRIBED_TO_TOPIC while a member reads the topic.
        """
        group = group_name(group_id)
        asked = copied_partitions(list_of(partitions, TopicPartition))
        items = [(each, each) for each in asked]
        return self._start(_delete_offsets(group), items, self._request_timeout(request_timeout))

    @overload
    def remove_members_from_consumer_group(
        self,
        group_id: str,
        members: None = None,
        *,
        reason: str | None = None,
        request_timeout: float = -1,
    ) -> Future[dict[str, KafkaError | None]]: ...

    @overload
    def remove_members_from_consumer_group(
        self,
        group_id: str,
        members: list[str],
        *,
        reason: str | None = None,
        request_timeout: float = -1,
    ) -> dict[str, Future[None]]: ...

    def remove_members_from_consumer_group(
        self,
        group_id: str,
        members: list[str] | None = None,
        *,
        reason: str | None = None,
        request_timeout: float = -1,
    ) -> Future[dict[str, KafkaError | None]] | dict[str, Future[None]]:
        """Removes members from a group (KIP-345, KIP-571).

        A running member joins again, unless static.

        :param group_id: The group's id.
        :param members: The ``group.instance.id`` of each; None for all members, static or not.
        :param reason: The reason for the brokers' logs (KIP-800).
        :return: One future per member, by instance id: None when it is removed; KafkaException, for
            instance UNKNOWN_MEMBER_ID. With ``members`` None, one future: each member's error by
            member id, None if it was removed.
        """
        group, timeout_s = group_name(group_id), self._request_timeout(request_timeout)
        if reason is not None and not isinstance(reason, str):
            raise TypeError(f"reason must be a str or None, not {type(reason).__name__}")
        if members is None:
            check = _remove_members(group, reason).request([""])
            return self._begin_one(check, partial(_remove_all_members, group, reason), timeout_s)
        names = list_of(members, str)
        if not all(names):
            raise ValueError("a group.instance.id cannot be empty")
        return self._start(
            _remove_static_members(group, reason), [(each, each) for each in names], timeout_s
        )
