"""Share groups (KIP-932) and streams groups (KIP-1071), with the names of Java's Admin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from kafka_native.admin.acls import AclOperation, allowed_operations
from kafka_native.admin.base import (
    copied_partitions,
    error_or_none,
    flag,
    list_of,
    partitions_by_topic,
)
from kafka_native.admin.groups import (
    GroupsAdmin,
    MemberAssignment,
    assignment_of,
    group_name,
    state_of,
)
from kafka_native.control.operations import (
    UNANSWERED,
    AdminOperation,
    Operation,
    Portion,
    within_group,
)
from kafka_native.errors import KafkaError
from kafka_native.protocol.group_admin import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from kafka_native.protocol.share import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from kafka_native.protocol.streams import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    TaskIds,
    TaskOffset,
    TopicInfo,
    TopologyDescription,
    TopologyNode,
)
from kafka_native.types import ConsumerGroupState, Node, TopicPartition


@dataclass(frozen=True, slots=True)
class ShareMemberDescription:
    """A member of a share group."""

    consumer_id: str
    """Its member id."""
    rack_id: str | None
    client_id: str
    host: str
    """The host that it connects from."""
    assignment: MemberAssignment
    """Its partitions. Other members may read them, too."""
    member_epoch: int


@dataclass(frozen=True, slots=True)
class ShareGroupDescription:
    """A share group with its members."""

    group_id: str
    members: list[ShareMemberDescription]
    group_state: ConsumerGroupState
    coordinator: Node
    group_epoch: int
    """It rises with each change of members, subscriptions or topics."""
    target_assignment_epoch: int
    """The group epoch of the assignment."""
    authorized_operations: list[AclOperation] | None = None
    """The operations that this client may do; None if not requested."""


@dataclass(frozen=True, slots=True)
class SharePartitionOffsetInfo:
    """The progress of a share group in a partition."""

    start_offset: int
    """The group has finished all records below it."""
    leader_epoch: int | None
    """The leader epoch of the offset; None if unknown."""
    lag: int | None
    """How many records aren't finished (KIP-1226); None if the broker doesn't return it."""


@dataclass(frozen=True, slots=True)
class StreamsTaskOffset:
    """The progress of a task."""

    subtopology_id: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class StreamsGroupMemberAssignment:
    """The tasks of a member: partition numbers by subtopology."""

    active_tasks: dict[str, list[int]]
    standby_tasks: dict[str, list[int]]
    """Copies that are up to date."""
    warmup_tasks: dict[str, list[int]]
    """Copies that aren't up to date yet."""


@dataclass(frozen=True, slots=True)
class StreamsGroupMemberDescription:
    """A member of a streams group."""

    member_id: str
    member_epoch: int
    instance_id: str | None
    """Its ``group.instance.id``, if it has one."""
    rack_id: str | None
    client_id: str
    client_host: str
    """The host that it connects from."""
    topology_epoch: int
    """The epoch of the topology that it runs."""
    process_id: str
    """Its process. Other members may belong to it, too."""
    user_endpoint: tuple[str, int] | None
    """Host and port for interactive queries."""
    client_tags: dict[str, str]
    task_offsets: list[StreamsTaskOffset]
    task_end_offsets: list[StreamsTaskOffset]
    assignment: StreamsGroupMemberAssignment
    target_assignment: StreamsGroupMemberAssignment
    is_classic: bool
    """Whether it uses the classic protocol during the migration to the new one."""


@dataclass(frozen=True, slots=True)
class StreamsTopicInfo:
    """An internal topic of an application."""

    partitions: int
    """0: as many as its subtopology needs."""
    replication_factor: int
    """0: the broker's default."""
    topic_configs: dict[str, str]


@dataclass(frozen=True, slots=True)
class StreamsGroupSubtopologyDescription:
    """A part of an application's topology whose tasks are independent."""

    subtopology_id: str
    source_topics: list[str]
    repartition_sink_topics: list[str]
    state_changelog_topics: dict[str, StreamsTopicInfo]
    repartition_source_topics: dict[str, StreamsTopicInfo]


class StreamsTopologyNodeType(Enum):
    """What a node of a topology does."""

    UNKNOWN = 0
    """A type that this client doesn't know."""
    SOURCE = 1
    PROCESSOR = 2
    SINK = 3


