"""The tasks' reports: the line of the log, and the file beside the checkpoint. Without Spark."""

from __future__ import annotations

import itertools
import json
import logging
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from kafka_native import Producer
from kafka_native.mock import MockCluster
from kafka_native.spark import KafkaNativeDataSource, range_reader, task_reports
from kafka_native.spark.kept_state import KeptState
from kafka_native.spark.options import SinkOptions, SourceOptions
from kafka_native.spark.producers import borrowed
from kafka_native.spark.ranges import OffsetRange
from kafka_native.spark.task_reports import TaskReport, reports_of, send
from kafka_native.spark.writers import write_rows
from tests.spark.support import source_options

pytestmark = pytest.mark.usefixtures("no_consumer_left")

_numbers = itertools.count()


class FakeContext:
    """A task's context, of an attempt and of a micro-batch."""

    def __init__(self, attempt: int, batch_id: str | None) -> None:
        self._attempt, self._batch_id = attempt, batch_id

    def attemptNumber(self) -> int:
        return self._attempt

    def partitionId(self) -> int:
        return 3

    def getLocalProperty(self, name: str) -> str | None:
        assert name == "streaming.sql.batchId"
        return self._batch_id


@pytest.fixture(autouse=True)
def level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafka_native.spark")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Return the folder of a query's checkpoint."""
    (tmp_path / "metadata").write_text(json.dumps({"id": "q-1"}))
    return tmp_path


def filled(cluster: MockCluster, *values: str) -> str:
    """Return a new topic with these values in partition 0."""
    name = f"reported-{next(_numbers)}"
    cluster.create_topic(name, 1)
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        producer.produce_many(name, list(values), partition=0)
        assert producer.flush(30) == 0
    return name


def running(monkeypatch: pytest.MonkeyPatch, attempt: int, batch_id: str | None) -> None:
    """Make this process look like a task."""
    context = FakeContext(attempt, batch_id)
    monkeypatch.setattr(task_reports.TaskContext, "get", lambda: context)


def report_of(**changed: Any) -> TaskReport:
    given: dict[str, Any] = {"topic": "a", "partition": 0, "start": 0, "end": 9, "rows": 8}
    return TaskReport(**{**given, "bytes": 100, "malformed": 0, "seconds": 0.5, **changed})


def test_each_range_is_one_line(cluster: MockCluster, caplog: pytest.LogCaptureFixture) -> None:
    topic = filled(cluster, *(str(number) for number in range(30)))
    options = SourceOptions.parse(source_options(cluster.bootstrap_servers, topic, batchRows=4))
    size = sum(
        each.get_total_buffer_size()
        for each in range_reader.read_range(options, OffsetRange(topic, 0, 3, 25))
    )
    [line] = [each.getMessage() for each in caplog.records if topic in each.getMessage()]
    head, _, seconds = line.rpartition(", ")
    assert head == f"{topic} [0] from offset 3 to 25: 22 rows, {size} bytes"
    assert seconds.endswith(" s")
    assert float(seconds[:-2]) >= 0


@pytest.mark.parametrize("target", ["", "dead-letters"])
def test_records_that_do_not_decode_count_apart(
    cluster: MockCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture, target: str
) -> None:
    topic = filled(cluster, '{"n": 1}', "broken", '{"n": 3}', '{"n": "x"}')
    kind = StructType([StructField("n", IntegerType())])
    options = {"value.format": "json", "value.schema": kind.json(), "mode": "DROPMALFORMED"}
    if target:
        options["deadLetters"] = str(tmp_path / target)
    source = KafkaNativeDataSource(source_options(cluster.bootstrap_servers, topic, **options))
    schema = source.schema()
    assert isinstance(schema, StructType)
    rows = sum(
        each.num_rows
        for each in source.reader(schema).read(OffsetRange(topic, 0, 0, 4))  # type: ignore[union-attr]
    )
    assert rows == 2
    assert f"{topic} [0] from offset 0 to 4: 2 rows, " in caplog.text
    assert ", 2 records that don't decode" in caplog.text


