"""kafka_native under the name of confluent_kafka; see `kafka_native.compat`.

The modules have confluent_kafka's layout and import each other in its order. Import hooks that
change `cimpl` (New Relic, wrapt) therefore also change the names here. Modules that this folder
doesn't have are pure Python: they come from an installed confluent_kafka and use these classes.
"""

from __future__ import annotations

from kafka_native.compat import explain_missing_modules, installed_modules
from kafka_native.types import ThrottleEvent

from . import _types, serialization
from ._model import (
    AcknowledgeType,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    ElectionType,
    IsolationLevel,
    Messages,
    Node,
    TopicCollection,
    TopicPartitionInfo,
)
from .cimpl import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    ConcurrentModificationException,
    Consumer,
    IllegalStateException,
    Message,
    Producer,
    ShareConsumer,
    TopicPartition,
    Uuid,
    consistent,
    fnv1a,
    libversion,
    murmur2,
    version,
)
from .deserializing_consumer import DeserializingConsumer
from .deserializing_share_consumer import DeserializingShareConsumer
from .error import KafkaError, KafkaException
from .serializing_producer import SerializingProducer

__all__ = [
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "OFFSET_INVALID",
    "OFFSET_STORED",
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "AcknowledgeType",
    "ConcurrentModificationException",
    "Consumer",
    "ConsumerGroupState",
    "ConsumerGroupTopicPartitions",
    "ConsumerGroupType",
    "DeserializingConsumer",
    "DeserializingShareConsumer",
    "ElectionType",
    "IllegalStateException",
    "IsolationLevel",
    "KafkaError",
    "KafkaException",
    "Message",
    "Messages",
    "Node",
    "Producer",
    "SerializingProducer",
    "ShareConsumer",
    "ThrottleEvent",
    "TopicCollection",
    "TopicPartition",
    "TopicPartitionInfo",
    "Uuid",
    "admin",
    "aio",
    "consistent",
    "fnv1a",
    "libversion",
    "murmur2",
    "version",
]


def _resolve_plugins(plugins: str) -> str:
    """Return the libraries of ``plugin.library.paths``: this package has none of its own."""
    return plugins


__version__ = version()
explain_missing_modules()
__path__ = [*__path__, *installed_modules()]