class StreamsGroupTopologyDescriptionStatus(Enum):
    """Whether the broker has the description of a group's topology."""

    NOT_REQUESTED = 0
    NOT_STORED = 1
    """The broker has no plugin for descriptions, or no member has sent one yet."""
    ERROR = 2
    """The plugin couldn't return it."""
    AVAILABLE = 3


@dataclass(frozen=True, slots=True)
class StreamsTopologyNode:
    """A node of a topology."""

    name: str
    node_type: StreamsTopologyNodeType
    source_topics: list[str]
    """The topics that a source reads. It is empty if the application chooses them at run time."""
    sink_topic: str | None
    """The topic that a sink writes. None: the application chooses it at run time."""
    stores: list[str]
    """The state stores that a processor uses."""
    successors: list[str]
    """The names of the next nodes."""


@dataclass(frozen=True, slots=True)
class StreamsTopologySubtopology:
    """The nodes of a subtopology."""

    subtopology_id: str
    nodes: list[StreamsTopologyNode]


@dataclass(frozen=True, slots=True)
class StreamsTopologyGlobalStore:
    """The nodes that fill a global store, whose data each member has."""

    source: StreamsTopologyNode
    processor: StreamsTopologyNode


@dataclass(frozen=True, slots=True)
class StreamsGroupTopologyDescription:
    """The nodes of an application's topology (KIP-1331)."""

    subtopologies: list[StreamsTopologySubtopology]
    global_stores: list[StreamsTopologyGlobalStore]


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    """A streams group with its members and its topology."""

    group_id: str
    group_epoch: int
    """It rises with each change of members, topology or topics."""
    target_assignment_epoch: int
    """The group epoch of the assignment."""
    topology_epoch: int | None
    """None if the group has no topology yet."""
    subtopologies: list[StreamsGroupSubtopologyDescription]
    members: list[StreamsGroupMemberDescription]
    group_state: ConsumerGroupState
    coordinator: Node
    authorized_operations: list[AclOperation] | None = None
    """The operations that this client may do; None if not requested."""
    topology_description: StreamsGroupTopologyDescription | None = None
    """The nodes of the topology; None unless the status is AVAILABLE."""
    topology_description_status: StreamsGroupTopologyDescriptionStatus = (
        StreamsGroupTopologyDescriptionStatus.NOT_REQUESTED
    )
    assignor_name: str | None = None
    """The broker's assignor; None before Apache Kafka 4.4."""


# --- describing ---


def _describe_share_groups(
    authorized: bool,
) -> AdminOperation[str, str, ShareGroupDescribeResponse, ShareGroupDescription]:
    return AdminOperation(
        destination=Operation.coordinators,
        request=lambda groups: ShareGroupDescribeRequest(
            group_ids=groups, include_authorized_operations=authorized
        ),
        outcomes=lambda response, portion: {
            each.group_id: error_or_none(each.error_code, each.error_message)
            or _share_group(each, portion.broker)
            for each in response.groups
        },
        change=False,
    )


def _share_group(
    group: ShareGroupDescribeResponse.Group, coordinator: Node
) -> ShareGroupDescription:
    return ShareGroupDescription(
        group.group_id,
        [
            ShareMemberDescription(
                each.member_id,
                each.rack_id,
                each.client_id,
                each.client_host,
                assignment_of(each.assignment),
                each.member_epoch,
            )
            for each in group.members
        ],
        state_of(group.group_state),
        coordinator,
        group.group_epoch,
        group.assignment_epoch,
        _authorized(group.authorized_operations),
    )


def _authorized(bits: int) -> list[AclOperation] | None:
    allowed = allowed_operations(bits)
    return None if allowed is None else list(allowed)


def _describe_streams_groups(
    authorized: bool, described: bool
) -> AdminOperation[str, str, StreamsGroupDescribeResponse, StreamsGroupDescription]:
    return AdminOperation(
        destination=Operation.coordinators,
        request=lambda groups: StreamsGroupDescribeRequest(
            group_ids=groups,
            include_authorized_operations=authorized,
            include_topology_description=described,
        ),
        outcomes=lambda response, portion: {
            each.group_id: error_or_none(each.error_code, each.error_message)
            or _streams_group(each, portion.broker)
            for each in response.groups
        },
        change=False,
    )


