"""confluent_kafka's name for a part of `kafka_native.admin.topics`."""

from kafka_native.admin.topics import (
    TopicDescription,
    TopicMetadataAndConfig,
)

from .._admin_types import NewPartitions, NewTopic

__all__ = [
    "NewPartitions",
    "NewTopic",
    "TopicDescription",
    "TopicMetadataAndConfig",
]
