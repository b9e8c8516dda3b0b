"""confluent_kafka's name for a part of `kafka_native.admin.acls`."""

from kafka_native.admin.acls import (
    ResourcePatternType,
    ResourceType,
)

__all__ = [
    "ResourcePatternType",
    "ResourceType",
]
