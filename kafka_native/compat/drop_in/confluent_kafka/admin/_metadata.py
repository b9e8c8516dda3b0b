"""confluent_kafka's name for parts of `kafka_native.types` and `kafka_native.admin.groups`."""

from kafka_native.admin.groups import GroupMember, GroupMetadata
from kafka_native.types import BrokerMetadata, ClusterMetadata, PartitionMetadata, TopicMetadata

from ..cimpl import KafkaError

__all__ = [
    "BrokerMetadata",
    "ClusterMetadata",
    "GroupMember",
    "GroupMetadata",
    "PartitionMetadata",
    "TopicMetadata",
]
