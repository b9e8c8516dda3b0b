"""Batch queries: the driver plans ranges of offsets, each task reads one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafka_native.spark import range_reader
from kafka_native.spark.filters import PushedFilters
from kafka_native.spark.offset_reader import OffsetReader
from kafka_native.spark.offsets import Limit
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.ranges import OffsetRange, ranges_of, split

_EARLIEST: Final = Limit("earliest", "startingOffsets")
_LATEST: Final = Limit("latest", "endingOffsets")


class _PushFilters:
    """The reader's pushFilters().

    PySpark rejects a reader that overrides this method while
    ``spark.sql.python.filterPushdown.enabled`` is false, its default. It recognizes an override by
    ``__func__``. This object returns the base class's function there, so the source works with both
    settings.
    """

    def __init__(self, filters: PushedFilters) -> None:
        self._filters = filters

    @property
    def __func__(self) -> object:
        return getattr(DataSourceReader, "pushFilters", None)

    def __call__(self, filters: list[object]) -> list[object]:
        return [each for each in filters if not self._filters.take(each)]


class BatchReader(DataSourceReader):
    """Reads from the query's start to its end. The planning fixes both."""

    def __init__(self, options: SourceOptions) -> None:
        """Check the options for batch queries."""
        self.options = options.for_batch()
        self.filters = PushedFilters(others=frozenset(options.other_columns))
        # PySpark looks for an attribute; mypy knows a method of this name.
        setattr(self, "pushFilters", _PushFilters(self.filters))  # noqa: B010

    def partitions(self) -> list[OffsetRange]:
        """The ranges of the query, one for each task."""
        options = self.options
        with OffsetReader(options) as cluster:
            keys = cluster.partitions()
            starts = cluster.resolve(options.starting or _EARLIEST, keys, starting=True)
            ends = cluster.resolve(options.ending or _LATEST, keys, starting=False)
            starts, ends = self.filters.narrow(starts, ends, cluster.at_times)
            ranges = ranges_of(starts, ends, cluster.topic_ids)
        return split(ranges, options.min_partitions, options.max_records_per_partition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the records of one range."""
        if not isinstance(partition, OffsetRange):
            return iter(())  # PySpark's placeholder for an empty list of partitions
        return range_reader.read_rows(self.options, partition)
