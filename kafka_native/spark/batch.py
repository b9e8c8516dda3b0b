"""Batch queries: plans the ranges on the driver, reads one in each task."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafka_native.spark import fetching
from kafka_native.spark.offsets import Limit, OffsetReader
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.planning import OffsetRange, ranges_of, split

_EARLIEST = Limit("earliest", "startingOffsets")
_LATEST = Limit("latest", "endingOffsets")


class BatchReader(DataSourceReader):
    """Reads from where the query starts to where it ends; both are settled when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        """``options`` are checked for batch queries here."""
        self.options = options.for_batch()

    def partitions(self) -> list[OffsetRange]:
        """One range for each task."""
        options = self.options
        with OffsetReader(options) as cluster:
            keys = cluster.partitions()
            starts = cluster.resolve(options.starting or _EARLIEST, keys, starting=True)
            ends = cluster.resolve(options.ending or _LATEST, keys, starting=False)
        return split(ranges_of(starts, ends), options.min_partitions, options.max_records_per_partition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one range."""
        assert isinstance(partition, OffsetRange)
        return fetching.read_rows(self.options, partition)
