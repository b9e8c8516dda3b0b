"""confluent_kafka's name for a part of `kafka_native.admin.acls`."""

from kafka_native.admin.acls import (
    ResourcePatternType,
    ResourceType,
)

from .. import cimpl as _cimpl

__all__ = [
    "ResourcePatternType",
    "ResourceType",
]
