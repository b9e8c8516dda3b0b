"""confluent_kafka's name for a part of `kafka_native.admin.quorum`."""

from kafka_native.admin.quorum import (
    DescribeClusterResult,
)

from .._model import Node
from .._util import ConversionUtil
from ._acl import AclOperation

__all__ = [
    "DescribeClusterResult",
]
