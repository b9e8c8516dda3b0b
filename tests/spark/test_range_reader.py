"""Reading of ranges as in a Python worker, without a JVM."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from kafka_native import KafkaError, Producer, Uuid
from kafka_native._native.records import encode_batch
from kafka_native.mock import MockCluster
from kafka_native.spark import range_reader
from kafka_native.spark.columns import COLUMNS
from kafka_native.spark.errors import DataLossError
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.ranges import OffsetRange
from tests.spark.support import FIRST_MS, numbered, source_options

pytestmark = pytest.mark.usefixtures("no_consumer_left")

_numbers = itertools.count()


@pytest.fixture
def topic(mock_cluster: MockCluster) -> str:
    """Return a topic of two partitions. The first has the numbers from 0 to 99."""
    name = f"fetched-{next(_numbers)}"
    mock_cluster.create_topic(name, 2)
    fill(mock_cluster, name, range(100))
    return name


def fill(cluster: MockCluster, topic: str, numbers: Any, partition: int = 0) -> None:
    with Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "batch.num.messages": 10}
    ) as producer:
        for number in numbers:
            producer.produce(topic, **numbered(number, partition))
        assert producer.flush(30) == 0


def options_of(cluster: MockCluster, topic: str, **more: Any) -> SourceOptions:
    quick = {"fetchOffset.retryIntervalMs": 50, "kafka.fetch.max.wait.ms": 50}
    return SourceOptions.parse(
        source_options(cluster.bootstrap_servers, topic, **{**quick, **more})
    )


def values(batches: Any) -> list[int]:
    return [int(value) for batch in batches for value in batch.column("value").to_pylist()]


def read(options: SourceOptions, range_: OffsetRange) -> list[int]:
    """Return the values of a range."""
    return values(range_reader.read_range(options, range_))


def test_a_range_returns_exactly_its_records(mock_cluster: MockCluster, topic: str) -> None:
    options = options_of(mock_cluster, topic)
    for start, end in ((0, 100), (13, 57), (99, 100), (0, 1)):
        found = list(range_reader.read_range(options, OffsetRange(topic, 0, start, end)))
        assert values(found) == list(range(start, end))
    assert list(range_reader.read_range(options, OffsetRange(topic, 1, 0, 0))) == []


def test_columns_have_sparks_types(mock_cluster: MockCluster, topic: str) -> None:
    options = options_of(mock_cluster, topic, includeHeaders="true")
    [batch] = range_reader.read_range(options, OffsetRange(topic, 0, 7, 9))
    assert batch.schema.equals(range_reader.arrow_schema(COLUMNS))
    first, second = batch.to_pylist()
    at = pa.scalar((FIRST_MS + 7000) * 1000, pa.timestamp("us", tz="UTC")).as_py()
    assert first == {
        "key": b"key-7",
        "value": b"7",
        "topic": topic,
        "partition": 0,
        "offset": 7,
        "timestamp": at,
        "timestampType": 0,
        "headers": [{"key": "number", "value": b"7"}],
    }
    assert second["offset"] == 8
    [chosen] = range_reader.read_range(options, OffsetRange(topic, 0, 7, 9), ["offset", "key"])
    assert chosen.to_pylist() == [{"offset": 7, "key": b"key-7"}, {"offset": 8, "key": b"key-8"}]


def test_missing_keys_values_and_headers_are_null(mock_cluster: MockCluster, topic: str) -> None:
    with Producer({"bootstrap.servers": mock_cluster.bootstrap_servers}) as producer:
        producer.produce(topic, None, key=None, partition=1, timestamp=FIRST_MS)
        producer.produce(topic, b"", key=b"", partition=1, headers=[("a", None), ("a", b"")])
    options = options_of(mock_cluster, topic, columns="key,value,headers")
    rows = [
        row
        for batch in range_reader.read_range(options, OffsetRange(topic, 1, 0, 2))
        for row in batch.to_pylist()
    ]
    assert rows == [
        {"key": None, "value": None, "headers": None},
        {
            "key": b"",
            "value": b"",
            "headers": [{"key": "a", "value": None}, {"key": "a", "value": b""}],
        },
    ]


def test_header_names_that_are_not_utf8_are_replaced_as_java_does(
    mock_cluster: MockCluster, topic: str
) -> None:
    mock_cluster.append_raw(topic, 1, encode_batch([(1, None, b"v", [(b"caf\xe9", b"\xff")])]), 1)
    options = options_of(mock_cluster, topic, columns="headers")
    table = pa.Table.from_batches(range_reader.read_range(options, OffsetRange(topic, 1, 0, 1)))
    assert table.column("headers").to_pylist() == [[{"key": "caf\ufffd", "value": b"\xff"}]]


def test_a_timestamp_outside_sparks_range_is_an_error_with_a_remedy(
    mock_cluster: MockCluster, topic: str
) -> None:
    mock_cluster.append_raw(topic, 1, encode_batch([(2**62, None, b"v")]), 1)
    options = options_of(mock_cluster, topic, columns="timestamp")
    with pytest.raises(
        ValueError, match=r"at offset 0: its timestamp can't be a timestamp\[us\]"
    ) as caught:
        list(range_reader.read_range(options, OffsetRange(topic, 1, 0, 1)))
    assert "[ms]" not in str(caught.value), "the user can't choose this type"
    assert "select other columns, or read from the next offset on" in str(caught.value)


def test_batches_have_at_most_batch_rows(mock_cluster: MockCluster, topic: str) -> None:
    options = options_of(mock_cluster, topic, batchRows=30)
    found = list(range_reader.read_range(options, OffsetRange(topic, 0, 0, 100)))
    assert max(batch.num_rows for batch in found) <= 30
    assert values(found) == list(range(100))


def test_the_next_range_uses_the_same_consumer(mock_cluster: MockCluster, topic: str) -> None:
    options = options_of(mock_cluster, topic)
    fill(mock_cluster, topic, range(500, 520), partition=1)
    wanted = [
        OffsetRange(topic, 0, 0, 50),
        OffsetRange(topic, 0, 50, 100),
        OffsetRange(topic, 0, 10, 20),
    ]
    used = []
    for each in [*wanted, OffsetRange(topic, 1, 0, 20)]:
        found = read(options, each)
        assert found == [number + 500 * each.partition for number in range(each.start, each.end)]
        [kept] = range_reader._consumers.idle
        used.append(kept.client)
    assert len(set(map(id, used))) == 1
    # another configuration has its own consumer
    other = options_of(mock_cluster, topic, **{"kafka.client.id": "other"})
    assert read(other, wanted[0]) == list(range(50))
    assert len(range_reader._consumers.idle) == 2


def test_a_dropped_or_failed_task_does_not_affect_the_next_one(
    mock_cluster: MockCluster, topic: str
) -> None:
    options = options_of(mock_cluster, topic, batchRows=10)
    whole = OffsetRange(topic, 0, 0, 100)
    dropped = range_reader.read_range(options, whole)
    next(dropped)
    # another range while the first isn't finished
    assert read(options, whole) == list(range(100))
    assert len(values(dropped)) == 90
    limited = range_reader.read_range(options, whole)
    next(limited)
    limited.close()
    assert read(options, whole) == list(range(100))
    kept = len(range_reader._consumers.idle)
    failing = range_reader.read_range(options, whole)
    next(failing)
    with pytest.raises(InterruptedError):
        failing.throw(InterruptedError)  # type: ignore[attr-defined]
    assert len(range_reader._consumers.idle) == kept - 1
    assert read(options, whole) == list(range(100))


def test_a_forked_worker_makes_its_own_consumer(mock_cluster: MockCluster, topic: str) -> None:
    options = options_of(mock_cluster, topic)
    whole = OffsetRange(topic, 0, 0, 100)
    assert len(read(options, whole)) == 100
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()

    def work() -> None:
        try:
            there.send(read(options, whole))
            range_reader.close_idle()
        finally:
            there.close()
            os._exit(0)

    child = context.Process(target=work)
    child.start()
    try:
        assert here.poll(60), "the child has read nothing"
        assert here.recv() == list(range(100))
    finally:
        child.kill()
        child.join()
    assert read(options, whole) == list(range(100))


def test_workers_start_without_pandas() -> None:
    """Pandas would cost each process 0.3 s of CPU."""
    tasks = (
        "kafka_native.spark.pipelines.copy",
        "kafka_native.spark.pipelines.archive",
        "kafka_native.spark.writers",
    )
    program = f"import sys, {', '.join(tasks)}; sys.exit('pandas' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_deleted_records_are_an_error_or_skipped(
    mock_cluster: MockCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    mock_cluster.move_log_start(topic, 0, 40)
    with pytest.raises(
        DataLossError, match=rf"offsets 10 to 40 of {topic} \[0\] can't be read: .*=false"
    ):
        list(
            range_reader.read_range(options_of(mock_cluster, topic), OffsetRange(topic, 0, 10, 90))
        )
    lenient = options_of(mock_cluster, topic, failOnDataLoss="false")
    assert read(lenient, OffsetRange(topic, 0, 10, 90)) == list(range(40, 90))
    assert f"offsets 10 to 40 of {topic} [0]" in caplog.text
    assert read(lenient, OffsetRange(topic, 0, 10, 30)) == []


@pytest.mark.parametrize("start", [20, 70])
def test_a_truncated_partition_is_an_error_or_read_to_its_end(
    mock_cluster: MockCluster, topic: str, start: int
) -> None:
    mock_cluster.truncate(topic, 0, 50)
    strict = options_of(mock_cluster, topic, **{"fetchOffset.numRetries": 1})
    with pytest.raises(DataLossError, match=r"the partition ends at offset 50: it was truncated"):
        list(range_reader.read_range(strict, OffsetRange(topic, 0, start, 100)))
    lenient = options_of(
        mock_cluster, topic, failOnDataLoss="false", **{"fetchOffset.numRetries": 1}
    )
    assert read(lenient, OffsetRange(topic, 0, start, 100)) == list(range(start, 50))


def test_a_partition_that_was_just_added_is_read_by_a_consumer_that_knows_the_topic(
    mock_cluster: MockCluster, topic: str
) -> None:
    options = options_of(mock_cluster, topic, failOnDataLoss="false")
    assert len(read(options, OffsetRange(topic, 0, 0, 100))) == 100
    mock_cluster.create_partitions(topic, 3)
    fill(mock_cluster, topic, range(50), partition=2)
    assert read(options, OffsetRange(topic, 2, 0, 50)) == list(range(50))
    assert len(range_reader._consumers.idle) == 1


def topic_id(cluster: MockCluster, topic: str) -> str:
    return str(Uuid.from_bytes(cluster.topic_id(topic)))


def recreate(cluster: MockCluster, topic: str) -> None:
    """Recreate the topic with the same number of other records."""
    cluster.delete_topic(topic)
    cluster.create_topic(topic, 2)
    fill(cluster, topic, range(1000, 1100))


@pytest.mark.parametrize("kept", [True, False])
def test_a_range_of_a_recreated_topic_is_lost(
    mock_cluster: MockCluster, topic: str, kept: bool
) -> None:
    """The range's offsets now belong to other records, even if the consumer knows the new topic."""
    quick = {"fetchOffset.numRetries": 1}
    options = options_of(mock_cluster, topic, failOnDataLoss="false", **quick)
    old = OffsetRange(topic, 0, 20, 100, topic_id=topic_id(mock_cluster, topic))
    if kept:
        assert read(options, old) == list(range(20, 100))
    recreate(mock_cluster, topic)
    skipped: list[tuple[int, int, str]] = []
    found = range_reader.read_range(options, old, on_skip=lambda *each: skipped.append(each))
    assert (values(found), skipped) == ([], [(20, 100, "the topic was deleted and recreated")])
    with pytest.raises(
        DataLossError, match=r"offsets 20 to 100 .* the topic was deleted and recreated"
    ):
        list(range_reader.read_range(options_of(mock_cluster, topic, **quick), old))
    new = OffsetRange(topic, 0, 20, 100, topic_id=topic_id(mock_cluster, topic))
    assert read(options, new) == list(range(1020, 1100))


