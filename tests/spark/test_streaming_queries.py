"""Streams on the mock cluster: limits, new topics, restarts, and killed processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

from kafka_native import KafkaException, Producer, TopicPartition
from kafka_native.admin import AdminClient
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from kafka_native.spark.kept_state import KeptState
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.stream_reader import StreamReader
from tests.spark.streams import WAIT_S, completed, started, wait_for
from tests.spark.support import FORMAT, RUNS_AFTER_A_KILL, Kafka, needs_limits, source_options

DRIVER = Path(__file__).with_name("stream_driver.py")


class Lake:
    """A stream into Parquet files, whose sink takes each batch once. It can be restarted."""

    def __init__(self, kafka: Kafka, topic: str, folder: Path) -> None:
        self._kafka, self._topic, self._folder = kafka, topic, folder
        self.checkpoint = folder / "checkpoint"
        self.files = folder / "files"

    def start(self, *, available_now: bool = True, **options: Any) -> StreamingQuery:
        frame = self._kafka.read_stream(self._topic, startingOffsets="earliest", **options).load()
        writer = frame.writeStream.format("parquet").option(
            "checkpointLocation", str(self.checkpoint)
        )
        trigger: dict[str, Any] = (
            {"availableNow": True} if available_now else {"processingTime": "0 seconds"}
        )
        return started(lambda: writer.trigger(**trigger).start(str(self.files)))

    def run(self, **options: Any) -> StreamingQuery:
        """Run to the end of the current records."""
        query = self.start(**options)
        assert query.awaitTermination(WAIT_S), query.status
        return query

    def numbers(self) -> list[int]:
        """Return the written numbers, in order."""
        return sorted(
            int(bytes(row.value))
            for row in self._kafka.spark.read.parquet(str(self.files)).collect()
        )

    def batches(self) -> int:
        """Return the number of finished batches."""
        return len([each for each in _names(self.checkpoint / "commits") if each.isdigit()])

    def ends(self) -> list[dict[str, Any]]:
        """Return the end of each planned batch, from the checkpoint."""
        planned = sorted(
            int(each) for each in _names(self.checkpoint / "offsets") if each.isdigit()
        )
        texts = [(self.checkpoint / "offsets" / str(each)).read_text() for each in planned]
        return [json.loads(text.splitlines()[-1]) for text in texts]


def _names(folder: Path) -> list[str]:
    return os.listdir(folder) if folder.is_dir() else []


@contextlib.contextmanager
def running(query: StreamingQuery) -> Iterator[StreamingQuery]:
    """Yield a query, and stop it at the end."""
    try:
        yield query
    finally:
        query.stop()


def started_and_failed(start: Callable[[], StreamingQuery]) -> str:
    """Return the error of a query that ends by itself."""
    with pytest.raises(StreamingQueryException) as caught:
        completed(start)
    return str(caught.value)


def sizes(query: StreamingQuery) -> list[int]:
    """Return the number of rows of each non-empty batch."""
    return [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]


@needs_limits
def test_available_now_keeps_its_limit_and_restart_continues(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic(2)
    kafka.fill(topic, 70, partition=0)
    kafka.fill(topic, 30, partition=1, start=70)
    lake = Lake(kafka, topic, tmp_path)
    query = lake.run(maxOffsetsPerTrigger=40, **{"kafka.ssl.key.password": "hunter2"})
    assert sizes(query) == [40, 40, 20]
    assert lake.ends() == [
        {topic: {"0": 28, "1": 12}},
        {topic: {"0": 56, "1": 24}},
        {topic: {"0": 70, "1": 30}},
    ]
    assert json.loads(query.recentProgress[-1]["sources"][0]["latestOffset"]) == {
        topic: {"0": 70, "1": 30}
    }
    kafka.fill(topic, 50, partition=1, start=100)
    assert sizes(lake.run()) == [50]
    assert sizes(lake.run()) == []
    assert lake.numbers() == list(range(150))
    shown = [json.dumps(each, default=str) for each in query.recentProgress]
    shown += [
        each.read_text(errors="replace") for each in lake.checkpoint.rglob("*") if each.is_file()
    ]
    assert not [text for text in shown if "hunter2" in text]


def test_small_triggers_lose_nothing_and_later_topics_are_read_whole(kafka: Kafka) -> None:
    first, second = (f"gaining-{number}" for number in range(2))
    kafka.cluster.create_topic(first, 2)
    kafka.fill(first, 10)
    frame = kafka.read_stream("", subscribePattern="gaining-.*", startingOffsets="earliest").load()
    writer = (
        frame.selectExpr("topic", "cast(value as string) value")
        .writeStream.format("memory")
        .queryName("gaining")
    )

    def seen(topic: str) -> list[int]:
        rows: list[Row] = kafka.spark.table("gaining").where(f"topic = '{topic}'").collect()
        return sorted(int(row.value) for row in rows)

    with running(started(writer.trigger(processingTime="0 seconds").start)) as query:
        wait_for(lambda: len(seen(first)) == 10, "the first records")
        kafka.cluster.create_topic(second, 1)
        kafka.fill(second, 5)
        for number in range(10, 50, 10):
            kafka.fill(first, 10, partition=number // 10 % 2, start=number)
            wait_for(lambda more=number + 10: len(seen(first)) == more, "further records")
        wait_for(lambda: len(seen(second)) == 5, "the records of the new topic")
        assert len(sizes(query)) > 1
        assert query.exception() is None
    assert (seen(first), seen(second)) == (list(range(50)), list(range(5)))


@needs_limits
def test_rows_that_are_ranges_cover_each_offset_once(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic(2)
    kafka.fill(topic, 100, partition=0)
    kafka.fill(topic, 10, partition=1)
    frame = kafka.read_stream(
        topic,
        rows="ranges",
        startingOffsets="earliest",
        maxOffsetsPerTrigger=55,
        maxRecordsPerPartition=20,
    ).load()
    found: list[tuple[int, Row]] = []
    writer = frame.writeStream.foreachBatch(
        lambda frame, number: found.extend((number, row) for row in frame.collect())
    )
    completed(writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start)
    rows = sorted(
        (number, row.partition, row.start_offset, row.end_offset) for number, row in found
    )
    assert [row for row in rows if row[0] == 0] == [
        (0, 0, 0, 16),
        (0, 0, 16, 33),
        (0, 0, 33, 50),
        (0, 1, 0, 5),
    ]
    assert [row for row in rows if row[0] == 1] == [
        (1, 0, 50, 66),
        (1, 0, 66, 83),
        (1, 0, 83, 100),
        (1, 1, 5, 10),
    ]


def test_topic_recreated_between_two_runs_loses_no_record_silently(
    kafka: Kafka, mock_cluster: MockCluster, tmp_path: Path
) -> None:
    topic = kafka.topic(1)
    kafka.fill(topic, 200)
    lake = Lake(kafka, topic, tmp_path)
    checkpoint = str(lake.checkpoint)
    assert lake.run(checkpointLocation=checkpoint).exception() is None
    mock_cluster.delete_topic(topic)
    mock_cluster.create_topic(topic)
    kafka.fill(topic, 300, start=1000)
    failed = started_and_failed(lambda: lake.start(checkpointLocation=checkpoint))
    assert "the topic was deleted and recreated" in failed
    assert lake.numbers() == list(range(200))
    for _ in range(1 + RUNS_AFTER_A_KILL):
        query = lake.run(checkpointLocation=checkpoint, failOnDataLoss="false")
        assert query.exception() is None
    assert lake.numbers() == [*range(200), *range(1000, 1300)]
    assert {each.topic for each in KeptState(checkpoint).skipped()} == {topic}
    # Spark's own connector reads the checkpoint: the offsets are its offsets
    assert lake.ends()[-1] == {topic: {"0": 300}}


def test_deleted_records_that_a_task_skips_are_recorded(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic(1)
    kafka.fill(topic, 100)
    lake = Lake(kafka, topic, tmp_path)
    options = {"checkpointLocation": str(lake.checkpoint), "failOnDataLoss": "false"}
    assert lake.run(**options).exception() is None
    kafka.fill(topic, 100, start=100)
    with AdminClient({"bootstrap.servers": kafka.bootstrap}) as admin:
        wanted = TopicPartition(topic, 0, 150)
        admin.delete_records([wanted])[wanted].result(WAIT_S)
    assert lake.run(**options).exception() is None
    assert lake.numbers() == [*range(100), *range(150, 200)]
    [skipped] = KeptState(lake.checkpoint).skipped()
    assert (skipped.partition, skipped.start, skipped.end) == (0, 100, 150)
    assert skipped.reason == "the partition begins at offset 150 by now"


def test_stream_from_latest_reads_only_new_records_and_restarts(
    kafka: Kafka, tmp_path: Path
) -> None:
    topic = kafka.topic()
    kafka.fill(topic, 5)
    values: list[int] = []

    def run() -> None:
        frame = kafka.read_stream(topic).load()  # startingOffsets=latest is a stream's default
        writer = frame.writeStream.foreachBatch(
            lambda frame, number: values.extend(int(bytes(row.value)) for row in frame.collect())
        )
        completed(
            writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start
        )

    run()
    assert values == []
    kafka.fill(topic, 5, start=5)
    run()
    assert values == list(range(5, 10))


# --- killed processes ---


def test_killed_planner_ends_query_and_restart_loses_nothing(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic()
    kafka.fill(topic, 20)
    lake = Lake(kafka, topic, tmp_path)
    before = set(_planners())
    with running(lake.start(available_now=False)) as query:
        wait_for(lambda: lake.batches() >= 1, "the first batch")
        [planner] = set(_planners()) - before
        os.kill(planner, signal.SIGKILL)
        kafka.fill(topic, 20, start=20)
        wait_for(lambda: not query.isActive, "the query's end")
        assert query.exception() is not None
    lake.run()
    assert lake.numbers() == list(range(40))


def _planners() -> list[int]:
    """Return the processes that plan streams."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it may have ended by now
            if (
                folder.name.isdigit()
                and b"python_streaming_source_runner" in (folder / "cmdline").read_bytes()
            ):
                found.append(int(folder.name))
    return found


