"""confluent_kafka's name for a part of `kafka_native.admin.quorum`."""

from kafka_native.admin.quorum import (
    DescribeClusterResult,
)

__all__ = [
    "DescribeClusterResult",
]