@pytest.mark.parametrize("labelled", [True, False])
def test_recreating_topic_ends_range(mock_cluster: MockCluster, topic: str, labelled: bool) -> None:
    more = {
        "batchRows": 10,
        "kafka.queued.max.messages.kbytes": 1,
        "kafka.fetch.message.max.bytes": 500,
    }
    options = options_of(
        mock_cluster, topic, failOnDataLoss="false", **{"fetchOffset.numRetries": 1}, **more
    )
    label = topic_id(mock_cluster, topic) if labelled else ""
    skipped: list[tuple[int, int, str]] = []
    reading = range_reader.read_range(
        options,
        OffsetRange(topic, 0, 0, 100, topic_id=label),
        on_skip=lambda *each: skipped.append(each),
    )
    found = values([next(reading)])
    recreate(mock_cluster, topic)
    found += values(reading)
    assert found == list(range(len(found)))
    assert len(found) < 100
    assert skipped == [(len(found), 100, "the topic was deleted and recreated")]


def test_a_topic_that_does_not_exist_is_an_error(mock_cluster: MockCluster, topic: str) -> None:
    """Only waiting distinguishes a deleted topic from a new one."""
    quick = {"kafka.topic.metadata.propagation.max.ms": 1000}
    options = options_of(mock_cluster, topic, **{"kafkaConsumer.pollTimeoutMs": 20000}, **quick)
    with pytest.raises(DataLossError, match=r"gone-topic .* doesn't exist any more"):
        list(range_reader.read_range(options, OffsetRange("gone-topic", 0, 0, 10)))