@pytest.mark.slow
def test_killed_driver_is_replaced_without_loss_or_repetition(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic(2)
    lake = Lake(kafka, topic, tmp_path)
    ended = threading.Event()
    written = [0]
    log = tmp_path / "driver.log"

    def produce() -> None:
        with Producer({"bootstrap.servers": kafka.bootstrap}) as producer:
            while not ended.is_set():
                producer.produce(topic, str(written[0]), partition=written[0] % 2)
                written[0] += 1
                ended.wait(0.01)

    options = source_options(
        kafka.bootstrap, topic, startingOffsets="earliest", maxOffsetsPerTrigger=100
    )
    thread = threading.Thread(target=produce)
    thread.start()
    try:
        command = [
            sys.executable,
            str(DRIVER),
            json.dumps(options),
            str(lake.checkpoint),
            str(lake.files),
        ]
        with log.open("wb") as output:
            driver = subprocess.Popen(command, start_new_session=True, stdout=output, stderr=output)
        try:
            wait_for(
                lambda: lake.batches() >= 2 or driver.poll() is not None,
                "the driver's batches",
                log.read_text,
            )
            assert driver.poll() is None, log.read_text()
        finally:
            os.killpg(driver.pid, signal.SIGKILL)  # the JVM together with its Python workers
            driver.wait(WAIT_S)
    finally:
        ended.set()
        thread.join(WAIT_S)
    for _ in range(RUNS_AFTER_A_KILL):
        lake.run()
    assert lake.numbers() == list(range(written[0]))


# --- requests of the planner, without Spark ---


@pytest.fixture
def alone() -> Iterator[MockCluster]:
    """Yield a cluster of one broker for a test that breaks it."""
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("t", 4)
        yield cluster


def reader(cluster: MockCluster, **options: Any) -> StreamReader:
    given = source_options(cluster.bootstrap_servers, "t", startingOffsets="earliest", **options)
    return StreamReader(SourceOptions.parse(given))


def test_trigger_costs_one_request(alone: MockCluster) -> None:
    made = reader(alone)
    try:
        start = made.initialOffset()
        made.latestOffset(start)
        alone.clear_requests()
        triggers = 5
        for _ in range(triggers):
            made.partitions(start, made.latestOffset(start))
        assert len(alone.requests_of(ApiKey.LIST_OFFSETS)) == triggers
        assert len(alone.requests_of(ApiKey.API_VERSIONS)) == 0  # on the existing connection
    finally:
        made.stop()


def test_broker_that_stays_down_is_an_error_after_the_retries(alone: MockCluster) -> None:
    retries = {"fetchOffset.numRetries": 2, "fetchOffset.retryIntervalMs": 10}
    made = reader(
        alone, **retries, **{"kafka.default.api.timeout.ms": 300, "kafka.reconnect.backoff.ms": 10}
    )
    try:
        start = made.initialOffset()
        alone.broker_down(1)
        with pytest.raises(KafkaException, match=r"_TRANSPORT|_TIMED_OUT|_ALL_BROKERS_DOWN"):
            made.latestOffset(start)
        alone.broker_up(1)
        with Producer({"bootstrap.servers": alone.bootstrap_servers}) as producer:
            producer.produce("t", "x", partition=2)
        assert wait_for(lambda: latest_or_none(made, start), "an answer") == {
            "t": {"0": 0, "1": 0, "2": 1, "3": 0}
        }
    finally:
        made.stop()


def latest_or_none(
    made: StreamReader, start: dict[str, dict[str, int]]
) -> dict[str, dict[str, int]] | None:
    try:
        return made.latestOffset(start)
    except KafkaException:
        return None  # the broker is still starting


def test_session_has_the_format(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="a stream has no end"):
        spark.readStream.format(FORMAT).options(
            **source_options("nowhere:9092", "t", endingOffsets="latest")
        ).load().writeStream.format("noop").start().awaitTermination(WAIT_S)
