"""The names of confluent_kafka's C module.

The clients derive from kafka_native's and change only what a program for confluent_kafka can
notice. The other classes are kafka_native's own. The numbers are the values of librdkafka's enums;
kafka_native has Python enums in their place.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

from kafka_native import producer
from kafka_native._native.enums import ISOLATION_READ_COMMITTED, ISOLATION_READ_UNCOMMITTED
from kafka_native._native.message import ConfluentMessage as Message
from kafka_native.admin import (
    CONFIG_SOURCE_DEFAULT_CONFIG,
    CONFIG_SOURCE_DYNAMIC_BROKER_CONFIG,
    CONFIG_SOURCE_DYNAMIC_DEFAULT_BROKER_CONFIG,
    CONFIG_SOURCE_DYNAMIC_TOPIC_CONFIG,
    CONFIG_SOURCE_GROUP_CONFIG,
    CONFIG_SOURCE_STATIC_BROKER_CONFIG,
    CONFIG_SOURCE_UNKNOWN_CONFIG,
    RESOURCE_ANY,
    RESOURCE_BROKER,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    RESOURCE_TRANSACTIONAL_ID,
    RESOURCE_UNKNOWN,
)
from kafka_native.compat import API_VERSION, LIBRARY_VERSION
from kafka_native.errors import (
    ConcurrentModificationException,
    IllegalStateException,
    KafkaError,
    KafkaException,
)
from kafka_native.share_consumer import CommitCallback
from kafka_native.types import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    ClusterMetadata,
    TopicPartition,
    Uuid,
    consistent,
    fnv1a,
    murmur2,
)

from . import _consumer, _share_consumer
from ._admin_impl import _AdminClientImpl as _AdminClientImpl
from ._admin_types import NewPartitions, NewTopic
from ._arguments import CONSUMER, PRODUCER, SHARE_CONSUMER, parses
from ._clients import ClosedClient, await_token, check_new, configuration

# confluent_kafka's asyncio consumer marks its calls with it. It has no meaning here.
_reentry_identity_var: ContextVar[int] = ContextVar("reentry_identity", default=0)


@parses(PRODUCER, lambda self: self._client.check_open("Producer has been closed"))
class Producer(producer.Producer):
    """A `kafka_native.Producer` that behaves like confluent_kafka's."""

    _message_type = Message
    _client = ClosedClient("Producer has been closed")
    _eager = True
    _like_confluent = True
    _uninitialized_text = "Producer has been closed"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take a configuration as a dict, keywords, or both."""
        check_new(self, "Producer already __init__:ialized")
        conf = configuration(args, kwargs, "producer")
        super().__init__(conf)
        await_token(self, conf)

    def close(self, timeout: float = -1) -> bool:
        """Deliver all messages, however long it takes, then close. The timeout has no effect."""
        return super().close()


@parses(CONSUMER, _consumer.Consumer._check_open)
class Consumer(_consumer.Consumer):
    """A `kafka_native.Consumer` that behaves like confluent_kafka's."""


@parses(SHARE_CONSUMER, _share_consumer.ShareConsumer.subscription)
class ShareConsumer(_share_consumer.ShareConsumer):
    """A `kafka_native.ShareConsumer` that behaves like confluent_kafka's."""


def version() -> str:
    """Return the release of confluent_kafka whose API this is."""
    return API_VERSION


def libversion() -> tuple[str, int]:
    """Return the release of librdkafka whose properties this has, as a text and as a number.

    The number's bytes are the major, minor and patch version, and 255 for a final release.
    """
    parts = [*map(int, LIBRARY_VERSION.split(".")), 255]
    return LIBRARY_VERSION, int.from_bytes(bytes(parts), "big")


DeliveryCallback: TypeAlias = Callable[[KafkaError | None, Message], object]
RebalanceCallback: TypeAlias = Callable[[Consumer, list[TopicPartition]], object]
AcknowledgementCommitCallback: TypeAlias = CommitCallback

