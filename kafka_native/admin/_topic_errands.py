"""The errands about topics. They run on the control thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_native.admin._topic import NewPartitions, NewTopic
from kafka_native.control.errands import Errand, Settle, Steps
from kafka_native.errors import KafkaError
from kafka_native.protocol.schema import Request
from kafka_native.protocol.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)


def told(code: int, text: str | None = None) -> KafkaError | None:
    """An error of a reply's item; None: it is done."""
    return KafkaError(code, text or None) if code else None


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
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, errand: Errand
) -> Steps[None]:
    """The requests above, to the controller."""

    def outcomes(reply: Any, target: int | None) -> dict[str, KafkaError | None]:
        topics = reply.topics if isinstance(reply, CreateTopicsResponse) else _results(reply)
        return {each.name: told(each.error_code, each.error_message) for each in topics}

    return errand.rounds(
        items, errand.controller, lambda keys: make([items[key] for key in keys]), outcomes, settle, change=True
    )


def _results(reply: DeleteTopicsResponse | CreatePartitionsResponse) -> list[Any]:
    return reply.responses if isinstance(reply, DeleteTopicsResponse) else reply.results
