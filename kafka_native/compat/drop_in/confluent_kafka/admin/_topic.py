"""confluent_kafka's name for a part of `kafka_native.admin.topics`."""

from kafka_native.admin.partitions import NewPartitions
from kafka_native.admin.topics import (
    NewTopic,
    TopicDescription,
    TopicMetadataAndConfig,
)

__all__ = [
    "NewPartitions",
    "NewTopic",
    "TopicDescription",
    "TopicMetadataAndConfig",
]
