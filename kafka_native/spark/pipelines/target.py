"""What the pipelines share that write to topics."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_native import KafkaException
from kafka_native.spark.offsets import UNKNOWN_PARTITION_ERRORS
from kafka_native.types import ClusterMetadata

__all__ = ["METADATA_S", "Pace", "partition_count", "without_negative_timestamps"]

METADATA_S: Final = 30.0
"""How long a question about topics may take."""
_STEP_S: Final = 0.25


class Pace:
    """Keeps a task at its rate.

    :param rate: Records a second at most; None for no limit.
    :param most: Records that are handed to the producer at a time, at most.
    """

    def __init__(self, rate: float | None, most: int) -> None:
        """The time counts from now on."""
        self.step = most if rate is None else max(1, min(most, int(rate * _STEP_S)))
        """Records that are to be handed over at a time: with a rate, those of a moment."""
        self._rate = rate
        self._begun = time.monotonic()

    def wait(self, sent: int, serve: Callable[[float], object]) -> None:
        """Until the records that were sent are due; ``serve`` takes reports meanwhile, for so many seconds at most."""
        if self._rate is None:
            return
        due = self._begun + sent / self._rate
        while (left := due - time.monotonic()) > 0:
            serve(min(left, _STEP_S))


def without_negative_timestamps(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Times before 1970 stand for no time at all: such records get the time at which they are written."""
    at = batch.schema.get_field_index("timestamp")
    column = batch.column(at)
    if not pa.types.is_timestamp(column.type):
        return batch
    numbers = column.view(pa.int64())
    if (pc.min(numbers).as_py() or 0) >= 0:
        return batch
    kept = pc.if_else(pc.less(numbers, 0), pa.scalar(None, column.type), column)
    return batch.set_column(at, batch.schema.field(at).with_nullable(True), kept)


def partition_count(described: ClusterMetadata, topic: str) -> int:
    """How many partitions a topic has; 0: it doesn't exist.

    :raises KafkaException: The cluster doesn't tell.
    """
    found = described.topics.get(topic)
    if found is None or (found.error is not None and found.error.code() in UNKNOWN_PARTITION_ERRORS):
        return 0
    if found.error is not None:
        raise KafkaException(found.error)
    return len(found.partitions)
