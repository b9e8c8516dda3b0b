"""confluent_kafka's name for a part of `kafka_native.admin.partitions`."""

from kafka_native.admin.partitions import (
    EarliestSpec,
    LatestSpec,
    ListOffsetsResultInfo,
    MaxTimestampSpec,
    OffsetSpec,
    TimestampSpec,
)

from .. import cimpl

__all__ = [
    "EarliestSpec",
    "LatestSpec",
    "ListOffsetsResultInfo",
    "MaxTimestampSpec",
    "OffsetSpec",
    "TimestampSpec",
]
