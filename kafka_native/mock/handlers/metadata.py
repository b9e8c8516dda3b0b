"""Metadata, DescribeCluster and DescribeTopicPartitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.topics import NO_LEADER, is_valid_name
from kafka_native.protocol.metadata import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka_native.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from kafka_native.mock.call import Call
    from kafka_native.mock.topics import Partition, Topic

_FIRST_WITH_AUTO_CREATE_FLAG = 4
_FIRST_WITH_NULL_FOR_ALL = 1
_FIRST_WITH_NULL_NAMES = 12
_FIRST_WITH_ERROR = 13


def metadata(call: Call, request: MetadataRequest) -> MetadataResponse:
    """Return the brokers that are up, and the requested topics with their leaders."""
    cluster = call.cluster
    with cluster.lock:
        return MetadataResponse(
            brokers=[
                MetadataResponse.Broker(
                    node_id=broker.id,
                    host=broker.endpoint[0],
                    port=broker.endpoint[1],
                    rack=broker.rack,
                )
                for broker in cluster.live_brokers()
            ],
            cluster_id=cluster.cluster_id,
            controller_id=cluster.controller_id(),
            topics=_topics(call, request),
        )


def _topics(call: Call, request: MetadataRequest) -> list[MetadataResponse.Topic]:
    cluster = call.cluster
    requested = request.topics
    if requested is None or (not requested and call.version < _FIRST_WITH_NULL_FOR_ALL):
        names = [
            name
            for name in cluster.topics
            if not call.denies_topic(name) and not cluster.faults.take_hidden(name)
        ]
        return [_describe_topic(call, cluster.topics[name]) for name in names]
    may_create = cluster.settings.auto_create_topics and (
        request.allow_auto_topic_creation or call.version < _FIRST_WITH_AUTO_CREATE_FLAG
    )
    return [_describe_requested(call, one, may_create) for one in requested]


def _describe_requested(
    call: Call, requested: MetadataRequest.Topic, may_create: bool
) -> MetadataResponse.Topic:
    cluster = call.cluster
    if requested.topic_id != ZERO_UUID:
        topic = cluster.topic_by_id(requested.topic_id)
        if topic is not None and call.denies_topic(topic.name):
            topic = None  # a client that may not see a topic doesn't learn its name
        if topic is None or cluster.faults.take_hidden(topic.name):
            name = None if call.version >= _FIRST_WITH_NULL_NAMES else ""
            return MetadataResponse.Topic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, topic_id=requested.topic_id, name=name
            )
        return _describe_topic(call, topic)
    name = requested.name
    if name is None or not is_valid_name(name):
        return MetadataResponse.Topic(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, name=name or "")
    if call.denies_topic(name):
        return MetadataResponse.Topic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    if cluster.faults.take_hidden(name):
        return MetadataResponse.Topic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)
    topic = cluster.topics.get(name)
    if topic is None and may_create:
        topic = cluster.make_topic(name)
    if topic is None:
        code = _take_error(call, name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return MetadataResponse.Topic(error_code=code, name=name)
    return _describe_topic(call, topic)


def _take_error(call: Call, topic: str) -> int:
    """Return the error that a test ordered for a topic, or 0."""
    pushed = call.cluster.faults.take_topic_error(call.api_key, call.broker.id, topic)
    return 0 if pushed is None else pushed.code


def _describe_topic(call: Call, topic: Topic) -> MetadataResponse.Topic:
    code = _take_error(call, topic.name)
    if code:
        return MetadataResponse.Topic(error_code=code, name=topic.name, topic_id=topic.id)
    parts = []
    for one in topic.partitions:
        described = _partition(one)
        pushed = call.cluster.faults.take_partition_error(
            call.api_key, call.broker.id, topic.name, one.index
        )
        if pushed is not None and pushed.code:
            described.error_code = pushed.code
        parts.append(described)
    return MetadataResponse.Topic(
        name=topic.name, topic_id=topic.id, is_internal=topic.is_internal, partitions=parts
    )


def _partition(partition: Partition) -> MetadataResponse.Topic.Partition:
    in_sync = partition.in_sync()
    return MetadataResponse.Topic.Partition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE
        if partition.leader == NO_LEADER
        else ErrorCode.NO_ERROR,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=in_sync,
        offline_replicas=[node for node in partition.replicas if node not in in_sync],
    )


def refuse(call: Call, request: MetadataRequest, code: int) -> MetadataResponse:
    """Return the brokers, and an error for each requested topic."""
    cluster = call.cluster
    with cluster.lock:
        response = metadata(call, MetadataRequest(topics=[]))
        if call.version < _FIRST_WITH_NULL_FOR_ALL:
            response.topics.clear()
        names = [(one.name, one.topic_id) for one in request.topics or ()] or [
            (topic.name, topic.id) for topic in cluster.topics.values()
        ]
    may_be_null = call.version >= _FIRST_WITH_NULL_NAMES
    # This is the only error about the reply as a whole. Older versions have no field for it.
    if code == ErrorCode.REBOOTSTRAP_REQUIRED:
        response.error_code = code if call.version >= _FIRST_WITH_ERROR else 0
        return response
    response.topics = [
        MetadataResponse.Topic(
            error_code=code, name=name if may_be_null else name or "", topic_id=number
        )
        for name, number in names
    ]
    return response


def describe_cluster(call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Return the brokers that are up, and on request those that are fenced."""
    cluster = call.cluster
    if request.endpoint_type != 1:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="the endpoints of this cluster are brokers",
        )
    with cluster.lock:
        return DescribeClusterResponse(
            cluster_id=cluster.cluster_id,
            controller_id=cluster.controller_id(),
            brokers=[
                DescribeClusterResponse.Broker(
                    broker_id=broker.id,
                    host=broker.endpoint[0],
                    port=broker.endpoint[1],
                    rack=broker.rack,
                    is_fenced=is_fenced,
                )
                for is_fenced, brokers in (
                    (False, cluster.live_brokers()),
                    (True, cluster.fenced_brokers() if request.include_fenced_brokers else []),
                )
                for broker in brokers
            ],
        )


