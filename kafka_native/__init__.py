"""kafka_native: a Kafka client whose hot path never touches the interpreter.

The names are confluent_kafka's; docs/ARCHITECTURE.md says how it works inside.
"""

from __future__ import annotations

from kafka_native._native.message import Message, MessageStatus
from kafka_native._native.records import features
from kafka_native.arrow import ArrowReport
from kafka_native.compacted import CompactedTable, CompactedTopic, TableChange
from kafka_native.consumer import Consumer
from kafka_native.control.assignors import Assignor, MemberSubscription, PartitionInfo
from kafka_native.errors import (
    ConcurrentModificationException,
    IllegalStateException,
    KafkaError,
    KafkaException,
)
from kafka_native.interceptors import ConsumerInterceptor, ProducerInterceptor, ProducerRecord
from kafka_native.producer import Producer
from kafka_native.types import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    ConsumerGroupMetadata,
    Node,
    ThrottleEvent,
    TopicPartition,
    Uuid,
    libversion,
    version,
)

__version__ = "0.1.0"

__all__ = [
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "OFFSET_INVALID",
    "OFFSET_STORED",
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "ArrowReport",
    "Assignor",
    "CompactedTable",
    "CompactedTopic",
    "ConcurrentModificationException",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerInterceptor",
    "IllegalStateException",
    "KafkaError",
    "KafkaException",
    "MemberSubscription",
    "Message",
    "MessageStatus",
    "Node",
    "PartitionInfo",
    "Producer",
    "ProducerInterceptor",
    "ProducerRecord",
    "TableChange",
    "ThrottleEvent",
    "TopicPartition",
    "Uuid",
    "features",
    "libversion",
    "version",
]
