"""confluent_kafka's name for a part of `kafka_native.types`."""

from enum import IntEnum

from kafka_native._native.message import ConfluentMessage as Message
from kafka_native.types import (
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


class AcknowledgeType(IntEnum):
    """A consumer's decision about a record of a share group."""

    ACCEPT = cimpl.SHARE_ACKNOWLEDGE_TYPE_ACCEPT
    RELEASE = cimpl.SHARE_ACKNOWLEDGE_TYPE_RELEASE
    REJECT = cimpl.SHARE_ACKNOWLEDGE_TYPE_REJECT
