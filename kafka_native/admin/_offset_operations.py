"""The operations about offsets and records. They run on the control thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kafka_native.admin._listoffsets import ListOffsetsResultInfo
from kafka_native.admin._records import DeletedRecords
from kafka_native.admin._topic_operations import told
from kafka_native.control.consumer.commits import asked_offsets, commit_message, commit_results
from kafka_native.control.errors import ADMIN_RETRIABLE_ERRORS
from kafka_native.control.group.membership import Member
from kafka_native.control.operations import UNANSWERED, Each, Operation, Same, Settle, Steps
from kafka_native.control.positions import NO_POSITION, Key, position_of
from kafka_native.errors import KafkaError
from kafka_native.protocol.offsets import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka_native.protocol.schema import Request
from kafka_native.types import OFFSET_INVALID, ConsumerGroupTopicPartitions, TopicPartition

ONE_BY_ONE = KafkaError(KafkaError._UNSUPPORTED_FEATURE, "a coordinator before Kafka 3.0 is asked about one group")


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Partitions by their topic's name."""
    found: dict[str, list[TopicPartition]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each)
    return found


def fetch_offsets(require_stable: bool, groups: list[ConsumerGroupTopicPartitions]) -> Request:
    """The request. Versions before 8 have the first group only."""
    asked = [_asked(group) for group in groups]
    first = asked[0]
    topics = None
    if first.topics is not None:
        kind = OffsetFetchRequest.Topic
        topics = [kind(name=each.name, partition_indexes=each.partition_indexes) for each in first.topics]
    return OffsetFetchRequest(group_id=first.group_id, topics=topics, groups=asked, require_stable=require_stable)


def _asked(group: ConsumerGroupTopicPartitions) -> OffsetFetchRequest.Group:
    topics = None
    if group.topic_partitions is not None:
        topics = [
            OffsetFetchRequest.Group.Topic(name=name, partition_indexes=[each.partition for each in some])
            for name, some in by_topic(group.topic_partitions).items()
        ]
    return OffsetFetchRequest.Group(group_id=group.group_id, topics=topics)


