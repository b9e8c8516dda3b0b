"""The progress of streams: events made by hand from JSON, and queries with Spark."""

from __future__ import annotations

import json
import logging
import uuid
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)

from kafka_native import Producer
from kafka_native.mock import MockCluster
from kafka_native.opentelemetry import observe_streams
from kafka_native.prometheus import StreamCollector
from kafka_native.spark import (
    BatchProgress,
    ProgressListener,
    SkippedOffsets,
    SourceLag,
    TaskReport,
)
from kafka_native.spark.kept_state import KeptState
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.task_reports import send
from tests.broker.cluster import Cluster
from tests.broker.support import TopicMaker
from tests.spark.streams import completed, wait_for
from tests.spark.support import Kafka, needs_limits, source_options

QUERY = "0f3e5a52-5a1c-4a8e-9c3f-000000000001"
RUN = "0f3e5a52-5a1c-4a8e-9c3f-000000000002"


def source(start: Any, end: Any, latest: Any, rows: int = 0) -> dict[str, Any]:
    """Return a source of a progress, as Spark writes it."""
    return {
        "description": "org.apache.spark.sql.execution.PythonMicroBatchStream@5e2f",
        "startOffset": start,
        "endOffset": end,
        "latestOffset": latest,
        "numInputRows": rows,
        "inputRowsPerSecond": 1.0,
        "processedRowsPerSecond": 1.0,
    }


def event(*sources: dict[str, Any], batch: int = 3, name: str | None = "o") -> QueryProgressEvent:
    """Return the progress of a micro-batch that took 250 ms."""
    progress = {
        "id": QUERY,
        "runId": RUN,
        "name": name,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": batch,
        "batchDuration": 250,
        "durationMs": {"triggerExecution": 250},
        "stateOperators": [],
        "sources": list(sources),
        "sink": {"description": "noop", "numOutputRows": -1},
        "numInputRows": sum(each["numInputRows"] for each in sources),
    }
    return QueryProgressEvent(StreamingQueryProgress.fromJson(progress))


def started(listener: ProgressListener, name: str | None = "o") -> None:
    given = {
        "id": QUERY,
        "runId": RUN,
        "name": name,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "jobTags": [],
    }
    listener.onQueryStarted(QueryStartedEvent.fromJson(given))


def reported(*sources: dict[str, Any], **options: Any) -> list[BatchProgress]:
    """Return what a listener makes of one event."""
    found: list[BatchProgress] = []
    ProgressListener(on_progress=found.append, **options).onQueryProgress(event(*sources))
    return found


def begin(checkpoint: Path) -> KeptState:
    """Return the state of a checkpoint as Spark makes it when the query starts."""
    (checkpoint / "metadata").write_text(json.dumps({"id": QUERY}))
    return KeptState(checkpoint)


def values(listener: ProgressListener) -> dict[str, float]:
    return {each.spec.name: each.value for each in listener.measurements()}


# --- the lag ---


def test_lag_has_the_names_and_values_of_sparks_connector() -> None:
    [found] = reported(
        source(
            {"a": {"0": 10, "1": 20}, "b": {"0": 0}},
            {"a": {"0": 15, "1": 40}, "b": {"0": 0}},
            {"a": {"0": 15, "1": 47}, "b": {"0": 3}},
            rows=24,
        )
    )
    assert found == BatchProgress(
        QUERY, "o", 3, 24, 25, 0.25, (SourceLag(0, ("a", "b"), 3, 0, 7, 10 / 3),), ()
    )
    assert found.lags[0].metrics == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "7",
        "avgOffsetsBehindLatest": "3.3333333333333335",
    }


def test_first_batch_has_no_start_and_new_partitions_count_from_zero() -> None:
    [found] = reported(source(None, {"a": {"0": 5}}, {"a": {"0": 5, "1": 8}}))
    assert found.offsets == 0
    assert found.lags == (SourceLag(0, ("a",), 2, 0, 8, 4.0),)


def test_each_source_has_its_own_lag_and_others_are_ignored() -> None:
    rate = source(1, 2, 2, rows=5)
    first = source({"a": {"0": 0}}, {"a": {"0": 1}}, {"a": {"0": 3}}, rows=1)
    second = source({"b": {"0": 0}}, {"b": {"0": 4}}, {"b": {"0": 4}}, rows=4)
    [found] = reported(first, rate, second)
    assert found.rows == 10
    assert [(each.source, each.max_offsets_behind_latest) for each in found.lags] == [
        (0, 2),
        (2, 0),
    ]
    assert reported(rate, source({"logOffset": 1}, {"logOffset": 2}, None)) == []


