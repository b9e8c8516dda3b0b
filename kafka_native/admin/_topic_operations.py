"""The operations about topics and the cluster. They run on the control thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_native.admin._acl import AclOperation
from kafka_native.admin._cluster import DescribeClusterResult
from kafka_native.admin._config import ConfigEntry, ConfigSource
from kafka_native.admin._topic import NewPartitions, NewTopic, TopicDescription, TopicMetadataAndConfig
from kafka_native.control.operations import Operation, Settle, Steps
from kafka_native.errors import KafkaError
from kafka_native.protocol.metadata import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka_native.protocol.partitions import ElectLeadersRequest, ElectLeadersResponse
from kafka_native.protocol.schema import ZERO_UUID, Request
from kafka_native.protocol.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kafka_native.types import ElectionType, Node, TopicPartition, TopicPartitionInfo, Uuid

NOT_ASKED = -0x80000000
"""As authorized operations: the broker says none."""


def told(code: int, text: str | None = None) -> KafkaError | None:
    """An error of a reply's item; None: it is done."""
    return KafkaError(code, text or None) if code else None


def operations_of(bits: int) -> list[AclOperation | str | int] | None:
    """What a client may do, from the protocol's bits; what a newer broker says beside is left out."""
    if bits == NOT_ASKED:
        return None
    return list(allowed(bits))


def allowed(bits: int) -> tuple[AclOperation, ...]:
    """As `operations_of()`, where the broker says something."""
    return tuple(each for each in AclOperation if each.value > AclOperation.ANY.value and bits >> each.value & 1)


def new_topic(topic: NewTopic) -> CreateTopicsRequest.Topic:
    """A topic in the protocol's form."""
    new = CreateTopicsRequest.Topic(
        name=topic.topic,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        configs=[CreateTopicsRequest.Topic.Config(name=k, value=v) for k, v in (topic.config or {}).items()],
    )
    if topic.replica_assignment is not None:
        # The broker counts them itself, and refuses other numbers beside them.
        new.num_partitions = new.replication_factor = -1
        new.assignments = [
            CreateTopicsRequest.Topic.Assignment(partition_index=number, broker_ids=list(brokers))
            for number, brokers in enumerate(topic.replica_assignment)
        ]
    return new


def more_partitions(topic: NewPartitions) -> CreatePartitionsRequest.Topic:
    """A topic with its new number of partitions in the protocol's form."""
    assignments = None
    if topic.replica_assignment is not None:
        kind = CreatePartitionsRequest.Topic.Assignment
        assignments = [kind(broker_ids=list(brokers)) for brokers in topic.replica_assignment]
    return CreatePartitionsRequest.Topic(name=topic.topic, count=topic.new_total_count, assignments=assignments)


def create_topics(validate_only: bool, timeout_ms: int, topics: list[Any]) -> Request:
    """The request."""
    return CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)


def delete_topics(timeout_ms: int, names: list[str]) -> Request:
    """The request."""
    topics = [DeleteTopicsRequest.Topic(name=name) for name in names]
    return DeleteTopicsRequest(topics=topics, topic_names=names, timeout_ms=timeout_ms)


def create_partitions(validate_only: bool, timeout_ms: int, topics: list[Any]) -> Request:
    """The request."""
    return CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)


def change_topics(
    make: Callable[[list[Any]], Request],
    items: dict[Any, Any],
    settle: Settle,
    operation: Operation,
    *,
    metadata: bool = False,
) -> Steps[None]:
    """The requests above, to the controller; of topics that are made, their ``metadata`` if they are wanted."""

    def outcomes(reply: Any, target: int | None) -> dict[str, Any]:
        topics = reply.topics if isinstance(reply, CreateTopicsResponse) else _results(reply)
        return {
            each.name: told(each.error_code, each.error_message) or (_made(each) if metadata else None)
            for each in topics
        }

    return operation.rounds(items, operation.controller, make, outcomes, settle, change=True)


def _made(topic: CreateTopicsResponse.Topic) -> TopicMetadataAndConfig:
    topic_id = None if topic.topic_id == ZERO_UUID else Uuid.from_bytes(topic.topic_id)
    if topic.topic_config_error_code:
        return TopicMetadataAndConfig(KafkaError(topic.topic_config_error_code), topic_id)
    if topic.num_partitions < 0:  # before version 5
        text = "the broker doesn't tell what it has made"
        return TopicMetadataAndConfig(KafkaError(KafkaError._UNSUPPORTED_FEATURE, text), topic_id)
    config = {
        each.name: ConfigEntry(
            each.name,
            each.value,
            max(each.config_source, ConfigSource.UNKNOWN_CONFIG.value),
            is_read_only=each.read_only,
            is_default=each.config_source == ConfigSource.DEFAULT_CONFIG.value,
            is_sensitive=each.is_sensitive,
        )
        for each in topic.configs or ()
    }
    return TopicMetadataAndConfig(None, topic_id, topic.num_partitions, topic.replication_factor, config)