def _streams_group(
    group: StreamsGroupDescribeResponse.Group, coordinator: Node
) -> StreamsGroupDescription:
    topology = group.topology
    parts = [] if topology is None else topology.subtopologies or []
    return StreamsGroupDescription(
        group.group_id,
        group.group_epoch,
        group.assignment_epoch,
        None if topology is None else topology.epoch,
        [
            StreamsGroupSubtopologyDescription(
                each.subtopology_id,
                each.source_topics,
                each.repartition_sink_topics,
                _topics(each.state_changelog_topics),
                _topics(each.repartition_source_topics),
            )
            for each in parts
        ],
        [_streams_member(each) for each in group.members],
        state_of(group.group_state),
        coordinator,
        _authorized(group.authorized_operations),
        _description(group.topology_description),
        _STATUSES.get(
            group.topology_description_status, StreamsGroupTopologyDescriptionStatus.ERROR
        ),
        group.assignor_name,
    )


_STATUSES: Final = {each.value: each for each in StreamsGroupTopologyDescriptionStatus}
_NODE_TYPES: Final = {each.value: each for each in StreamsTopologyNodeType}


def _description(sent: TopologyDescription | None) -> StreamsGroupTopologyDescription | None:
    if sent is None:
        return None
    return StreamsGroupTopologyDescription(
        [
            StreamsTopologySubtopology(each.subtopology_id, [_node(node) for node in each.nodes])
            for each in sent.subtopologies
        ],
        [
            StreamsTopologyGlobalStore(_node(each.source), _node(each.processor))
            for each in sent.global_stores
        ],
    )


def _node(sent: TopologyNode) -> StreamsTopologyNode:
    return StreamsTopologyNode(
        sent.name,
        _NODE_TYPES.get(sent.node_type, StreamsTopologyNodeType.UNKNOWN),
        sent.source_topics,
        sent.sink_topic,
        sent.stores,
        sent.successors,
    )


def _streams_member(
    member: StreamsGroupDescribeResponse.Group.Member,
) -> StreamsGroupMemberDescription:
    endpoint = member.user_endpoint
    return StreamsGroupMemberDescription(
        member.member_id,
        member.member_epoch,
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.topology_epoch,
        member.process_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        {each.key: each.value for each in member.client_tags},
        _task_offsets(member.task_offsets),
        _task_offsets(member.task_end_offsets),
        _tasks_of(member.assignment),
        _tasks_of(member.target_assignment),
        member.is_classic,
    )


def _tasks_of(
    assignment: StreamsGroupDescribeResponse.Group.Member.Assignment,
) -> StreamsGroupMemberAssignment:
    return StreamsGroupMemberAssignment(
        _tasks(assignment.active_tasks),
        _tasks(assignment.standby_tasks),
        _tasks(assignment.warmup_tasks),
    )


def _tasks(tasks: Iterable[TaskIds]) -> dict[str, list[int]]:
    return {each.subtopology_id: each.partitions for each in tasks}


def _task_offsets(offsets: Iterable[TaskOffset]) -> list[StreamsTaskOffset]:
    return [StreamsTaskOffset(each.subtopology_id, each.partition, each.offset) for each in offsets]


def _topics(topics: Iterable[TopicInfo]) -> dict[str, StreamsTopicInfo]:
    return {
        each.name: StreamsTopicInfo(
            each.partitions,
            each.replication_factor,
            {config.key: config.value for config in each.topic_configs},
        )
        for each in topics
    }


# --- offsets of share groups ---

GroupPartitions: TypeAlias = "tuple[str, list[TopicPartition] | None]"
ShareOffsets: TypeAlias = "dict[TopicPartition, SharePartitionOffsetInfo | KafkaError | None]"


def _offsets_request(groups: list[GroupPartitions]) -> DescribeShareGroupOffsetsRequest:
    """The request for some groups of one coordinator."""
    kind = DescribeShareGroupOffsetsRequest.Group
    asked = []
    for group_id, partitions in groups:
        topics = None
        if partitions is not None:
            topics = [
                kind.Topic(topic_name=name, partitions=[each.partition for each in some])
                for name, some in partitions_by_topic(partitions).items()
            ]
        asked.append(kind(group_id=group_id, topics=topics))
    return DescribeShareGroupOffsetsRequest(groups=asked)


def _listed_offsets(
    response: DescribeShareGroupOffsetsResponse, portion: Portion[str, GroupPartitions]
) -> dict[str, ShareOffsets | KafkaError]:
    found: dict[str, ShareOffsets | KafkaError] = {}
    for each in response.groups:
        _, partitions = portion.items.get(each.group_id, ("", None))
        missing: ShareOffsets = dict.fromkeys(partitions or (), UNANSWERED)
        error = error_or_none(each.error_code, each.error_message)
        found[each.group_id] = error or missing | _share_offsets(each)
    return found


