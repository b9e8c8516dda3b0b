"""A command that can't work says so in one line, before it starts Spark if it can."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

from kafka_native.mock import MockCluster
from kafka_native.spark.commands import cli, common
from kafka_native.spark.pipelines.session import cause_of

JVM = """\
26/11/28 04:47:25 ERROR MicroBatchExecution: Query terminated with error
org.apache.spark.SparkException: Failed when Python performs initialOffset: Traceback (most recent
Traceback (most recent call last):
  File "/x/python_streaming_source_runner.py", line 267, in main
    initial_offset_func(reader, outfile)
    ^^^^^^^^^^^^^^^^^^^^
kafka_native.spark.errors.DataLossError: t [0]: gone
\tat org.apache.spark.sql.execution.StreamExecution.$anonfun$runStream$1(StreamExecution.scala:341)
\tat java.base/java.lang.Thread.run(Thread.java:840)
\t... 12 more
"""


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1, auto_create_topics=False) as running:
        yield running


@pytest.fixture
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise AssertionError("Spark must not start")

    monkeypatch.setattr(common, "spark_session", refuse)


@pytest.mark.usefixtures("_no_spark")
@pytest.mark.parametrize(
    "command",
    [
        ["archive", "--lake", "lake"],
        ["archive", "--table", "delta:table"],
        ["mirror", "--to", "eu.{topic}", "--checkpoint", "checkpoint"],
        ["snapshot", "--output", "table"],
        ["profile"],
    ],
)
def test_wrong_topic_is_one_line_without_spark(
    cluster: MockCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    where = ["--bootstrap", cluster.bootstrap_servers, "--topics", "nope"]
    result = CliRunner().invoke(cli, [*command, *where])
    assert result.exit_code == 1
    assert result.output.splitlines()[-1] == "Error: topic nope doesn't exist on this cluster"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("_no_spark")
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "write either --lake or --table"),
        (["--lake", "a", "--table", "delta:b"], "write either --lake or --table"),
        (["--lake", "a", "--partition-by", "day"], "are for a --table"),
        (["--lake", "a", "--table-option", "a=b"], "are for a --table"),
        (["--table", "orders"], "table 'orders': write delta:URI or iceberg:CATALOG/ns.table"),
        (["--table", "delta:t", "--partition-by", "key"], "partition by 'key': write topic, day"),
        (["--table", "iceberg:ns.t"], "table 'iceberg:ns.t': write delta:URI or iceberg:CATALOG"),
        (["--table", "iceberg:c/ns.t"], "need pyiceberg: pip install 'kafka-native[iceberg]'"),
        (["--table", "delta:t"], "Delta tables need deltalake: pip install 'kafka-native[delta]'"),
    ],
)
def test_wrong_target_of_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], error: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("deltalake", "pyiceberg"):
        monkeypatch.setitem(sys.modules, name, None if "pip" in error else ModuleType("x"))
    where = ["--bootstrap", "localhost:1", "--topics", "t"]
    result = CliRunner().invoke(cli, ["archive", *where, *arguments])
    assert result.exit_code in (1, 2)
    assert error in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "write either --lake or --table"),
        (["--table", "delta:t"], "there is no table t: archive makes one"),
        (["--table", "delta:t", "--dry-run"], "--dry-run is for a --lake"),
    ],
)
def test_wrong_target_of_maintain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], error: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["maintain", *arguments])
    assert result.exit_code in (1, 2)
    assert error in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-15 00:13:20+02:00", 1_700_000_000_000),
        ("2023-11-14", 1_699_920_000_000),
    ],
)
def test_times_are_milliseconds_or_iso_8601(text: str, ms: int) -> None:
    found: list[int] = []

    @click.command()
    @common.time_options
    def command(start_time: int, end_time: int | None) -> None:
        found.append(start_time)
        assert end_time is None

    assert CliRunner().invoke(command, ["--start-time", text]).exit_code == 0
    assert found == [ms]
    result = CliRunner().invoke(command, ["--end-time", "soon"])
    assert "write milliseconds since 1970, or a time such as" in " ".join(result.output.split())


def test_stack_frames_of_java_and_python_are_left_out() -> None:
    kept = [line for line in JVM.splitlines() if not common.is_stack_frame(line)]
    assert [line.partition(":")[0] for line in kept] == [
        "26/11/28 04",
        "org.apache.spark.SparkException",
        "kafka_native.spark.errors.DataLossError",
    ]


def test_error_of_kafka_is_its_text_alone() -> None:
    text = 'a.b.StaleMetadataError: KafkaError{code=X,val=3,str="topic nope doesn\'t exist"}\n'
    assert cause_of(RuntimeError(f"{JVM}\n{text}")) == "topic nope doesn't exist"