def describe_topic_partitions(
    call: Call, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Return a page of topics in the order of their names, from the request's cursor on."""
    cluster = call.cluster
    response = DescribeTopicPartitionsResponse()
    limit = max(request.response_partition_limit, 1)
    with cluster.lock:
        names = sorted({one.name for one in request.topics} or cluster.topics)
        first = 0
        if request.cursor is not None:
            names = [name for name in names if name >= request.cursor.topic_name]
            first = (
                request.cursor.partition_index if names[:1] == [request.cursor.topic_name] else 0
            )
        for name in names:
            if limit <= 0:
                response.next_cursor = DescribeTopicPartitionsResponse.NextCursor(
                    topic_name=name, partition_index=0
                )
                break
            topic = cluster.topics.get(name)
            if topic is None:
                missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                response.topics.append(
                    DescribeTopicPartitionsResponse.Topic(error_code=missing, name=name)
                )
                continue
            page = topic.partitions[first : first + limit]
            response.topics.append(
                DescribeTopicPartitionsResponse.Topic(
                    name=name,
                    topic_id=topic.id,
                    is_internal=topic.is_internal,
                    partitions=[_page_partition(one) for one in page],
                )
            )
            limit -= len(page)
            if first + len(page) < len(topic.partitions):
                response.next_cursor = DescribeTopicPartitionsResponse.NextCursor(
                    topic_name=name, partition_index=first + len(page)
                )
                break
            first = 0
    return response


def _page_partition(partition: Partition) -> DescribeTopicPartitionsResponse.Topic.Partition:
    plain = _partition(partition)
    return DescribeTopicPartitionsResponse.Topic.Partition(
        error_code=plain.error_code,
        partition_index=plain.partition_index,
        leader_id=plain.leader_id,
        leader_epoch=plain.leader_epoch,
        replica_nodes=plain.replica_nodes,
        isr_nodes=plain.isr_nodes,
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=plain.offline_replicas,
    )
