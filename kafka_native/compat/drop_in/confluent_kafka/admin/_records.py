"""confluent_kafka's name for a part of `kafka_native.admin.partitions`."""

from kafka_native.admin.partitions import (
    DeletedRecords,
)

__all__ = [
    "DeletedRecords",
]
