"""Brings the rows of each partition into one task, which writing exactly once needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import IntegerType, StructField, StructType

from kafka_native.types import murmur2

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["by_partition"]

_OTHERS: Final = ("key", "topic", "headers")
"""Columns that aren't part of an encoded value."""


def by_partition(frame: DataFrame, partitions: int) -> DataFrame:
    """Repartition a frame so that each task has all rows of its partitions.

    Write the result without further transformations. A frame without a column ``partition`` gets
    one. Its value is the partition that Java's producer chooses for the ``key``, or for the
    ``value`` in rows without a key. So equal rows go to the same partition. Rows of a partition
    keep their order if they come from one task.

    Keys and values that the sink encodes have other types. A hash of the column's values chooses
    their partition, which isn't the one of Java's producer. Without a column ``value`` it is a hash
    of all columns that the sink encodes as the value.

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
        names = batch.schema.names
        keys = batch.column("key").to_pylist() if "key" in names else [None] * batch.num_rows
        values = _values(batch)
        numbers = [
            _partition_of(value.as_py() if key is None else key, partitions)
            for key, value in zip(keys, values, strict=True)
        ]
        column = pa.array(numbers, pa.int32())
        yield pa.RecordBatch.from_arrays([*batch.columns, column], names=[*names, "partition"])


def _values(batch: pa.RecordBatch) -> Any:
    """The values of a batch's rows: a column, or the fields of encoded values."""
    import pyarrow as pa

    names = batch.schema.names
    if "value" in names:
        return batch.column("value")
    fields = [name for name in names if name not in _OTHERS]
    return pa.StructArray.from_arrays([batch.column(each) for each in fields], names=fields)


def _partition_of(content: Any, partitions: int) -> int:
    if isinstance(content, str):
        content = content.encode()
    elif content is not None and not isinstance(content, bytes):
        content = repr(content).encode()  # the same in each process, unlike hash()
    return murmur2(content or b"", partitions)
