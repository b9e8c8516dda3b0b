"""Ranges and their splitting, without a JVM."""

from __future__ import annotations

import itertools
import logging
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafka_native.spark.batch import batch_reader
from kafka_native.spark.errors import OptionError
from kafka_native.spark.log import logger
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.ranges import OffsetRange, ranges_of, split


def sizes(ranges: list[OffsetRange]) -> list[int]:
    return [each.size for each in ranges]


def test_a_range_is_an_input_partition_that_can_be_pickled() -> None:
    one = OffsetRange("t", 3, 5, 9, 1)
    assert isinstance(one, InputPartition)
    assert pickle.loads(pickle.dumps(one)) == one
    assert (one.size, one.key, str(one)) == (4, ("t", 3), "t [3] from offset 5 to 9")


def test_partitions_with_nothing_to_read_have_no_range() -> None:
    starts = {("b", 0): 5, ("a", 1): 0, ("a", 0): 3, ("a", 2): 9}
    ends = {("b", 0): 7, ("a", 1): 0, ("a", 0): 4, ("a", 2): 8}
    assert ranges_of(starts, ends) == [OffsetRange("a", 0, 3, 4), OffsetRange("b", 0, 5, 7)]


def test_without_limits_a_range_is_a_task() -> None:
    ranges = [OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 5, 5), OffsetRange("t", 2, 1, 2)]
    assert split(ranges) == [ranges[0], ranges[2]]


def test_min_partitions_splits_the_large_ones() -> None:
    ranges = [OffsetRange("t", 0, 0, 1000), OffsetRange("t", 1, 0, 10)]
    found = split(ranges, min_partitions=5)
    assert sizes(found) == [250, 250, 250, 250, 10]
    assert [each.split for each in found] == [0, 1, 2, 3, 0]
    assert split(ranges, min_partitions=2) == ranges
    assert sizes(split([OffsetRange("t", 0, 7, 9)], min_partitions=10)) == [1, 1]


def test_max_records_is_never_exceeded() -> None:
    found = split([OffsetRange("t", 0, 5, 105), OffsetRange("t", 1, 0, 30)], max_records=30)
    assert sizes(found) == [25, 25, 25, 25, 30]
    both = split(
        [OffsetRange("t", 0, 0, 100), OffsetRange("t", 1, 0, 30)], min_partitions=8, max_records=50
    )
    assert max(sizes(both)) <= 50
    assert len(both) >= 7


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 5000)), max_size=6),
    st.one_of(st.none(), st.integers(1, 40)),
    st.one_of(st.none(), st.integers(1, 3000)),
)
def test_splitting_loses_nothing_and_repeats_nothing(
    given_ranges: list[tuple[int, int]], partitions_min: int | None, records_max: int | None
) -> None:
    ranges = [
        OffsetRange("t", number, start, start + size)
        for number, (start, size) in enumerate(given_ranges)
    ]
    found = split(ranges, partitions_min, records_max)
    assert all(each.size > 0 for each in found)
    assert records_max is None or all(each.size <= records_max for each in found)
    for whole in ranges:
        pieces = [each for each in found if each.key == whole.key]
        assert [each.split for each in pieces] == list(range(len(pieces)))
        edges = [each.start for each in pieces] + ([pieces[-1].end] if pieces else [])
        assert edges == sorted(edges)
        if whole.size:
            assert (edges[0], edges[-1]) == (whole.start, whole.end)
            assert all(one.end == other.start for one, other in itertools.pairwise(pieces))


def test_older_pyspark_refuses_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(DataSourceReader, "pushFilters", raising=False)
    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "a", "pushFilters": "true"}
    with pytest.raises(OptionError, match=r"pushFilters: it needs PySpark 4\.1 or newer"):
        batch_reader(SourceOptions.parse(given))


def test_each_log_entry_is_one_printable_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        logger.warning("%s: gone", "a\x1b[2J\nb\u202e")
    assert [record.getMessage() for record in caplog.records] == ["a?[2J?b?: gone"]