def list_consumer_group_offsets(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """OffsetFetch, to the coordinators: all groups of one in a request (KIP-709), where it is that new."""
    left: list[Any] = []

    def outcomes(reply: OffsetFetchResponse, target: int | None) -> Each:
        return Each(lambda group: _offsets(reply, items[group]))

    def together(reply: OffsetFetchResponse, target: int | None) -> Same | Each:
        return Same(ONE_BY_ONE) if not reply.groups and len(items) > 1 else outcomes(reply, target)

    def keep_outcome(group: Any, outcome: Any) -> None:
        if outcome is ONE_BY_ONE:
            left.append(group)
        else:
            settle(group, outcome)

    yield from operation.rounds(items, operation.coordinators, make, together, keep_outcome, change=False)
    if left:
        yield from operation.rounds(left, operation.coordinators, make, outcomes, settle, change=False, most=1)


def _offsets(reply: Any, asked: ConsumerGroupTopicPartitions) -> ConsumerGroupTopicPartitions | KafkaError:
    found = asked_offsets(reply, asked.group_id, lambda topic_id: None)
    if isinstance(found, KafkaError):
        return found
    partitions = []
    for (topic, number), place in found.items():
        if isinstance(place, int):
            error = KafkaError(place)
            if place == KafkaError.UNSTABLE_OFFSET_COMMIT:
                return error
            partitions.append(TopicPartition(topic, number).with_error(error))
        elif place == NO_POSITION:
            partitions.append(TopicPartition(topic, number, OFFSET_INVALID))
        else:
            partitions.append(TopicPartition(topic, number, place.offset, place.metadata, place.epoch))
    return ConsumerGroupTopicPartitions(asked.group_id, partitions)


def commit_offsets(groups: list[ConsumerGroupTopicPartitions]) -> Request:
    """The request, about one group, as nobody who is a member of it."""
    (group,) = groups
    places = {(each.topic, each.partition): position_of(each) for each in group.topic_partitions or ()}
    return commit_message(Member(group.group_id), places, {})


def alter_consumer_group_offsets(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """OffsetCommit, to the coordinator."""

    def outcomes(reply: Any, target: int | None) -> dict[str, Any]:
        codes = commit_results(reply, lambda topic_id: None)
        return {group: _committed(codes, asked) for group, asked in items.items()}

    return operation.rounds(items, operation.coordinators, make, outcomes, settle, change=True)


def _committed(codes: dict[Key, int], asked: ConsumerGroupTopicPartitions) -> ConsumerGroupTopicPartitions | KafkaError:
    """Each partition with its error; one error where the coordinator wouldn't do any of it."""
    for code in codes.values():
        if code in ADMIN_RETRIABLE_ERRORS:
            return KafkaError(code)
    partitions = []
    for each in asked.topic_partitions or ():
        key = (each.topic, each.partition)
        partitions.append(each.with_error(told(codes[key]) if key in codes else UNANSWERED))
    return ConsumerGroupTopicPartitions(asked.group_id, partitions)


def forget_offsets(group: str, partitions: list[TopicPartition]) -> Request:
    """The request."""
    kind = OffsetDeleteRequest.Topic
    topics = [
        kind(name=name, partitions=[kind.Partition(partition_index=each.partition) for each in some])
        for name, some in by_topic(partitions).items()
    ]
    return OffsetDeleteRequest(group_id=group, topics=topics)


def delete_consumer_group_offsets(
    group: str, make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """OffsetDelete, to the coordinator."""

    def outcomes(reply: OffsetDeleteResponse, target: int | None) -> dict[Any, Any] | Same:
        if reply.error_code:
            return Same(KafkaError(reply.error_code))
        return {
            TopicPartition(topic.name, each.partition_index): told(each.error_code)
            for topic in reply.topics
            for each in topic.partitions
        }

    return operation.rounds(items, operation.within_group(group), make, outcomes, settle, change=True)


def find_offsets(isolation_level: int, timeout_ms: int, items: list[tuple[TopicPartition, int]]) -> Request:
    """The request."""
    specs = dict(items)
    topics = [
        ListOffsetsRequest.Topic(
            name=name,
            partitions=[
                ListOffsetsRequest.Topic.Partition(partition_index=each.partition, timestamp=specs[each])
                for each in partitions
            ],
        )
        for name, partitions in by_topic(specs).items()
    ]
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics, timeout_ms=timeout_ms)


def list_offsets(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """ListOffsets, to the leaders."""

    def outcomes(reply: ListOffsetsResponse, target: int | None) -> dict[Any, Any]:
        return {
            TopicPartition(topic.name, each.partition_index): told(each.error_code) or _found(each)
            for topic in reply.topics
            for each in topic.partitions
        }

    return operation.rounds(items, operation.leaders, make, outcomes, settle, change=False)


def _found(partition: ListOffsetsResponse.Topic.Partition) -> ListOffsetsResultInfo:
    offset = partition.old_style_offsets[0] if partition.old_style_offsets else partition.offset
    epoch = None if partition.leader_epoch < 0 else partition.leader_epoch
    return ListOffsetsResultInfo(offset, partition.timestamp, epoch)


def drop_records(timeout_ms: int, partitions: list[TopicPartition]) -> Request:
    """The request."""
    topics = [
        DeleteRecordsRequest.Topic(
            name=name,
            partitions=[
                DeleteRecordsRequest.Topic.Partition(partition_index=each.partition, offset=each.offset)
                for each in some
            ],
        )
        for name, some in by_topic(partitions).items()
    ]
    return DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)


def delete_records(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """DeleteRecords, to the leaders."""

    def outcomes(reply: DeleteRecordsResponse, target: int | None) -> dict[Any, Any]:
        return {
            TopicPartition(topic.name, each.partition_index): told(each.error_code)
            or DeletedRecords(each.low_watermark)
            for topic in reply.topics
            for each in topic.partitions
        }

    return operation.rounds(items, operation.leaders, make, outcomes, settle, change=True)
