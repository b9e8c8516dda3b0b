"""kafka_native: a Kafka client. C code moves the records and never takes the interpreter lock.

The public names are those of confluent_kafka. docs/ARCHITECTURE.md describes the inside.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

try:
    import _interpreters  # type: ignore[import-not-found]
except ImportError:  # before Python 3.13
    try:
        import _xxsubinterpreters as _interpreters  # type: ignore[import-not-found]
    except ImportError:  # this Python was built without subinterpreters
        _interpreters = None

# This comes before the first extension. A subinterpreter that shares the interpreter lock could
# load the extensions, and then the main interpreter could not.
if _interpreters is not None and _interpreters.get_current() != _interpreters.get_main():
    raise ImportError(
        "kafka_native runs in the main interpreter only, and this is a subinterpreter. Use threads "
        "or processes instead: ThreadPoolExecutor or ProcessPoolExecutor, not "
        "InterpreterPoolExecutor. mod_wsgi: `WSGIApplicationGroup %{GLOBAL}`. "
        "uWSGI: `single-interpreter = true`.",
        name=__name__,
    )

if TYPE_CHECKING:
    from kafka_native._native.message import Message, MessageStatus
    from kafka_native._native.records import features
    from kafka_native.arrow import ArrowReport
    from kafka_native.compacted import CompactedTable, CompactedTopic, TableChange
    from kafka_native.consumer import Consumer
    from kafka_native.control.assignors import Assignor, MemberSubscription, PartitionInfo
    from kafka_native.deserializing_consumer import DeserializingConsumer
    from kafka_native.deserializing_share_consumer import DeserializingShareConsumer
    from kafka_native.errors import (
        ConcurrentModificationException,
        IllegalStateException,
        KafkaError,
        KafkaException,
    )
    from kafka_native.interceptors import ConsumerInterceptor, ProducerInterceptor, ProducerRecord
    from kafka_native.partition_queue import PartitionQueue
    from kafka_native.producer import Producer
    from kafka_native.serializing_producer import SerializingProducer
    from kafka_native.share_consumer import ShareConsumer
    from kafka_native.shared_client import Client
    from kafka_native.streams_group import StreamsGroupMember
    from kafka_native.types import (
        OFFSET_BEGINNING,
        OFFSET_END,
        OFFSET_INVALID,
        OFFSET_STORED,
        PARTITION_UA,
        TIMESTAMP_CREATE_TIME,
        TIMESTAMP_LOG_APPEND_TIME,
        TIMESTAMP_NOT_AVAILABLE,
        AcknowledgeType,
        ConsumerGroupMetadata,
        ConsumerGroupState,
        ConsumerGroupTopicPartitions,
        ConsumerGroupType,
        ElectionType,
        IsolationLevel,
        Messages,
        Node,
        PreparedTxnState,
        ThrottleEvent,
        TopicCollection,
        TopicPartition,
        TopicPartitionInfo,
        Uuid,
        consistent,
        fnv1a,
        libversion,
        murmur2,
        version,
    )

__version__ = "0.1.0"

__all__ = [
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "OFFSET_INVALID",
    "OFFSET_STORED",
    "PARTITION_UA",
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "AcknowledgeType",
    "ArrowReport",
    "Assignor",
    "Client",
    "CompactedTable",
    "CompactedTopic",
    "ConcurrentModificationException",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerGroupState",
    "ConsumerGroupTopicPartitions",
    "ConsumerGroupType",
    "ConsumerInterceptor",
    "DeserializingConsumer",
    "DeserializingShareConsumer",
    "ElectionType",
    "IllegalStateException",
    "IsolationLevel",
    "KafkaError",
    "KafkaException",
    "MemberSubscription",
    "Message",
    "MessageStatus",
    "Messages",
    "Node",
    "PartitionInfo",
    "PartitionQueue",
    "PreparedTxnState",
    "Producer",
    "ProducerInterceptor",
    "ProducerRecord",
    "SerializingProducer",
    "ShareConsumer",
    "StreamsGroupMember",
    "TableChange",
    "ThrottleEvent",
    "TopicCollection",
    "TopicPartition",
    "TopicPartitionInfo",
    "Uuid",
    "consistent",
    "features",
    "fnv1a",
    "libversion",
    "murmur2",
    "version",
]

_MODULES = {
    "ArrowReport": "arrow",
    "Assignor": "control.assignors",
    "Client": "shared_client",
    "CompactedTable": "compacted",
    "CompactedTopic": "compacted",
    "ConcurrentModificationException": "errors",
    "Consumer": "consumer",
    "ConsumerInterceptor": "interceptors",
    "DeserializingConsumer": "deserializing_consumer",
    "DeserializingShareConsumer": "deserializing_share_consumer",
    "IllegalStateException": "errors",
    "KafkaError": "errors",
    "KafkaException": "errors",
    "MemberSubscription": "control.assignors",
    "Message": "_native.message",
    "MessageStatus": "_native.message",
    "PartitionInfo": "control.assignors",
    "PartitionQueue": "partition_queue",
    "Producer": "producer",
    "ProducerInterceptor": "interceptors",
    "ProducerRecord": "interceptors",
    "SerializingProducer": "serializing_producer",
    "ShareConsumer": "share_consumer",
    "StreamsGroupMember": "streams_group",
    "TableChange": "compacted",
    "features": "_native.records",
}
"""The modules of the public names; names that are missing here are those of `types`.

The first access to a name imports its module. So `import kafka_native` is quick, and a producer
doesn't import what only consumers need.
"""
_SUBMODULES = {
    "arrow",
    "deserializing_consumer",
    "deserializing_share_consumer",
    "error",
    "errors",
    "serialization",
    "serializing_producer",
    "statistics",
    "types",
}
"""Modules that `import kafka_native` makes available, too. The first access imports them."""


def __getattr__(name: str) -> Any:
    if name in __all__:
        module = importlib.import_module(f"kafka_native.{_MODULES.get(name, 'types')}")
        found = getattr(module, name)
        globals()[name] = found
        return found
    if name in _SUBMODULES:
        return importlib.import_module(f"kafka_native.{name}")
    raise AttributeError(f"module 'kafka_native' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
