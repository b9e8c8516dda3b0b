"""Batch queries: the driver plans ranges of offsets, each task reads one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafka_native.spark import range_reader
from kafka_native.spark.errors import OptionError
from kafka_native.spark.filters import PushedFilters
from kafka_native.spark.offset_reader import OffsetReader
from kafka_native.spark.offsets import Key, Limit
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.ranges import OffsetRange, ranges_of, split

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_EARLIEST: Final = Limit("earliest", "startingOffsets")
_LATEST: Final = Limit("latest", "endingOffsets")


class BatchReader(DataSourceReader):
    """Reads from the query's start to its end. The planning fixes both."""

    def __init__(self, options: SourceOptions) -> None:
        """Check the options for batch queries."""
        self.options = options.for_batch()
        self.filters = PushedFilters(others=frozenset(options.other_columns))

    def partitions(self) -> list[OffsetRange]:
        """The ranges of the query, one for each task."""
        options = self.options
        if options.dead_letters is not None:
            # Imported here, because most queries have no dead letters.
            from kafka_native.spark.dead_letters import check_target

            check_target(options)
        with OffsetReader(options) as cluster:
            keys = cluster.partitions()
            starts = cluster.resolve(options.starting or _EARLIEST, keys, starting=True)
            ends = cluster.resolve(options.ending or _LATEST, keys, starting=False)
            _check_order(starts, ends, options)
            starts, ends = self.filters.narrow(starts, ends, cluster.at_times)
            ranges = ranges_of(starts, ends, cluster.topic_ids)
        return split(ranges, options.min_partitions, options.max_records_per_partition)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the records of one range."""
        if not isinstance(partition, OffsetRange):
            return iter(())  # PySpark's placeholder for an empty list of partitions
        return range_reader.read_rows(self.options, partition)


def _check_order(
    starts: Mapping[Key, int], ends: Mapping[Key, int], options: SourceOptions
) -> None:
    """Check that no partition starts after its end, as Spark's own connector does."""
    for (topic, partition), start in sorted(starts.items()):
        end = ends[topic, partition]
        if start > end:
            starting, ending = options.starting or _EARLIEST, options.ending or _LATEST
            raise OptionError(
                starting.option,
                f"{topic} [{partition}] starts at offset {start}, after its end {end} "
                f"({ending.option}): write an earlier start or a later end. If the topic has "
                "fewer records than before, it was recreated",
            )


class FilteringBatchReader(BatchReader):
    """Also takes the query's filters (``pushFilters=true``).

    PySpark rejects a reader with this method while ``spark.sql.python.filterPushdown.enabled`` is
    false, its default. So it is another class.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take the filters that reduce the offsets. Return those that Spark has to apply."""
        return [each for each in filters if not self.filters.take(each)]


def batch_reader(options: SourceOptions) -> BatchReader:
    """Make the reader of a batch query.

    :raises OptionError: ``pushFilters`` needs a newer PySpark.
    """
    if not options.push_filters:
        return BatchReader(options)
    if not hasattr(DataSourceReader, "pushFilters"):
        raise OptionError("pushFilters", "it needs PySpark 4.1 or newer")
    return FilteringBatchReader(options)
