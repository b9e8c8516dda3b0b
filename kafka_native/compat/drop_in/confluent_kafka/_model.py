"""confluent_kafka's name for a part of `kafka_native.types`."""

from kafka_native._native.message import ConfluentMessage as Message
from kafka_native.types import (
    AcknowledgeType,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    ElectionType,
    IsolationLevel,
    Messages,
    Node,
    TopicCollection,
    TopicPartition,
    TopicPartitionInfo,
)

from . import cimpl

__all__ = [
    "AcknowledgeType",
    "ConsumerGroupState",
    "ConsumerGroupTopicPartitions",
    "ConsumerGroupType",
    "ElectionType",
    "IsolationLevel",
    "Messages",
    "Node",
    "TopicCollection",
    "TopicPartitionInfo",
]
