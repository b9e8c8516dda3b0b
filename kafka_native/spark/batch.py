"""Batch queries: plans the ranges on the driver, reads one in each task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafka_native.spark import range_reader
from kafka_native.spark.filters import Narrowing
from kafka_native.spark.offsets import Limit, OffsetReader
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.ranges import OffsetRange, ranges_of, split

_EARLIEST: Final = Limit("earliest", "startingOffsets")
_LATEST: Final = Limit("latest", "endingOffsets")


class _PushFilters:
    """The reader's pushFilters().

    PySpark refuses a reader that overrides this method where ``spark.sql.python.filterPushdown.enabled`` is false, its
    default. Whether a method is an override it tells by ``__func__``: this one says that it isn't, so the source
    works with either setting, and filters narrow what is read where Spark hands them over.
    """

    def __init__(self, narrowing: Narrowing) -> None:
        self._narrowing = narrowing

    @property
    def __func__(self) -> Any:
        return getattr(DataSourceReader, "pushFilters", None)

    def __call__(self, filters: list[Any]) -> list[Any]:
        return [each for each in filters if not self._narrowing.take(each)]


class BatchReader(DataSourceReader):
    """Reads from where the query starts to where it ends; both are settled when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        """``options`` are checked for batch queries here."""
        self.options = options.for_batch()
        self.narrowing = Narrowing()
        setattr(self, "pushFilters", _PushFilters(self.narrowing))  # noqa: B010  # mypy has it for a method

    def partitions(self) -> list[OffsetRange]:
        """One range for each task."""
        options = self.options
        with OffsetReader(options) as cluster:
            keys = cluster.partitions()
            starts = cluster.resolve(options.starting or _EARLIEST, keys, starting=True)
            ends = cluster.resolve(options.ending or _LATEST, keys, starting=False)
            starts, ends = self.narrowing.narrow(starts, ends, cluster.at_times)
            ranges = ranges_of(starts, ends, cluster.topic_ids)
        return split(ranges, options.min_partitions, options.max_records_per_partition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one range; of none at all, if there was no range to be read."""
        if not isinstance(partition, OffsetRange):
            return iter(())  # PySpark's stand-in for an empty list of partitions
        return range_reader.read_rows(self.options, partition)
