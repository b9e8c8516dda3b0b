"""Brings the rows of each partition into one task, which writing exactly once needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.types import IntegerType, StructField, StructType

from kafka_native.types import murmur2

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["by_partition"]


def by_partition(frame: DataFrame, partitions: int) -> DataFrame:
    """Repartition a frame so that each task has all rows of its partitions.

    Write the result without further transformations. A frame without a column ``partition`` gets
    one. Its value is the partition that Java's producer chooses for the ``key``, or for the
    ``value`` in rows without a key. So equal rows go to the same partition. Rows of a partition
    keep their order if they come from one task.

    :param partitions: The number of partitions of the topic.
    :raises ValueError: ``partitions`` is below 1.
    """
    if partitions < 1:
        raise ValueError(f"a topic has 1 partition at least, not {partitions}")
    if "partition" not in frame.columns:
        schema = StructType([*frame.schema.fields, StructField("partition", IntegerType())])
        frame = frame.mapInArrow(partial(_partitioned, partitions), schema)
    if hasattr(frame, "repartitionById"):  # PySpark 4.1
        return frame.repartitionById(partitions, "partition")
    return frame.repartition(partitions, "partition")


def _partitioned(partitions: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add a column ``partition`` to batches, in a task."""
    import pyarrow as pa

    for batch in batches:
        values = batch.column("value")
        keys = batch.column("key") if "key" in batch.schema.names else pa.nulls(batch.num_rows)
        numbers = [
            _partition_of(value.as_py() if key is None else key, partitions)
            for key, value in zip(keys.to_pylist(), values, strict=True)
        ]
        column = pa.array(numbers, pa.int32())
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, column], names=[*batch.schema.names, "partition"]
        )


def _partition_of(text: str | bytes | None, partitions: int) -> int:
    return murmur2(text.encode() if isinstance(text, str) else text or b"", partitions)