ACL_OPERATION_UNKNOWN: Final = 0
ACL_OPERATION_ANY: Final = 1
ACL_OPERATION_ALL: Final = 2
ACL_OPERATION_READ: Final = 3
ACL_OPERATION_WRITE: Final = 4
ACL_OPERATION_CREATE: Final = 5
ACL_OPERATION_DELETE: Final = 6
ACL_OPERATION_ALTER: Final = 7
ACL_OPERATION_DESCRIBE: Final = 8
ACL_OPERATION_CLUSTER_ACTION: Final = 9
ACL_OPERATION_DESCRIBE_CONFIGS: Final = 10
ACL_OPERATION_ALTER_CONFIGS: Final = 11
ACL_OPERATION_IDEMPOTENT_WRITE: Final = 12

ACL_PERMISSION_TYPE_UNKNOWN: Final = 0
ACL_PERMISSION_TYPE_ANY: Final = 1
ACL_PERMISSION_TYPE_DENY: Final = 2
ACL_PERMISSION_TYPE_ALLOW: Final = 3

ALTER_CONFIG_OP_TYPE_SET: Final = 0
ALTER_CONFIG_OP_TYPE_DELETE: Final = 1
ALTER_CONFIG_OP_TYPE_APPEND: Final = 2
ALTER_CONFIG_OP_TYPE_SUBTRACT: Final = 3

CONSUMER_GROUP_STATE_UNKNOWN: Final = 0
CONSUMER_GROUP_STATE_PREPARING_REBALANCE: Final = 1
CONSUMER_GROUP_STATE_COMPLETING_REBALANCE: Final = 2
CONSUMER_GROUP_STATE_STABLE: Final = 3
CONSUMER_GROUP_STATE_DEAD: Final = 4
CONSUMER_GROUP_STATE_EMPTY: Final = 5

CONSUMER_GROUP_TYPE_UNKNOWN: Final = 0
CONSUMER_GROUP_TYPE_CONSUMER: Final = 1
CONSUMER_GROUP_TYPE_CLASSIC: Final = 2

ELECTION_TYPE_PREFERRED: Final = 0
ELECTION_TYPE_UNCLEAN: Final = 1

ISOLATION_LEVEL_READ_UNCOMMITTED: Final = ISOLATION_READ_UNCOMMITTED
ISOLATION_LEVEL_READ_COMMITTED: Final = ISOLATION_READ_COMMITTED

OFFSET_SPEC_MAX_TIMESTAMP: Final = -3
OFFSET_SPEC_EARLIEST: Final = -2
OFFSET_SPEC_LATEST: Final = -1

RESOURCE_PATTERN_UNKNOWN: Final = 0
RESOURCE_PATTERN_ANY: Final = 1
RESOURCE_PATTERN_MATCH: Final = 2
RESOURCE_PATTERN_LITERAL: Final = 3
RESOURCE_PATTERN_PREFIXED: Final = 4

SCRAM_MECHANISM_UNKNOWN: Final = 0
SCRAM_MECHANISM_SHA_256: Final = 1
SCRAM_MECHANISM_SHA_512: Final = 2

SHARE_ACKNOWLEDGE_TYPE_ACCEPT: Final = 1
SHARE_ACKNOWLEDGE_TYPE_RELEASE: Final = 2
SHARE_ACKNOWLEDGE_TYPE_REJECT: Final = 3