def test_later_attempt_shows_in_the_line() -> None:
    assert str(report_of(attempt=2)) == (
        "a [0] from offset 0 to 9: 8 rows, 100 bytes, 0.500 s, attempt 3"
    )


def test_stream_writes_its_reports_beside_the_checkpoint(
    cluster: MockCluster, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = filled(cluster, *"abcdef")
    options = source_options(
        cluster.bootstrap_servers, topic, taskReports="true", checkpointLocation=str(checkpoint)
    )
    parsed = SourceOptions.parse(options)
    running(monkeypatch, 1, "7")
    for piece in (OffsetRange(topic, 0, 0, 2), OffsetRange(topic, 0, 2, 6, split=1)):
        list(range_reader.read_range(parsed, piece))
    state = KeptState(checkpoint)
    found = sorted(reports_of(state, 7), key=lambda each: each.start)
    assert [(each.start, each.end, each.rows) for each in found] == [(0, 2, 2), (2, 6, 4)]
    assert {(each.attempt, each.batch_id) for each in found} == {(1, 7)}
    assert min(each.bytes for each in found) > 0
    running(monkeypatch, 0, "11")  # its file replaces the one of batch 7
    list(range_reader.read_range(parsed, OffsetRange(topic, 0, 0, 2)))
    assert [each.split for each in reports_of(state, 7)] == [1]
    assert [each.attempt for each in reports_of(state, 11)] == [0]


@pytest.mark.parametrize(("given", "batch_id"), [("false", "7"), ("true", None)])
def test_without_the_option_or_a_stream_there_is_no_file(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, given: str, batch_id: str | None
) -> None:
    options = source_options("nowhere:9092", "a", taskReports=given, checkpointLocation=checkpoint)
    running(monkeypatch, 0, batch_id)
    number = None if batch_id is None else int(batch_id)
    send(report_of(batch_id=number), SourceOptions.parse(options))
    assert not (checkpoint / "kafka_native").exists()


@pytest.mark.parametrize("fault", ["a file in place of the folder", "no metadata"])
def test_report_that_can_not_be_written_is_a_warning(
    checkpoint: Path, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    if fault == "no metadata":  # an executor that doesn't see the driver's folder
        (checkpoint / "metadata").unlink()
    else:
        (checkpoint / "kafka_native").write_text(fault)
    options = source_options("nowhere:9092", "a", taskReports="true", checkpointLocation=checkpoint)
    send(report_of(batch_id=1), SourceOptions.parse(options))
    assert "the report of a task can't be written" in caplog.text


def test_worker_without_settings_shows_the_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = logging.getLogger("kafka_native.spark.of_a_worker")
    monkeypatch.setattr(own, "propagate", False)  # pytest has handlers above
    monkeypatch.setattr(own, "handlers", [])
    own.setLevel(logging.WARNING)
    monkeypatch.setattr(task_reports, "logger", own)
    options = SourceOptions.parse(source_options("nowhere:9092", "a", taskReports="true"))
    send(report_of(), options)
    assert capsys.readouterr().err == ""  # this process isn't a task
    running(monkeypatch, 0, None)
    for _ in range(2):
        send(report_of(), options)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("INFO kafka_native.spark.of_a_worker: " + str(report_of()))


def test_a_task_of_a_sink_is_one_line(
    cluster: MockCluster,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = filled(cluster)
    batches = [pa.RecordBatch.from_pydict({"value": ["a", "bc"]}) for _ in range(3)]
    size = sum(each.get_total_buffer_size() for each in batches)
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": topic}
    for options in (given, {**given, "taskReports": "true"}):
        for attempt, batch_id in ((0, None), (1, "7")):
            running(monkeypatch, attempt, batch_id)
            assert write_rows(borrowed, batches, SinkOptions.parse(options)) == 6
    lines = [each.getMessage() for each in caplog.records if "rows written" in each.getMessage()]
    heads = [re.sub(r"[0-9.]+ s", "S", each) for each in lines]
    first = f"partition 3 of the frame: 6 rows written, {size} bytes, S"
    assert heads == 2 * [first, f"batch 7, {first}, attempt 2"]
