"""Parts that the pipelines with a target topic share: rate, timestamps, partition counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_native import KafkaException, Producer
from kafka_native.internal import ExactTimestamps
from kafka_native.spark.client_pool import admitted
from kafka_native.spark.errors import PipelineError
from kafka_native.spark.offsets import UNKNOWN_PARTITION_ERRORS
from kafka_native.spark.options import SinkOptions
from kafka_native.types import ClusterMetadata

__all__ = [
    "METADATA_S",
    "Pace",
    "check_targets",
    "column_name",
    "partition_count",
    "without_negative_timestamps",
]

METADATA_S: Final = 30.0
"""Seconds for a request about topics."""
_STEP_S: Final = 0.25


class Pace:
    """Limits the rate of a task.

    :param rate: The largest number of records per second; None: no limit.
    :param step_max: The largest number of records for one call of the producer.
    """

    def __init__(self, rate: float | None, step_max: int) -> None:
        """Start the clock."""
        self.step = step_max if rate is None else max(1, min(step_max, int(rate * _STEP_S)))
        """Records for one call of the producer: with a rate, those of a short time."""
        self._rate = rate
        self._begun = time.monotonic()

    def wait(self, sent: int, serve: Callable[[float], object]) -> None:
        """Wait until the sent records are due.

        ``serve`` handles reports for at most its argument.
        """
        if self._rate is None:
            return
        due = self._begun + sent / self._rate
        while (left := due - time.monotonic()) > 0:
            serve(min(left, _STEP_S))


def column_name(name: str) -> str:
    """The name of a column for the producer. A timestamp of 0 stays: it is no missing one."""
    return ExactTimestamps(name) if name == "timestamp" else name


def without_negative_timestamps(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Replace timestamps before 1970, which mean "none", by null: the producer sets the time."""
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
    """The number of partitions of a topic; 0 if it doesn't exist.

    :raises KafkaException: The cluster returns another error.
    """
    found = described.topics.get(topic)
    if found is None or (
        found.error is not None and found.error.code() in UNKNOWN_PARTITION_ERRORS
    ):
        return 0
    if found.error is not None:
        raise KafkaException(found.error)
    return len(found.partitions)


def check_targets(sink: SinkOptions, needed: Mapping[str, int]) -> None:
    """Check that topics exist and have enough partitions.

    :param sink: The options of the producer.
    :param needed: The smallest number of partitions by topic.
    :raises PipelineError: A topic is missing or has too few partitions.
    """
    if not needed:
        return
    with admitted(Producer(dict(sink.producer))) as producer:
        for name, count in sorted(needed.items()):
            try:
                there = partition_count(producer.list_topics(name, METADATA_S), name)
            except KafkaException as error:
                raise PipelineError(f"asking for topic {name}: {error.args[0].str()}") from error
            if not there:
                raise PipelineError(f"topic {name} doesn't exist: make it first")
            if there < count:
                raise PipelineError(
                    f"topic {name} has {there} partitions, and the records come from {count}: "
                    "add some, or choose new ones with partitions hash"
                )