__all__ = [
    "ACL_OPERATION_ALL",
    "ACL_OPERATION_ALTER",
    "ACL_OPERATION_ALTER_CONFIGS",
    "ACL_OPERATION_ANY",
    "ACL_OPERATION_CLUSTER_ACTION",
    "ACL_OPERATION_CREATE",
    "ACL_OPERATION_DELETE",
    "ACL_OPERATION_DESCRIBE",
    "ACL_OPERATION_DESCRIBE_CONFIGS",
    "ACL_OPERATION_IDEMPOTENT_WRITE",
    "ACL_OPERATION_READ",
    "ACL_OPERATION_UNKNOWN",
    "ACL_OPERATION_WRITE",
    "ACL_PERMISSION_TYPE_ALLOW",
    "ACL_PERMISSION_TYPE_ANY",
    "ACL_PERMISSION_TYPE_DENY",
    "ACL_PERMISSION_TYPE_UNKNOWN",
    "ALTER_CONFIG_OP_TYPE_APPEND",
    "ALTER_CONFIG_OP_TYPE_DELETE",
    "ALTER_CONFIG_OP_TYPE_SET",
    "ALTER_CONFIG_OP_TYPE_SUBTRACT",
    "CONFIG_SOURCE_DEFAULT_CONFIG",
    "CONFIG_SOURCE_DYNAMIC_BROKER_CONFIG",
    "CONFIG_SOURCE_DYNAMIC_DEFAULT_BROKER_CONFIG",
    "CONFIG_SOURCE_DYNAMIC_TOPIC_CONFIG",
    "CONFIG_SOURCE_GROUP_CONFIG",
    "CONFIG_SOURCE_STATIC_BROKER_CONFIG",
    "CONFIG_SOURCE_UNKNOWN_CONFIG",
    "CONSUMER_GROUP_STATE_COMPLETING_REBALANCE",
    "CONSUMER_GROUP_STATE_DEAD",
    "CONSUMER_GROUP_STATE_EMPTY",
    "CONSUMER_GROUP_STATE_PREPARING_REBALANCE",
    "CONSUMER_GROUP_STATE_STABLE",
    "CONSUMER_GROUP_STATE_UNKNOWN",
    "CONSUMER_GROUP_TYPE_CLASSIC",
    "CONSUMER_GROUP_TYPE_CONSUMER",
    "CONSUMER_GROUP_TYPE_UNKNOWN",
    "ELECTION_TYPE_PREFERRED",
    "ELECTION_TYPE_UNCLEAN",
    "ISOLATION_LEVEL_READ_COMMITTED",
    "ISOLATION_LEVEL_READ_UNCOMMITTED",
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "OFFSET_INVALID",
    "OFFSET_SPEC_EARLIEST",
    "OFFSET_SPEC_LATEST",
    "OFFSET_SPEC_MAX_TIMESTAMP",
    "OFFSET_STORED",
    "RESOURCE_ANY",
    "RESOURCE_BROKER",
    "RESOURCE_GROUP",
    "RESOURCE_PATTERN_ANY",
    "RESOURCE_PATTERN_LITERAL",
    "RESOURCE_PATTERN_MATCH",
    "RESOURCE_PATTERN_PREFIXED",
    "RESOURCE_PATTERN_UNKNOWN",
    "RESOURCE_TOPIC",
    "RESOURCE_TRANSACTIONAL_ID",
    "RESOURCE_UNKNOWN",
    "SCRAM_MECHANISM_SHA_256",
    "SCRAM_MECHANISM_SHA_512",
    "SCRAM_MECHANISM_UNKNOWN",
    "SHARE_ACKNOWLEDGE_TYPE_ACCEPT",
    "SHARE_ACKNOWLEDGE_TYPE_REJECT",
    "SHARE_ACKNOWLEDGE_TYPE_RELEASE",
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "AcknowledgementCommitCallback",
    "ConcurrentModificationException",
    "Consumer",
    "DeliveryCallback",
    "IllegalStateException",
    "KafkaError",
    "KafkaException",
    "Message",
    "NewPartitions",
    "NewTopic",
    "Producer",
    "RebalanceCallback",
    "ShareConsumer",
    "TopicPartition",
    "Uuid",
    "consistent",
    "fnv1a",
    "libversion",
    "murmur2",
    "version",
]
