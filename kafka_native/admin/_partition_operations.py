"""The operations about where partitions live. They run on the control thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kafka_native.admin._partitions import (
    LogDirDescription,
    NewPartitionReassignment,
    PartitionDescription,
    PartitionReassignment,
    ReplicaInfo,
    ReplicaLogDirInfo,
    TopicPartitionReplica,
    TopicPartitionsCursor,
    TopicPartitionsDescription,
    TopicPartitionsPage,
)
from kafka_native.admin._topic_operations import NOT_ASKED, allowed, told
from kafka_native.cleaning import clean
from kafka_native.control.operations import Operation, Settle, Steps
from kafka_native.errors import KafkaError
from kafka_native.protocol.metadata import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kafka_native.protocol.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka_native.protocol.schema import Request
from kafka_native.types import TopicPartition, Uuid

OF_THE_DIRECTORY = frozenset({KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.KAFKA_STORAGE_ERROR})
"""What a broker says of its own directories: asking it again doesn't help."""


def _by_topic(partitions: Iterable[TopicPartition | TopicPartitionReplica]) -> dict[str, list[int]]:
    """The numbers of partitions by their topics."""
    found: dict[str, list[int]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each.partition)
    return found


# --- reassignments ---


def reassign(
    allow_replication_factor_change: bool,
    timeout_ms: int,
    moves: list[tuple[TopicPartition, NewPartitionReassignment | None]],
) -> Request:
    """The request."""
    kind = AlterPartitionReassignmentsRequest.Topic
    topics: dict[str, AlterPartitionReassignmentsRequest.Topic] = {}
    for place, new in moves:
        replicas = None if new is None else list(new.target_replicas)
        topics.setdefault(place.topic, kind(name=place.topic)).partitions.append(
            kind.Partition(partition_index=place.partition, replicas=replicas)
        )
    return AlterPartitionReassignmentsRequest(
        topics=list(topics.values()),
        timeout_ms=timeout_ms,
        allow_replication_factor_change=allow_replication_factor_change,
    )


