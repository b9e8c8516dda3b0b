"""confluent_kafka's name for a part of `kafka_native.admin.topics`."""

from kafka_native.admin.topics import (
    TopicDescription,
    TopicMetadataAndConfig,
)

from .._admin_types import NewPartitions, NewTopic
from .._model import TopicPartitionInfo
from .._util import ConversionUtil
from ..cimpl import Uuid
from ._acl import AclOperation

__all__ = [
    "NewPartitions",
    "NewTopic",
    "TopicDescription",
    "TopicMetadataAndConfig",
]
