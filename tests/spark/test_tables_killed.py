"""archive into tables survives kill -9: a hundred times at random, and with Spark in mid-batch."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_native import Producer
from kafka_native.mock import MockCluster
from kafka_native.spark import range_reader
from kafka_native.spark.pipelines import archive
from tests.spark.conftest import ROOT
from tests.spark.killing import CLUSTER, closed_gate, running
from tests.spark.table_driver import EACH, KINDS
from tests.spark.tables import PARTITIONS, IcebergTables, Tables, data_files, offsets
from tests.spark.test_killed import FIRST, RECORDS, conf, fill, hold_fetch
from tests.spark.test_killed import PARTITIONS as SPARK_PARTITIONS

pytestmark = pytest.mark.slow

KILLS = 100
STORED = 20_000
"""Records of each partition: more than all drivers together archive."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tables(kind: str, tmp_path: Path) -> Tables:
    return KINDS[kind](tmp_path)


@pytest.fixture
def source() -> Iterator[MockCluster]:
    with MockCluster(brokers=1, auto_create_topics=False) as cluster:
        cluster.create_topic("t", SPARK_PARTITIONS)
        cluster.create_topic("orders", PARTITIONS)
        yield cluster
        range_reader.close_idle()


# --- the driver's process, a hundred times at random ---


def command(kind: str, tables: Tables, source: MockCluster, *count: int) -> list[str]:
    where = [kind, str(tables.folder), source.bootstrap_servers, *map(str, count)]
    return [sys.executable, "-m", "tests.spark.table_driver", *where]


@pytest.mark.timeout(3600)
def test_driver_killed_a_hundred_times_loses_and_doubles_nothing(
    kind: str, tables: Tables, source: MockCluster
) -> None:
    with Producer(conf(source)) as producer:
        for number in range(STORED):
            for partition in range(PARTITIONS):
                producer.produce("orders", b"%d" % number, partition=partition)
    with started(kind, tables, source, 3) as driver:
        begun = time.monotonic()
    assert driver.returncode == 0
    span_s = time.monotonic() - begun
    moments = random.Random(kind)
    for number in range(KILLS):
        with started(kind, tables, source) as driver:
            time.sleep(moments.uniform(0, span_s))
            driver.kill()
        assert driver.returncode == -9
        if number % 10 == 0:
            check(tables)
    subprocess.run(command(kind, tables, source, 1), cwd=ROOT, check=True)
    assert check(tables) == committed(tables) > 0
    assert data_files(tables) == tables.listed(), "no file of a killed driver is left"


@contextmanager
def started(
    kind: str, tables: Tables, source: MockCluster, *count: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a driver that begins its first batch, and wait for its end."""
    line = command(kind, tables, source, *count)
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"ready\n"
        yield driver


def check(tables: Tables) -> int:
    """Check that the table has whole batches, each record once. Return how many batches."""
    found = offsets(tables.read())
    batches, rest = divmod(len(found), EACH * PARTITIONS)
    assert rest == 0, "a part of a batch is visible"
    assert found == Counter(
        ("orders", partition, offset)
        for partition in range(PARTITIONS)
        for offset in range(EACH * batches)
    )
    assert batches - committed(tables) in (0, 1)
    return batches


def committed(tables: Tables) -> int:
    return int((tables.folder / "committed").read_text())


# --- with Spark ---


def arguments(kind: str, tables: Tables, source: MockCluster) -> list[object]:
    """Return a command that writes at once, and fetches one batch at a time."""
    small = ["--row-group-rows", "10", "--config", "fetch.message.max.bytes=1"]
    where = ["--bootstrap", source.bootstrap_servers, "--topics", "t"]
    where += ["--checkpoint", str(tables.folder / "checkpoint")]
    if isinstance(tables, IcebergTables):
        options = [f"--table-option={name}={value}" for name, value in tables.options.items()]
        return ["archive", *where, *small, "--table", "iceberg:local/ns.orders", *options]
    return ["archive", *where, *small, "--table", f"delta:{tables.folder / 'table'}"]


def assert_archived_once(tables: Tables) -> None:
    assert offsets(tables.read()) == Counter(
        ("t", partition, offset)
        for partition in range(SPARK_PARTITIONS)
        for offset in range(RECORDS)
    )
    assert data_files(tables) == tables.listed()


def test_archive_whose_driver_is_killed_has_each_record_once(
    kind: str, tables: Tables, source: MockCluster, spark: SparkSession, tmp_path: Path
) -> None:
    checkpoint = str(tables.folder / "checkpoint")
    fill(source, 0, FIRST)
    archive(conf(source), tables.target(), topics=["t"], session=spark, checkpoint=checkpoint)
    done = data_files(tables)
    fill(source, FIRST, RECORDS)
    with closed_gate() as gate:
        hold_fetch(source, gate)
        with running(tmp_path / "output", "local[2]", *arguments(kind, tables, source)) as command:
            command.wait_until(
                lambda: bool(gate.port) and len(data_files(tables) - done) == SPARK_PARTITIONS,
                "half a batch",
            )
            command.kill()
    assert tables.read().num_rows == FIRST * SPARK_PARTITIONS
    again = archive(
        conf(source), tables.target(), topics=["t"], session=spark, checkpoint=checkpoint
    )
    assert again.records == SPARK_PARTITIONS * (RECORDS - FIRST)
    assert_archived_once(tables)


def test_archive_continues_after_an_executor_is_killed(
    kind: str, tables: Tables, source: MockCluster, tmp_path: Path
) -> None:
    fill(source, 0, RECORDS)
    with closed_gate() as gate:
        hold_fetch(source, gate)
        with running(tmp_path / "output", CLUSTER, *arguments(kind, tables, source)) as command:
            command.wait_until(
                lambda: bool(gate.port) and len(data_files(tables)) == SPARK_PARTITIONS,
                "half a batch",
            )
            command.kill_executor(gate.port)
            gate.open()
            command.wait_for_success()
    assert_archived_once(tables)