@pytest.mark.parametrize("appears", [True, False])
def test_reader_waits_for_a_missing_topic_for_the_propagation_time(
    mock_cluster: MockCluster, topic: str, appears: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The consumer reports the missing topic in the first second, which alone loses nothing."""
    name, errors = f"{topic}-late", []
    limit = {
        "kafka.topic.metadata.propagation.max.ms": 20_000 if appears else 1500,
        "failOnDataLoss": "false",
    }
    options = options_of(mock_cluster, name, **limit)
    on_error = range_reader._PositionReader._on_error

    def note_error(reading: range_reader._PositionReader[Any], error: KafkaError) -> None:
        errors.append(error.code())
        on_error(reading, error)
        if appears:
            mock_cluster.create_topic(name, 1)
            fill(mock_cluster, name, range(10))

    monkeypatch.setattr(range_reader._PositionReader, "_on_error", note_error)
    found = read(options, OffsetRange(name, 0, 0, 10))
    assert errors == [KafkaError.UNKNOWN_TOPIC_OR_PART]
    assert len(found) == (10 if appears else 0)


def test_poll_timeout_limits_the_wait_for_a_range(mock_cluster: MockCluster, topic: str) -> None:
    options = SourceOptions.parse(
        source_options(
            "127.0.0.1:1",
            topic,
            **{"kafkaConsumer.pollTimeoutMs": 300, "kafka.reconnect.backoff.ms": 20},
        )
    )
    with pytest.raises(
        TimeoutError, match=rf"no record of {topic} \[0\] from offset 0 to 5 came for 0.3 s at"
    ):
        list(range_reader.read_range(options, OffsetRange(topic, 0, 0, 5)))
    assert range_reader._consumers.idle == []


def test_ranges_as_rows(mock_cluster: MockCluster, topic: str) -> None:
    options = options_of(mock_cluster, topic, rows="ranges")
    [batch] = range_reader.read_rows(options, OffsetRange(topic, 1, 5, 9))
    place = {"topic": topic, "partition": 1, "start_offset": 5, "end_offset": 9}
    assert batch.to_pylist() == [{**place, "topic_id": None, "lost": None}]
    [batch] = range_reader.read_rows(
        options, OffsetRange(topic, 1, 5, 9, topic_id="abc", lost="deleted")
    )
    assert batch.to_pylist() == [{**place, "topic_id": "abc", "lost": "deleted"}]
