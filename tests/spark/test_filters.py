"""The effect of a query's filters on ranges, without a JVM."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from pyspark.sql import datasource

from kafka_native.spark.batch import BatchReader, FilteringBatchReader, batch_reader
from kafka_native.spark.filters import PushedFilters
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.ranges import OffsetRange, ranges_of
from tests.spark.support import needs_filters

pytestmark = needs_filters

UTC = timezone.utc


def narrowed(
    *filters: datasource.Filter, times: dict[Any, int | None] | None = None
) -> tuple[list[OffsetRange], list[datasource.Filter]]:
    """Return ranges of two topics, two partitions each, and the filters that are left to Spark."""
    pushed = PushedFilters()
    left = [each for each in filters if not pushed.take(each)]
    keys = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    asked: list[dict[Any, int]] = []

    def at_times(wanted: Any) -> dict[Any, int | None]:
        asked.append(dict(wanted))
        return {key: (times or {}).get((*key, ms), 0) for key, ms in wanted.items()}

    starts, ends = pushed.narrow(dict.fromkeys(keys, 0), dict.fromkeys(keys, 100), at_times)
    assert bool(asked) == (times is not None)
    return ranges_of(starts, ends), left


def test_filters_on_topic_and_partition_choose_ranges() -> None:
    found, left = narrowed(
        datasource.EqualTo(("topic",), "a"),
        datasource.In(("partition",), (1, 2)),
        datasource.IsNotNull(("partition",)),
    )
    assert (found, left) == ([OffsetRange("a", 1, 0, 100)], [])
    assert (
        narrowed(datasource.EqualTo(("partition",), 0), datasource.EqualTo(("partition",), 1))[0]
        == []
    )


@pytest.mark.parametrize(
    ("kind", "start", "end"),
    [
        ("GreaterThan", 11, 100),
        ("GreaterThanOrEqual", 10, 100),
        ("LessThan", 0, 10),
        ("LessThanOrEqual", 0, 11),
        ("EqualTo", 10, 11),
    ],
)
def test_filters_on_offset_cut_ranges(kind: str, start: int, end: int) -> None:
    wanted = getattr(datasource, kind)(("offset",), 10)
    found, left = narrowed(
        wanted, datasource.EqualTo(("partition",), 0), datasource.EqualTo(("topic",), "a")
    )
    assert (found, left) == ([OffsetRange("a", 0, start, end)], [])


def test_a_minimum_timestamp_moves_starts_and_stays_with_spark() -> None:
    at = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    ms = 1_700_000_000_000
    times = {("a", 0, ms): 40, ("a", 1, ms): None}
    for wanted in (
        datasource.GreaterThanOrEqual(("timestamp",), at),
        datasource.EqualTo(("timestamp",), at),
    ):
        found, left = narrowed(wanted, datasource.EqualTo(("topic",), "a"), times=times)
        assert (found, left) == ([OffsetRange("a", 0, 40, 100)], [wanted])
    # timestamps of records are whole milliseconds
    later = datasource.GreaterThan(("timestamp",), at - timedelta(microseconds=1))
    assert narrowed(later, datasource.EqualTo(("topic",), "a"), times=times)[0] == [
        OffsetRange("a", 0, 40, 100)
    ]
    after = datasource.GreaterThan(("timestamp",), at)
    assert (
        narrowed(after, datasource.EqualTo(("partition",), 0), times={("a", 0, ms + 1): 41})[0][
            0
        ].start
        == 41
    )


def test_other_filters_stay_with_spark() -> None:
    at = datetime(2023, 11, 14, tzinfo=UTC)
    filters = [
        datasource.LessThan(("timestamp",), at),  # producers' clocks: older records may follow
        datasource.Not(datasource.EqualTo(("partition",), 0)),
        datasource.StringStartsWith(("topic",), "a"),
        datasource.EqualTo(("value",), b"x"),
        datasource.IsNotNull(("key",)),
        datasource.EqualTo(("headers", "key"), "x"),
        datasource.EqualTo(("partition",), None),
        datasource.GreaterThanOrEqual(("timestamp",), at.replace(tzinfo=None)),
    ]
    found, left = narrowed(*filters)
    assert len(found) == 4
    assert left == filters


def test_filters_are_pushed_if_the_option_says_so() -> None:
    """PySpark refuses readers with pushFilters() if push-down is off, its default."""
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "a"}
    assert type(batch_reader(SourceOptions.parse(given))) is BatchReader
    assert "pushFilters" not in vars(BatchReader)
    reader = batch_reader(SourceOptions.parse({**given, "pushFilters": "true"}))
    assert isinstance(reader, FilteringBatchReader)
    wanted = [datasource.EqualTo(("partition",), 1), datasource.EqualTo(("key",), b"k")]
    assert list(reader.pushFilters(wanted)) == wanted[1:]
    again = pickle.loads(pickle.dumps(reader))
    assert again.filters.partitions == {1}