LIST_SHARE_OFFSETS: AdminOperation[
    str, GroupPartitions, DescribeShareGroupOffsetsResponse, ShareOffsets
] = AdminOperation(
    destination=Operation.coordinators,
    request=_offsets_request,
    outcomes=_listed_offsets,
    change=False,
)


def _share_offsets(
    group: DescribeShareGroupOffsetsResponse.Group,
) -> ShareOffsets:
    return {
        TopicPartition(topic.topic_name, each.partition_index): error_or_none(
            each.error_code, each.error_message
        )
        or _share_offset(each)
        for topic in group.topics
        for each in topic.partitions
    }


def _share_offset(
    partition: DescribeShareGroupOffsetsResponse.Group.Topic.Partition,
) -> SharePartitionOffsetInfo | None:
    if partition.start_offset < 0:
        return None
    epoch, lag = partition.leader_epoch, partition.lag
    return SharePartitionOffsetInfo(
        partition.start_offset, None if epoch < 0 else epoch, None if lag < 0 else lag
    )


def _alter_share_offsets(
    group: str,
) -> AdminOperation[
    TopicPartition, tuple[TopicPartition, int], AlterShareGroupOffsetsResponse, None
]:
    def request(offsets: list[tuple[TopicPartition, int]]) -> AlterShareGroupOffsetsRequest:
        wanted = dict(offsets)
        kind = AlterShareGroupOffsetsRequest.Topic
        topics = [
            kind(
                topic_name=name,
                partitions=[
                    kind.Partition(partition_index=each.partition, start_offset=wanted[each])
                    for each in some
                ],
            )
            for name, some in partitions_by_topic(wanted).items()
        ]
        return AlterShareGroupOffsetsRequest(group_id=group, topics=topics)

    def outcomes(
        response: AlterShareGroupOffsetsResponse,
        portion: Portion[TopicPartition, tuple[TopicPartition, int]],
    ) -> dict[TopicPartition, KafkaError | None]:
        error = error_or_none(response.error_code, response.error_message)
        if error is not None:
            return dict.fromkeys(portion.items, error)
        return {
            TopicPartition(topic.topic_name, each.partition_index): error_or_none(
                each.error_code, each.error_message
            )
            for topic in response.responses
            for each in topic.partitions
        }

    return AdminOperation(
        destination=within_group(group), request=request, outcomes=outcomes, change=True
    )


def _delete_share_offsets(
    group: str,
) -> AdminOperation[str, str, DeleteShareGroupOffsetsResponse, None]:
    def request(topics: list[str]) -> DeleteShareGroupOffsetsRequest:
        kind = DeleteShareGroupOffsetsRequest.Topic
        return DeleteShareGroupOffsetsRequest(
            group_id=group, topics=[kind(topic_name=each) for each in topics]
        )

    def outcomes(
        response: DeleteShareGroupOffsetsResponse, portion: Portion[str, str]
    ) -> dict[str, KafkaError | None]:
        error = error_or_none(response.error_code, response.error_message)
        if error is not None:
            return dict.fromkeys(portion.items, error)
        return {
            each.topic_name: error_or_none(each.error_code, each.error_message)
            for each in response.responses
        }

    return AdminOperation(
        destination=within_group(group), request=request, outcomes=outcomes, change=True
    )


def _start_offset(
    partition: TopicPartition, offset: object
) -> tuple[TopicPartition, int] | KafkaError:
    """The item, or the error why it can't be sent."""
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise TypeError(f"an offset must be an int, not {type(offset).__name__}")
    if offset < 0:
        return KafkaError(KafkaError._INVALID_ARG, f"an offset cannot be negative, {offset} is")
    return partition, offset


