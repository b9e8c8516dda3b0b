"""Offsets JSON, and the resolution of starts and ends on a cluster, without a JVM."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from pyspark.sql import datasource

from kafka_native import KafkaError, KafkaException, Producer
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from kafka_native.spark.batch import BatchReader, FilteringBatchReader
from kafka_native.spark.errors import OptionError
from kafka_native.spark.offset_reader import OffsetReader
from kafka_native.spark.offsets import Limit, offsets_json, parse_offsets
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.ranges import OffsetRange
from tests.spark.support import FIRST_MS, needs_filters, numbered, source_options

_numbers = itertools.count()


@pytest.fixture
def topic(mock_cluster: MockCluster) -> str:
    """Return a topic: partition 0 has offsets 2 to 9, partition 1 offsets 0 to 4, one a second."""
    name = f"offsets-{next(_numbers)}"
    mock_cluster.create_topic(name, 2)
    with Producer(
        {"bootstrap.servers": mock_cluster.bootstrap_servers, "batch.num.messages": 1}
    ) as producer:
        for partition, count in ((0, 10), (1, 5)):
            for number in range(count):
                producer.produce(name, **numbered(number, partition))
        assert producer.flush(30) == 0
    mock_cluster.move_log_start(name, 0, 2)
    return name


@pytest.fixture
def reader(mock_cluster: MockCluster, topic: str) -> Iterator[OffsetReader]:
    with OffsetReader(options_of(mock_cluster, topic)) as made:
        yield made


def options_of(cluster: MockCluster, topic: str, **more: Any) -> SourceOptions:
    quick = {"fetchOffset.retryIntervalMs": 10, "kafka.reconnect.backoff.ms": 20}
    return SourceOptions.parse(
        source_options(cluster.bootstrap_servers, topic, **{**quick, **more})
    )


def planned(cluster: MockCluster, topic: str, **more: Any) -> list[tuple[int, int, int]]:
    """Return the ranges of a batch query, as partition, start and end."""
    ranges = BatchReader(options_of(cluster, topic, **more)).partitions()
    return [(each.partition, each.start, each.end) for each in ranges]


# --- JSON ---


def test_json_is_what_the_connector_writes() -> None:
    offsets = {("b", 10): 7, ("b", 2): 5, ("a", 0): 1 << 40}
    text = offsets_json(offsets)
    assert text == '{"a":{"0":1099511627776},"b":{"2":5,"10":7}}'
    assert parse_offsets(text) == offsets
    assert parse_offsets('{"\\u00e4":{"0":-2,"1":-1}}') == {("ä", 0): -2, ("ä", 1): -1}
    assert offsets_json({}) == "{}"


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "[]",
            "1",
            '{"a":1}',
            '{"a":{"0":"1"}}',
            '{"a":{"0":1.5}}',
            '{"a":{"0":true}}',
            '{"a":{"-1":1}}',
        ),
        *(
            '{"a":{"0":9223372036854775808}}',
            '{"a":{"2147483648":1}}',
            '{"a":{"١":1}}',
            '{"a":{"0":null}}',
        ),
    ],
)
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r'option startingOffsets: .* write \{"topic":\{"0":23'):
        parse_offsets(text, "startingOffsets")


# --- offsets from the cluster ---


def test_a_batch_query_reads_everything(mock_cluster: MockCluster, topic: str) -> None:
    assert planned(mock_cluster, topic) == [(0, 2, 10), (1, 0, 5)]
    assert planned(mock_cluster, topic, startingOffsets="earliest", endingOffsets="latest") == [
        (0, 2, 10),
        (1, 0, 5),
    ]
    assert planned(mock_cluster, topic, assign=json.dumps({topic: [1]})) == [(1, 0, 5)]
    assert planned(mock_cluster, topic, maxRecordsPerPartition=4) == [
        (0, 2, 6),
        (0, 6, 10),
        (1, 0, 2),
        (1, 2, 5),
    ]


def test_offsets_by_partition(mock_cluster: MockCluster, topic: str) -> None:
    starts, ends = json.dumps({topic: {"0": 4, "1": -2}}), json.dumps({topic: {"0": -1, "1": 3}})
    assert planned(mock_cluster, topic, startingOffsets=starts, endingOffsets=ends) == [
        (0, 4, 10),
        (1, 0, 3),
    ]
    # a start at the end: nothing to read
    starts = json.dumps({topic: {"0": 4, "1": 3}})
    assert planned(mock_cluster, topic, startingOffsets=starts, endingOffsets=ends) == [(0, 4, 10)]


def test_start_after_the_end_is_an_error(mock_cluster: MockCluster, topic: str) -> None:
    more: dict[str, Any]
    for more in (
        {"endingOffsets": json.dumps({topic: {"0": 4, "1": 4}})},
        {"endingOffsets": json.dumps({topic: {"0": 4, "1": 4}}), "failOnDataLoss": "false"},
    ):
        start = json.dumps({topic: {"0": 8, "1": 0}})
        with pytest.raises(
            OptionError,
            match=r"startingOffsets: .* \[0\] starts at offset 8, after its end 4 \(endingOffsets\)",
        ):
            planned(mock_cluster, topic, startingOffsets=start, **more)
    start = json.dumps({topic: {"0": 0, "1": 5000}})  # the topic ends before
    with pytest.raises(OptionError, match=r"\[1\] starts at offset 5000, after its end"):
        planned(mock_cluster, topic, startingOffsets=start)
    same = json.dumps({topic: {"0": 3, "1": 3}})
    assert planned(mock_cluster, topic, startingOffsets=same, endingOffsets=same) == []


def test_timestamps(mock_cluster: MockCluster, topic: str) -> None:
    start, end = FIRST_MS + 2500, FIRST_MS + 4000
    assert planned(mock_cluster, topic, startingTimestamp=start, endingTimestamp=end) == [
        (0, 3, 4),
        (1, 3, 4),
    ]
    each = json.dumps({topic: {"0": FIRST_MS + 8000, "1": FIRST_MS}})
    late = json.dumps({topic: {"0": FIRST_MS + 9000, "1": FIRST_MS + 99_000}})
    found = planned(
        mock_cluster, topic, startingOffsetsByTimestamp=each, endingOffsetsByTimestamp=late
    )
    assert found == [(0, 8, 9), (1, 0, 5)]  # an end after the last record is the end


def test_start_after_last_record_is_error_by_default(mock_cluster: MockCluster, topic: str) -> None:
    start = FIRST_MS + 7000  # the second partition has no record as late
    with pytest.raises(
        OptionError, match=rf"option startingTimestamp: {topic} \[1\] has no record at .* {start}"
    ):
        planned(mock_cluster, topic, startingTimestamp=start)
    found = planned(
        mock_cluster, topic, startingTimestamp=start, startingOffsetsByTimestampStrategy="latest"
    )
    assert found == [(0, 7, 10)]


def test_offsets_of_other_partitions_than_those_read_are_refused(
    mock_cluster: MockCluster, topic: str
) -> None:
    for option in ("startingOffsets", "endingOffsets", "startingOffsetsByTimestamp"):
        with pytest.raises(
            OptionError, match=rf"option {option}: name each partition .* it lacks {topic} \[1\]"
        ):
            planned(mock_cluster, topic, **{option: json.dumps({topic: {"0": 5}})})
        more = {topic: {"0": 5, "1": 5, "2": 5}}
        with pytest.raises(
            OptionError, match=rf"it names {topic} \[2\], which the source doesn't read"
        ):
            planned(mock_cluster, topic, **{option: json.dumps(more)})


def test_a_pattern_matches_whole_names(mock_cluster: MockCluster, topic: str) -> None:
    mock_cluster.create_topic(f"{topic}-more", 1)
    with OffsetReader(
        options_of(mock_cluster, topic, subscribePattern=f"{topic[:3]}.*{topic[3:]}")
    ) as reader:
        assert reader.partitions() == [(topic, 0), (topic, 1)]
    with OffsetReader(
        options_of(mock_cluster, topic, subscribePattern=f"{topic}(-more)?")
    ) as reader:
        assert reader.partitions() == [(topic, 0), (topic, 1), (f"{topic}-more", 0)]
    with OffsetReader(options_of(mock_cluster, topic, subscribePattern="nothing-.*")) as reader:
        assert reader.partitions() == []


def test_error_names_the_missing_topic_or_partition(mock_cluster: MockCluster, topic: str) -> None:
    with pytest.raises(KafkaException, match="topic absent"):
        planned(mock_cluster, topic, subscribe=f"{topic},absent")
    with pytest.raises(KafkaException, match=rf"option assign: {topic} has no partition 7"):
        planned(mock_cluster, topic, assign=json.dumps({topic: [0, 7]}))
    assert "absent" not in mock_cluster.topics  # the request has not created it


def test_failed_requests_are_retried(mock_cluster: MockCluster, topic: str) -> None:
    refused = [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    mock_cluster.push_request_errors(ApiKey.LIST_OFFSETS, refused, topic=topic, partition=0)
    once = options_of(mock_cluster, topic, **{"fetchOffset.numRetries": 0})
    with OffsetReader(once) as reader, pytest.raises(KafkaException, match=rf"{topic} \[0\]"):
        reader.earliest([(topic, 0), (topic, 1)])
    mock_cluster.push_request_errors(ApiKey.LIST_OFFSETS, refused * 2, topic=topic, partition=0)
    with OffsetReader(options_of(mock_cluster, topic)) as reader:
        assert reader.earliest([(topic, 0), (topic, 1)]) == {(topic, 0): 2, (topic, 1): 0}
        reader.close()  # and connect again
        assert reader.latest([(topic, 0)]) == {(topic, 0): 10}
        assert reader.latest([]) == {}


def test_times_after_the_last_record(reader: OffsetReader, topic: str) -> None:
    found = reader.at_times({(topic, 0): FIRST_MS + 8500, (topic, 1): FIRST_MS + 8500})
    assert found == {(topic, 0): 9, (topic, 1): None}
    limit = Limit("offsets", "startingOffsets", {(topic, 0): -1, (topic, 1): -2})
    assert reader.resolve(limit, [(topic, 0), (topic, 1)], starting=True) == {
        (topic, 0): 10,
        (topic, 1): 0,
    }


@needs_filters
def test_filters_narrow_the_plan(mock_cluster: MockCluster, topic: str) -> None:
    reader = FilteringBatchReader(options_of(mock_cluster, topic))
    at = datetime.fromtimestamp(FIRST_MS / 1000 + 6, tz=timezone.utc)
    left = list(
        reader.pushFilters(
            [
                datasource.GreaterThanOrEqual(("timestamp",), at),
                datasource.EqualTo(("topic",), topic),
            ]
        )
    )
    assert left == [datasource.GreaterThanOrEqual(("timestamp",), at)]
    assert reader.partitions() == [OffsetRange(topic, 0, 6, 10)]