def alter_reassignments(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """AlterPartitionReassignments, to the controller."""

    def outcomes(reply: AlterPartitionReassignmentsResponse, target: int | None) -> dict[TopicPartition, Any]:
        if reply.error_code:
            return dict.fromkeys(items, KafkaError(reply.error_code, reply.error_message))
        return {
            TopicPartition(topic.name, each.partition_index): told(each.error_code, each.error_message)
            for topic in reply.responses
            for each in topic.partitions
        }

    return operation.rounds(items, operation.controller, make, outcomes, settle, change=True)


def ask_reassignments(timeout_ms: int, partitions: list[list[TopicPartition] | None]) -> Request:
    """The request, with the one list of partitions; None for all."""
    (wanted,) = partitions
    kind = ListPartitionReassignmentsRequest.Topic
    topics = [kind(name=name, partition_indexes=some) for name, some in _by_topic(wanted or ()).items()]
    return ListPartitionReassignmentsRequest(topics=None if wanted is None else topics, timeout_ms=timeout_ms)


def list_reassignments(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """ListPartitionReassignments, to the controller."""

    def outcomes(reply: ListPartitionReassignmentsResponse, target: int | None) -> dict[None, Any]:
        found = {
            TopicPartition(topic.name, each.partition_index): PartitionReassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in reply.topics
            for each in topic.partitions
        }
        return {None: told(reply.error_code, reply.error_message) or found}

    return operation.rounds(items, operation.controller, make, outcomes, settle, change=False)


# --- log directories ---


def ask_log_dirs(brokers: list[int]) -> Request:
    """The request, the same for every broker."""
    return DescribeLogDirsRequest(topics=None)


def describe_log_dirs(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """DescribeLogDirs, to each broker that is meant."""

    def place(keys: list[Any]) -> Steps[dict[Any, Any]]:
        return operation.nodes(keys, lambda broker: broker)

    def outcomes(reply: DescribeLogDirsResponse, target: int | None) -> dict[int | None, Any]:
        return {target: _directories(reply)}

    return operation.rounds(items, place, make, outcomes, settle, change=False)


def _directories(reply: DescribeLogDirsResponse) -> dict[str, LogDirDescription] | KafkaError:
    # Before version 3 a client that isn't allowed to know is told of no directory.
    denied = None if reply.results else KafkaError.CLUSTER_AUTHORIZATION_FAILED
    error = told(reply.error_code or denied or 0)
    return error or {each.log_dir: _described(each) for each in reply.results}


def _described(directory: DescribeLogDirsResponse.LogDir) -> LogDirDescription:
    replicas = {
        TopicPartition(topic.name, each.partition_index): ReplicaInfo(
            each.partition_size, each.offset_lag, each.is_future_key
        )
        for topic in directory.topics
        for each in topic.partitions
    }
    total, usable = (None if size < 0 else size for size in (directory.total_bytes, directory.usable_bytes))
    return LogDirDescription(told(directory.error_code), replicas, total, usable, directory.is_cordoned)


def ask_replicas(replicas: list[TopicPartitionReplica]) -> Request:
    """The request, for the replicas of one broker."""
    kind = DescribeLogDirsRequest.Topic
    topics = [kind(topic=name, partitions=some) for name, some in _by_topic(replicas).items()]
    return DescribeLogDirsRequest(topics=topics)


def describe_replicas(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """DescribeLogDirs, to each replica's broker, about these partitions."""

    def place(keys: list[Any]) -> Steps[dict[Any, Any]]:
        return operation.nodes(keys, lambda replica: replica.broker_id)

    def outcomes(reply: DescribeLogDirsResponse, target: int | None) -> dict[Any, Any]:
        reported_of = _directories(reply)
        found: dict[Any, Any] = {}
        for each in items:
            if each.broker_id == target:
                found[each] = reported_of if isinstance(reported_of, KafkaError) else _whereabouts(each, reported_of)
        return found

    return operation.rounds(items, place, make, outcomes, settle, change=False, final=OF_THE_DIRECTORY)


def _whereabouts(
    replica: TopicPartitionReplica, directories: dict[str, LogDirDescription]
) -> ReplicaLogDirInfo | KafkaError:
    key = TopicPartition(replica.topic, replica.partition)
    places: dict[bool, tuple[str | None, int]] = {True: (None, -1), False: (None, -1)}
    for path, directory in directories.items():
        if key in directory.replica_infos:
            info = directory.replica_infos[key]
            places[info.is_future] = (path, info.offset_lag)
    offline = [each.error for each in directories.values() if each.error is not None]
    if places[False][0] is None and offline:
        return offline[0]  # it may be there
    return ReplicaLogDirInfo(*places[False], *places[True])


def move_replicas(moves: list[tuple[TopicPartitionReplica, str]]) -> Request:
    """The request, for the replicas of one broker."""
    paths: dict[str, list[TopicPartitionReplica]] = {}
    for replica, path in moves:
        paths.setdefault(path, []).append(replica)
    kind = AlterReplicaLogDirsRequest.Dir
    return AlterReplicaLogDirsRequest(
        dirs=[
            kind(path=path, topics=[kind.Topic(name=name, partitions=each) for name, each in _by_topic(some).items()])
            for path, some in paths.items()
        ]
    )


def alter_log_dirs(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """AlterReplicaLogDirs, to each replica's broker."""

    def place(keys: list[Any]) -> Steps[dict[Any, Any]]:
        return operation.nodes(keys, lambda replica: replica.broker_id)

    def outcomes(reply: AlterReplicaLogDirsResponse, target: int | None) -> dict[TopicPartitionReplica, Any]:
        return {
            TopicPartitionReplica(topic.topic_name, each.partition_index, target): told(each.error_code)
            for topic in reply.results
            for each in topic.partitions
            if target is not None
        }

    return operation.rounds(items, place, make, outcomes, settle, change=True, final=OF_THE_DIRECTORY)


# --- descriptions in pages ---


def ask_page(limit: int, pages: list[tuple[list[str], TopicPartitionsCursor | None]]) -> Request:
    """The request for one page; no names ask for all topics."""
    ((names, cursor),) = pages
    asked = DescribeTopicPartitionsRequest
    begin = None if cursor is None else asked.Cursor(topic_name=cursor.topic, partition_index=cursor.partition)
    topics = [asked.Topic(name=name) for name in names]
    return asked(topics=topics, response_partition_limit=limit, cursor=begin)


def describe_page(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """DescribeTopicPartitions (KIP-966) from any broker; from one before 3.8 Metadata, which is all of it at once."""
    names, cursor = items[None]

    def outcomes(reply: DescribeTopicPartitionsResponse, target: int | None) -> dict[None, Any]:
        return {None: _page_of(reply, cursor)}

    found: list[Any] = []
    yield from operation.rounds(
        items, operation.anywhere, make, outcomes, lambda key, value: found.append(value), change=False
    )
    (outcome,) = found
    if isinstance(outcome, KafkaError) and outcome.code() == KafkaError._UNSUPPORTED_FEATURE:
        outcome = yield from _all_at_once(names, cursor, operation)
    settle(None, outcome)


def _all_at_once(
    names: list[str], cursor: TopicPartitionsCursor | None, operation: Operation
) -> Steps[TopicPartitionsPage]:
    reply = yield from operation.cluster(names or None, include_topic_authorized_operations=False)
    topics = sorted((_topic_of(each) for each in reply.topics), key=lambda each: each.name)
    if cursor is not None:
        topics = [each for each in topics if each.name >= cursor.topic]
    return TopicPartitionsPage(tuple(topics), None)


def _page_of(
    reply: DescribeTopicPartitionsResponse, cursor: TopicPartitionsCursor | None
) -> TopicPartitionsPage | KafkaError:
    following = reply.next_cursor
    beyond = None if following is None else TopicPartitionsCursor(following.topic_name, following.partition_index)
    if beyond is not None and cursor is not None and beyond <= cursor:  # the pages would never end
        return KafkaError(KafkaError._BAD_MSG, clean(f"behind the page at {cursor} the broker names {beyond}", 600))
    return TopicPartitionsPage(tuple(_topic_of(each) for each in reply.topics), beyond)


def _topic_of(topic: Any) -> TopicPartitionsDescription:
    """A topic of DescribeTopicPartitions or of Metadata."""
    bits = topic.topic_authorized_operations
    return TopicPartitionsDescription(
        topic.name or "",
        told(topic.error_code),
        Uuid.from_bytes(topic.topic_id),
        topic.is_internal,
        tuple(_partition_of(each) for each in sorted(topic.partitions, key=lambda each: each.partition_index)),
        None if bits == NOT_ASKED else allowed(bits),
    )


def _partition_of(partition: Any) -> PartitionDescription:
    eligible, last_known = (
        None if (found := getattr(partition, name, None)) is None else tuple(found)
        for name in ("eligible_leader_replicas", "last_known_elr")
    )
    return PartitionDescription(
        partition.partition_index,
        told(partition.error_code),
        partition.leader_id if partition.leader_id >= 0 else None,
        partition.leader_epoch if partition.leader_epoch >= 0 else None,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        eligible,
        last_known,
        tuple(partition.offline_replicas),
    )