def test_offsets_may_be_a_dictionary_of_python() -> None:
    """PySpark 4.0 and 4.1 write them so in sessions of Spark Connect."""
    offsets = (str({"a": {"0": at}}) for at in (1, 4, 9))
    [found] = reported(source(*offsets, rows=3))
    assert (found.offsets, found.lags) == (3, (SourceLag(0, ("a",), 1, 5, 5, 5.0),))
    for other in (str({"a"}), "{'a': ", str({"a": object()})):
        assert reported(source(other, other, other)) == []


def test_without_the_ends_of_spark_the_lag_is_unknown() -> None:
    [found] = reported(source({"a": {"0": 1}}, {"a": {"0": 4}}, None, rows=3))
    assert (found.offsets, found.lags) == (3, ())


def test_with_the_sources_options_the_cluster_is_asked_for_the_ends(cluster: MockCluster) -> None:
    cluster.create_topic("asked", 2)
    options = source_options(cluster.bootstrap_servers, "asked")
    found: list[BatchProgress] = []
    listener = ProgressListener(options=options, on_progress=found.append)
    end = {"asked": {"0": 0, "1": 0}}
    listener.onQueryProgress(event(source(None, end, None)))
    listener.onQueryProgress(event(source(None, end, {"asked": {"0": 5, "1": 5}})))
    other = source(None, {"other": {"0": 1}}, {"other": {"0": 2}})
    listener.onQueryProgress(event(other))
    listener.close()
    asked = SourceLag(0, ("asked",), 2, 0, 0, 0.0)
    assert [each.lags for each in found] == [
        (asked,),
        (asked,),
        (SourceLag(0, ("other",), 1, 1, 1, 1.0),),
    ]


def test_without_an_answer_the_ends_are_those_of_spark(caplog: pytest.LogCaptureFixture) -> None:
    options = source_options("127.0.0.1:1", "a", **{"kafka.default.api.timeout.ms": 100})
    found: list[BatchProgress] = []
    listener = ProgressListener(options=options, on_progress=found.append)
    listener.onQueryProgress(event(source(None, {"a": {"0": 1}}, {"a": {"0": 3}})))
    listener.close()
    assert [each.lags for each in found] == [(SourceLag(0, ("a",), 1, 2, 2, 2.0),)]
    assert "the ends of the partitions are unknown" in caplog.text


# --- skipped offsets ---


def test_skipped_offsets_count_in_the_batch_that_skipped_them(tmp_path: Path) -> None:
    state = begin(tmp_path)
    state.add_skipped(SkippedOffsets("a", 0, 0, 10, "before this run", 1))
    found: list[BatchProgress] = []
    listener = ProgressListener(checkpoints=[tmp_path], on_progress=found.append)
    started(listener)
    state.add_skipped(SkippedOffsets("a", 0, 20, 25, "retention", 2))
    state.add_skipped(SkippedOffsets("b", 0, 7, None, "gone", 2))
    for batch in range(2):
        listener.onQueryProgress(event(source(None, {"a": {"0": 30}}, None), batch=batch))
    assert [each.skipped_offsets for each in found] == [5, 0]
    assert [each.topic for each in found[0].skipped] == ["a", "b"]
    assert values(listener)["stream_skipped_offsets"] == 5


def test_checkpoint_of_another_query_has_no_part(tmp_path: Path) -> None:
    begin(tmp_path).add_skipped(SkippedOffsets("a", 0, 0, 10, "retention", 1))
    (tmp_path / "metadata").write_text(json.dumps({"id": "another"}))
    [found] = reported(source(None, {"a": {"0": 1}}, None), checkpoints=[tmp_path, tmp_path / "x"])
    assert found.skipped == ()


def test_checkpoint_that_pyarrow_does_not_know_is_an_error() -> None:
    with pytest.raises(ValueError, match="nosuch"):
        ProgressListener(checkpoints=["nosuch://bucket/checkpoint"])