class ShareGroupsAdmin(GroupsAdmin):
    """Calls about groups that aren't consumer groups."""

    def describe_share_groups(
        self,
        group_ids: list[str],
        *,
        include_authorized_operations: bool = False,
        request_timeout: float = -1,
    ) -> dict[str, Future[ShareGroupDescription]]:
        """Describes share groups (KIP-932) with their members.

        :param group_ids: Their ids.
        :param include_authorized_operations: Include the operations that this client may do
            (KIP-430).
        :return: One future per group, by id; KafkaException, for instance GROUP_ID_NOT_FOUND.
        """
        kind = _describe_share_groups(
            flag("include_authorized_operations", include_authorized_operations)
        )
        groups = [(each, each) for each in list_of(group_ids, str)]
        return self._start(kind, groups, self._request_timeout(request_timeout))

    def list_share_group_offsets(
        self, groups: Mapping[str, list[TopicPartition] | None], *, request_timeout: float = -1
    ) -> dict[str, Future[dict[TopicPartition, SharePartitionOffsetInfo | KafkaError | None]]]:
        """Returns the progress of share groups (KIP-932), and their lag (KIP-1226).

        :param groups: The partitions by group id; None: all partitions with offsets.
        :return: One future per group, by id. A partition is None if the group has no offset for it
            yet, and a KafkaError if its offset couldn't be read.
        """
        if not isinstance(groups, Mapping):
            raise TypeError(
                f"expected a mapping of group ids to partitions, not {type(groups).__name__}"
            )
        if not groups:
            raise ValueError("Expected non-empty mapping of group ids to partitions")
        items: list[tuple[str, GroupPartitions]] = []
        for group_id, given in groups.items():
            partitions = (
                None if given is None else copied_partitions(list_of(given, TopicPartition))
            )
            items.append((group_name(group_id), (group_id, partitions)))
        return self._start(LIST_SHARE_OFFSETS, items, self._request_timeout(request_timeout))

    def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, request_timeout: float = -1
    ) -> dict[TopicPartition, Future[None]]:
        """Changes the start offsets of a share group without members (KIP-932).

        :param group_id: Its id.
        :param offsets: The new offset of each partition.
        :return: One future per partition: None when it is done; KafkaException, for instance
            NON_EMPTY_GROUP.
        """
        group = group_name(group_id)
        if not isinstance(offsets, Mapping):
            raise TypeError(
                f"expected a mapping of partitions to offsets, not {type(offsets).__name__}"
            )
        partitions = copied_partitions(list_of(list(offsets), TopicPartition))
        items = [
            (each, _start_offset(each, offset))
            for each, offset in zip(partitions, offsets.values(), strict=True)
        ]
        return self._start(
            _alter_share_offsets(group), items, self._request_timeout(request_timeout)
        )

    def delete_share_group_offsets(
        self, group_id: str, topics: list[str], *, request_timeout: float = -1
    ) -> dict[str, Future[None]]:
        """Deletes the offsets of topics in a share group without members (KIP-932).

        If it subscribes to them again, it starts without offsets.

        :param group_id: Its id.
        :param topics: Their names.
        :return: One future per topic: None when they are deleted; KafkaException, for instance
            NON_EMPTY_GROUP.
        """
        group = group_name(group_id)
        items = [(each, each) for each in list_of(topics, str)]
        return self._start(
            _delete_share_offsets(group), items, self._request_timeout(request_timeout)
        )

    delete_share_groups = GroupsAdmin.delete_consumer_groups

    def describe_streams_groups(
        self,
        group_ids: list[str],
        *,
        include_authorized_operations: bool = False,
        include_topology_description: bool = False,
        request_timeout: float = -1,
    ) -> dict[str, Future[StreamsGroupDescription]]:
        """Describes groups of Kafka Streams (KIP-1071) with their members and their topology.

        :param group_ids: Their ids.
        :param include_authorized_operations: Include the operations that this client may do
            (KIP-430).
        :param include_topology_description: Include the nodes of the topology (KIP-1331). It needs
            Apache Kafka 4.4, and brokers with a plugin that stores them.
        :return: One future per group, by id; KafkaException, for instance GROUP_ID_NOT_FOUND.
        """
        kind = _describe_streams_groups(
            flag("include_authorized_operations", include_authorized_operations),
            flag("include_topology_description", include_topology_description),
        )
        groups = [(each, each) for each in list_of(group_ids, str)]
        return self._start(kind, groups, self._request_timeout(request_timeout))

    # A streams group's offsets are stored like a consumer group's. The requests are the same, as in
    # Java's Admin.
    list_streams_group_offsets = GroupsAdmin.list_consumer_group_offsets
    alter_streams_group_offsets = GroupsAdmin.alter_consumer_group_offsets
    delete_streams_group_offsets = GroupsAdmin.delete_consumer_group_offsets
    delete_streams_groups = GroupsAdmin.delete_consumer_groups