def _results(reply: DeleteTopicsResponse | CreatePartitionsResponse) -> list[Any]:
    return reply.responses if isinstance(reply, DeleteTopicsResponse) else reply.results


def ask_topics(names: list[str]) -> Request:
    """The request, for names to be checked with; `describe_topics()` has it made by the Operation."""
    return MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in names])


def describe_topics(
    operations: bool,
    make: Callable[[list[Any]], Request],
    items: dict[Any, Any],
    settle: Settle,
    operation: Operation,
) -> Steps[None]:
    """Metadata, from any broker."""
    reply = yield from operation.cluster(items, include_topic_authorized_operations=operations)
    nodes = _nodes_of(reply)
    for topic in reply.topics:
        if topic.name in items:
            settle(topic.name, told(topic.error_code) or _topic_of(topic, nodes))


def _nodes_of(reply: MetadataResponse) -> dict[int, Node]:
    return {each.node_id: Node(each.node_id, each.host, each.port, each.rack) for each in reply.brokers}


def _topic_of(topic: MetadataResponse.Topic, nodes: dict[int, Node]) -> TopicDescription:
    def node(number: int) -> Node:
        return nodes.get(number) or Node(number, "", -1)

    partitions = [
        TopicPartitionInfo(
            each.partition_index,
            node(each.leader_id),
            [node(number) for number in each.replica_nodes],
            [node(number) for number in each.isr_nodes],
        )
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    ]
    operations = operations_of(topic.topic_authorized_operations)
    return TopicDescription(
        topic.name or "", Uuid.from_bytes(topic.topic_id), topic.is_internal, partitions, operations
    )


def ask_cluster(operations: bool, fenced: bool, items: list[Any]) -> Request:
    """The request."""
    return DescribeClusterRequest(include_cluster_authorized_operations=operations, include_fenced_brokers=fenced)


def describe_cluster(
    operations: bool,
    fenced: bool,
    make: Callable[[list[Any]], Request],
    items: dict[Any, Any],
    settle: Settle,
    operation: Operation,
) -> Steps[None]:
    """DescribeCluster (KIP-700) from any broker; from one before 2.8 Metadata."""

    def outcomes(reply: DescribeClusterResponse, target: int | None) -> dict[None, Any]:
        if reply.error_code:
            return {None: KafkaError(reply.error_code, reply.error_message)}
        nodes = {each.broker_id: Node(each.broker_id, each.host, each.port, each.rack) for each in reply.brokers}
        for each in reply.brokers:
            if each.is_fenced:
                nodes[each.broker_id].is_fenced = True
        return {None: _cluster_of(reply, nodes)}

    found: list[Any] = []
    yield from operation.rounds(
        items, operation.anywhere, make, outcomes, lambda key, value: found.append(value), change=False
    )
    (outcome,) = found
    if isinstance(outcome, KafkaError) and outcome.code() == KafkaError._UNSUPPORTED_FEATURE and not fenced:
        outcome = yield from _described_before(operations, operation)
    settle(None, outcome)


def _described_before(operations: bool, operation: Operation) -> Steps[DescribeClusterResult]:
    reply = yield from operation.cluster([], include_cluster_authorized_operations=operations)
    return _cluster_of(reply, _nodes_of(reply))


def _cluster_of(reply: DescribeClusterResponse | MetadataResponse, nodes: dict[int, Node]) -> DescribeClusterResult:
    allowed = operations_of(reply.cluster_authorized_operations)
    return DescribeClusterResult(nodes.get(reply.controller_id), list(nodes.values()), reply.cluster_id, allowed)


def elect_leaders(kind: ElectionType, timeout_ms: int, partitions: list[list[TopicPartition] | None]) -> Request:
    """The request, with the one list of partitions."""
    (wanted,) = partitions
    topics: dict[str, list[int]] = {}
    for each in wanted or ():
        topics.setdefault(each.topic, []).append(each.partition)
    named = [ElectLeadersRequest.TopicPartitions(topic=name, partitions=some) for name, some in topics.items()]
    return ElectLeadersRequest(
        election_type=kind.value, topic_partitions=None if wanted is None else named, timeout_ms=timeout_ms
    )


def hold_elections(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """ElectLeaders (KIP-460), to the controller."""

    def outcomes(reply: ElectLeadersResponse, target: int | None) -> dict[None, Any]:
        found: dict[TopicPartition, KafkaError | None] = {}
        for topic in reply.replica_election_results:
            for each in topic.partition_result:
                error = told(each.error_code, each.error_message)
                found[TopicPartition(topic.topic, each.partition_id).with_error(error)] = error
        return {None: told(reply.error_code) or found}

    return operation.rounds(items, operation.controller, make, outcomes, settle, change=True)
