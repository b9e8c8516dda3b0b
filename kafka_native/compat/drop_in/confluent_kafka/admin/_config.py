"""confluent_kafka's name for a part of `kafka_native.admin.configs`."""

from kafka_native.admin.configs import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigType,
)

__all__ = [
    "AlterConfigOpType",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "ConfigType",
]
