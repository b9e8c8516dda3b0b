"""The operations about share groups and streams groups. They run on the control thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kafka_native.admin._acl import AclOperation
from kafka_native.admin._group_operations import assignment_of, node_of, state_of
from kafka_native.admin._offset_operations import by_topic
from kafka_native.admin._shared_groups import (
    ShareGroupDescription,
    ShareMemberDescription,
    SharePartitionOffsetInfo,
    StreamsGroupDescription,
    StreamsGroupMemberAssignment,
    StreamsGroupMemberDescription,
    StreamsGroupSubtopologyDescription,
    StreamsTaskOffset,
    StreamsTopicInfo,
)
from kafka_native.admin._topic_operations import NOT_ASKED, allowed, told
from kafka_native.control.operations import Operation, Same, Settle, Steps
from kafka_native.errors import KafkaError
from kafka_native.protocol.group_admin import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from kafka_native.protocol.schema import Request
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
)
from kafka_native.types import Node, TopicPartition

Make = Callable[[list[Any]], Request]
Described = Callable[[Any, Node], ShareGroupDescription | StreamsGroupDescription]


def describe_share(operations: bool, groups: list[str]) -> Request:
    """The request."""
    return ShareGroupDescribeRequest(group_ids=groups, include_authorized_operations=operations)


def describe_streams(operations: bool, groups: list[str]) -> Request:
    """The request."""
    return StreamsGroupDescribeRequest(group_ids=groups, include_authorized_operations=operations)


def describe_groups(
    described: Described, make: Make, items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """One of the requests above, to the coordinators."""

    def outcomes(reply: Any, target: int | None) -> dict[str, Any]:
        node = node_of(operation, target)
        return {
            each.group_id: told(each.error_code, each.error_message) or described(each, node) for each in reply.groups
        }

    return operation.rounds(items, operation.coordinators, make, outcomes, settle, change=False)


def _operations(bits: int) -> list[AclOperation] | None:
    return None if bits == NOT_ASKED else list(allowed(bits))


def share_group(group: ShareGroupDescribeResponse.Group, coordinator: Node) -> ShareGroupDescription:
    """A share group, from the protocol's form."""
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
        _operations(group.authorized_operations),
    )


def streams_group(group: StreamsGroupDescribeResponse.Group, coordinator: Node) -> StreamsGroupDescription:
    """A streams group, from the protocol's form."""
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
        _operations(group.authorized_operations),
    )


def _streams_member(member: StreamsGroupDescribeResponse.Group.Member) -> StreamsGroupMemberDescription:
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
        _offsets(member.task_offsets),
        _offsets(member.task_end_offsets),
        _tasks_of(member.assignment),
        _tasks_of(member.target_assignment),
        member.is_classic,
    )


def _tasks_of(assignment: StreamsGroupDescribeResponse.Group.Member.Assignment) -> StreamsGroupMemberAssignment:
    return StreamsGroupMemberAssignment(
        _tasks(assignment.active_tasks), _tasks(assignment.standby_tasks), _tasks(assignment.warmup_tasks)
    )


def _tasks(tasks: Iterable[TaskIds]) -> dict[str, list[int]]:
    return {each.subtopology_id: each.partitions for each in tasks}


def _offsets(offsets: Iterable[TaskOffset]) -> list[StreamsTaskOffset]:
    return [StreamsTaskOffset(each.subtopology_id, each.partition, each.offset) for each in offsets]


def _topics(topics: Iterable[TopicInfo]) -> dict[str, StreamsTopicInfo]:
    return {
        each.name: StreamsTopicInfo(
            each.partitions, each.replication_factor, {config.key: config.value for config in each.topic_configs}
        )
        for each in topics
    }


# --- offsets of share groups ---


def find_share_offsets(groups: list[tuple[str, list[TopicPartition] | None]]) -> Request:
    """The request about some groups of one coordinator."""
    kind = DescribeShareGroupOffsetsRequest.Group
    asked = []
    for group_id, partitions in groups:
        topics = None
        if partitions is not None:
            topics = [
                kind.Topic(topic_name=name, partitions=[each.partition for each in some])
                for name, some in by_topic(partitions).items()
            ]
        asked.append(kind(group_id=group_id, topics=topics))
    return DescribeShareGroupOffsetsRequest(groups=asked)


def list_share_offsets(make: Make, items: dict[Any, Any], settle: Settle, operation: Operation) -> Steps[None]:
    """DescribeShareGroupOffsets, to the coordinators."""

    def outcomes(reply: DescribeShareGroupOffsetsResponse, target: int | None) -> dict[str, Any]:
        return {
            each.group_id: told(each.error_code, each.error_message) or _share_offsets(each) for each in reply.groups
        }

    return operation.rounds(items, operation.coordinators, make, outcomes, settle, change=False)


def _share_offsets(
    group: DescribeShareGroupOffsetsResponse.Group,
) -> dict[TopicPartition, SharePartitionOffsetInfo | KafkaError | None]:
    return {
        TopicPartition(topic.topic_name, each.partition_index): told(each.error_code, each.error_message)
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
    return SharePartitionOffsetInfo(partition.start_offset, None if epoch < 0 else epoch, None if lag < 0 else lag)


def set_share_offsets(group: str, offsets: list[tuple[TopicPartition, int]]) -> Request:
    """The request."""
    wanted = dict(offsets)
    kind = AlterShareGroupOffsetsRequest.Topic
    topics = [
        kind(
            topic_name=name,
            partitions=[kind.Partition(partition_index=each.partition, start_offset=wanted[each]) for each in some],
        )
        for name, some in by_topic(wanted).items()
    ]
    return AlterShareGroupOffsetsRequest(group_id=group, topics=topics)


def alter_share_offsets(
    group: str, make: Make, items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """AlterShareGroupOffsets, to the coordinator."""

    def outcomes(reply: AlterShareGroupOffsetsResponse, target: int | None) -> dict[Any, Any] | Same:
        error = told(reply.error_code, reply.error_message)
        if error is not None:
            return Same(error)
        return {
            TopicPartition(topic.topic_name, each.partition_index): told(each.error_code, each.error_message)
            for topic in reply.responses
            for each in topic.partitions
        }

    return operation.rounds(items, operation.within_group(group), make, outcomes, settle, change=True)


def forget_share_topics(group: str, topics: list[str]) -> Request:
    """The request."""
    kind = DeleteShareGroupOffsetsRequest.Topic
    return DeleteShareGroupOffsetsRequest(group_id=group, topics=[kind(topic_name=each) for each in topics])


def delete_share_offsets(
    group: str, make: Make, items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """DeleteShareGroupOffsets, to the coordinator."""

    def outcomes(reply: DeleteShareGroupOffsetsResponse, target: int | None) -> dict[Any, Any] | Same:
        error = told(reply.error_code, reply.error_message)
        if error is not None:
            return Same(error)
        return {each.topic_name: told(each.error_code, each.error_message) for each in reply.responses}

    return operation.rounds(items, operation.within_group(group), make, outcomes, settle, change=True)
