"""confluent_kafka's name for a part of `kafka_native.admin.configs`."""

from kafka_native.admin.configs import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigType,
)

from .. import cimpl as _cimpl
from ._resource import ResourceType

__all__ = [
    "AlterConfigOpType",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "ConfigType",
]
