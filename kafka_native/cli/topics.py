"""Making and deleting the topics that a measurement needs."""

from __future__ import annotations

from typing import Any

from kafka_native import KafkaError, KafkaException, Producer
from kafka_native.protocol.schema import Request
from kafka_native.protocol.topics import CreateTopicsRequest, DeleteTopicsRequest

TIMEOUT_S = 30.0


def _call(producer: Producer, message: Request, timeout_s: float) -> Any:
    # The control plane's own door: the public one is the admin client, which is still to come. Any broker will do:
    # those with KRaft pass it on to the controller.
    return producer._client.main.call(message, None, timeout_s)


def create_topic(producer: Producer, name: str, partitions: int, timeout_s: float = TIMEOUT_S) -> None:
    """Makes a topic with one replica a partition; KafkaException when the cluster refuses."""
    topic = CreateTopicsRequest.Topic(name=name, num_partitions=partitions, replication_factor=1)
    reply = _call(producer, CreateTopicsRequest(topics=[topic], timeout_ms=int(timeout_s * 1000)), timeout_s)
    for result in reply.topics:
        if result.error_code:
            text = result.error_message or KafkaError(result.error_code).str()
            raise KafkaException(KafkaError(result.error_code, f"topic {name} can't be made: {text}"))


def delete_topic(producer: Producer, name: str, timeout_s: float = TIMEOUT_S) -> None:
    """Deletes a topic; KafkaException when the cluster refuses."""
    topics = [DeleteTopicsRequest.Topic(name=name)]
    request = DeleteTopicsRequest(topics=topics, topic_names=[name], timeout_ms=int(timeout_s * 1000))
    reply = _call(producer, request, timeout_s)
    for result in reply.responses:
        if result.error_code:
            text = KafkaError(result.error_code).str()
            raise KafkaException(KafkaError(result.error_code, f"topic {name} can't be deleted: {text}"))