def test_damaged_file_does_not_end_the_reports(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begin(tmp_path).add_skipped(SkippedOffsets("a", 0, 0, 10, "retention", 1))
    [file] = (tmp_path / "kafka_native" / "skipped").iterdir()
    file.write_text("{")
    [found] = reported(source(None, {"a": {"0": 1}}, None), checkpoints=[tmp_path])
    assert found.skipped == ()
    assert "the skipped offsets of o can't be read" in caplog.text


def test_reports_of_the_tasks_are_added_up(tmp_path: Path) -> None:
    begin(tmp_path)
    options = SourceOptions.parse(
        source_options("nowhere:9092", "a", taskReports="true", checkpointLocation=tmp_path)
    )
    for partition, batch in ((0, 3), (1, 3), (0, 4)):
        place = "a", partition, 0, 5
        send(TaskReport(*place, 4, 100, 1, 0.5, partition, batch_id=batch), options)
    found: list[BatchProgress] = []
    listener = ProgressListener(checkpoints=[tmp_path], on_progress=found.append)
    for batch in (3, 4, 5):
        listener.onQueryProgress(event(source(None, {"a": {"0": 5}}, None), batch=batch))
    assert [(each.bytes, each.retries, each.malformed) for each in found] == [
        (200, 1, 2),
        (100, 0, 1),
        (0, 0, 0),
    ]
    assert str(found[0]).endswith("200 bytes, 1 retries, 2 records that don't decode")
    sums = {name: values(listener)[f"stream_{name}"] for name in ("bytes", "retries", "malformed")}
    assert sums == {"bytes": 300, "retries": 1, "malformed": 3}


def test_reports_of_an_earlier_run_have_no_part(tmp_path: Path) -> None:
    begin(tmp_path)
    options = SourceOptions.parse(
        source_options("nowhere:9092", "a", taskReports="true", checkpointLocation=tmp_path)
    )
    found: list[BatchProgress] = []
    listener = ProgressListener(checkpoints=[tmp_path], on_progress=found.append)
    send(TaskReport("a", 0, 0, 5, 5, 100, 0, 0.5, batch_id=3, split=1), options)  # it was killed
    started(listener)
    send(TaskReport("a", 0, 0, 9, 9, 180, 0, 0.5, batch_id=3), options)
    listener.onQueryProgress(event(source(None, {"a": {"0": 9}}, None)))
    assert [each.bytes for each in found] == [180]


# --- where it goes ---


def test_each_batch_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafka_native.spark")
    reported(source({"a": {"0": 0, "1": 0}}, {"a": {"0": 3, "1": 4}}, {"a": {"0": 4, "1": 4}}, 7))
    [line] = [each.getMessage() for each in caplog.records]
    assert line == (
        "o, batch 3: 7 rows, 7 offsets, 0.250 s, "
        "a up to 1 offsets behind (min 0, avg 0.5, 2 partitions)"
    )


def test_error_of_the_callback_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(progress: BatchProgress) -> None:
        raise ValueError("no room")

    ProgressListener(on_progress=fail).onQueryProgress(event(source(None, {"a": {"0": 1}}, None)))
    assert "no room" in caplog.text


def test_figures_are_sums_since_the_start_and_end_with_the_query() -> None:
    listener = ProgressListener()
    started(listener, None)
    for batch in range(2):
        start, end = {"a": {"0": batch}}, {"a": {"0": batch + 1}}
        listener.onQueryProgress(event(source(start, end, {"a": {"0": 9}}, 1), batch=batch))
    assert values(listener) == {
        "stream_batches": 2,
        "stream_rows": 2,
        "stream_offsets": 2,
        "stream_skipped_offsets": 0,
        "stream_busy_seconds": 0.5,
        "stream_min_offsets_behind_latest": 7,
        "stream_max_offsets_behind_latest": 7,
        "stream_avg_offsets_behind_latest": 7,
    }
    assert {each.labels["query"] for each in listener.measurements()} == {QUERY}
    listener.onQueryTerminated(QueryTerminatedEvent(uuid.UUID(QUERY), uuid.UUID(RUN), None, None))
    assert values(listener) == {}


def test_prometheus_and_opentelemetry_have_the_figures() -> None:
    listener = ProgressListener()
    registry = CollectorRegistry()
    registry.register(StreamCollector(listener))
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    observe_streams(listener, meter_provider=provider)
    listener.onQueryProgress(event(source({"a": {"0": 1}}, {"a": {"0": 6}}, {"a": {"0": 8}}, 5)))
    lines = generate_latest(registry).decode().splitlines()
    assert 'kafka_native_stream_rows_total{query="o"} 5.0' in lines
    assert 'kafka_native_stream_max_offsets_behind_latest{query="o",source="0"} 2.0' in lines
    data = json.loads(reader.get_metrics_data().to_json())  # type: ignore[union-attr]
    [scope] = data["resource_metrics"][0]["scope_metrics"]
    points = {
        each["name"]: [
            (point["attributes"], point["value"]) for point in each["data"]["data_points"]
        ]
        for each in scope["metrics"]
    }
    assert points["kafka_native.stream_rows"] == [({"query": "o"}, 5)]
    assert points["kafka_native.stream_avg_offsets_behind_latest"] == [
        ({"query": "o", "source": "0"}, 2.0)
    ]
    provider.shutdown()


# --- with Spark ---


@needs_limits
def test_running_query_reports_its_lag(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic(2)
    kafka.fill(topic, 60, partition=0)
    kafka.fill(topic, 20, partition=1)
    found: list[BatchProgress] = []
    checkpoint = str(tmp_path / "checkpoint")
    listener = ProgressListener(checkpoints=[checkpoint], on_progress=found.append)
    kafka.spark.streams.addListener(listener)
    try:
        options: dict[str, Any] = {"maxOffsetsPerTrigger": 40, "checkpointLocation": checkpoint}
        options |= {"startingOffsets": "earliest", "taskReports": "true"}
        frame = kafka.read_stream(topic, **options)
        writer = frame.load().writeStream.format("noop").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", checkpoint).queryName("lagging")
        completed(writer.start)
        wait_for(lambda: sum(each.rows for each in found) == 80, "the progress", lambda: str(found))
    finally:
        kafka.spark.streams.removeListener(listener)
    lags = [each.lags[0].metrics for each in found if each.rows]
    assert lags == [
        {
            "minOffsetsBehindLatest": "10",
            "maxOffsetsBehindLatest": "30",
            "avgOffsetsBehindLatest": "20.0",
        },
        {
            "minOffsetsBehindLatest": "0",
            "maxOffsetsBehindLatest": "0",
            "avgOffsetsBehindLatest": "0.0",
        },
    ]
    assert {each.name for each in found} == {"lagging"}
    tasks = [sorted((each.partition, each.rows) for each in one.tasks) for one in found if one.rows]
    assert tasks == [[(0, 30), (1, 10)], [(0, 30), (1, 10)]]
    assert min(each.bytes for each in found if each.rows) > 0


class MetricsListener(ProgressListener):
    """Also keeps the metrics that Spark reports for the first source."""

    def __init__(self) -> None:
        self.found: list[BatchProgress] = []
        self.metrics: list[dict[str, str]] = []
        super().__init__(on_progress=self.found.append)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        # The JSON of a progress rounds the average to one digit.
        self.metrics.append(dict(event.progress["sources"][0]["metrics"]))
        super().onQueryProgress(event)


@needs_limits
@pytest.mark.broker
def test_lag_equals_the_metrics_of_sparks_own_connector(
    connected: SparkSession, apache: Cluster, new_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = new_topic(apache, partitions=3)
    with Producer({"bootstrap.servers": apache.bootstrap}) as producer:
        for number in range(100):
            producer.produce(topic, str(number), partition=min(number % 10, 2))
        assert producer.flush(30) == 0
    options = source_options(
        apache.bootstrap, topic, startingOffsets="earliest", maxOffsetsPerTrigger=30
    )
    reports = {"kafka": MetricsListener(), "kafka_native": MetricsListener()}
    for format_, listener in reports.items():
        connected.streams.addListener(listener)
        try:
            frame = connected.readStream.format(format_).options(**options).load()
            writer = frame.writeStream.format("noop").trigger(availableNow=True)
            writer = writer.option("checkpointLocation", str(tmp_path / format_))
            query = completed(writer.start)
            assert query.exception() is None
            wait_for(lambda it=listener: sum(each.rows for each in it.found) == 100, "the progress")
        finally:
            connected.streams.removeListener(listener)
    theirs, ours = reports.values()
    assert [each.lags[0].metrics for each in theirs.found] == theirs.metrics
    lags = [[each.lags for each in one.found if each.rows] for one in (theirs, ours)]
    assert len(lags[0]) > 1
    assert lags[0] == lags[1]
    assert not any(ours.metrics)  # if PySpark lets sources have metrics, the listener can end
