"""kill -9 of an archive with decoded values and dead letters: each record is there exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kafka_native import Producer
from kafka_native.mock import MockCluster
from kafka_native.spark import range_reader
from kafka_native.spark.pipelines import Lake, archive
from tests.spark.killing import CLUSTER, closed_gate, running
from tests.spark.test_killed import (
    FIRST,
    HELD,
    PARTITIONS,
    RECORDS,
    archive_command,
    conf,
    half_staged,
    hold_fetch,
    with_topic,
)

pytestmark = pytest.mark.slow

SCHEMA = '"string"'
BAD = 7
"""So many records come from one that doesn't decode to the next one."""


@pytest.fixture
def source() -> Iterator[MockCluster]:
    yield from with_topic(range_reader.close_idle)


def value(partition: int, number: int) -> bytes:
    """Return Avro's form of a string without framing, or bytes that are none."""
    text = f"{partition}-{number:03}".encode()
    return b"\xff" + text if number % BAD == 0 else bytes([2 * len(text)]) + text


def fill(cluster: MockCluster, start: int, end: int) -> None:
    """Produce in batches of ten, so that tasks get a part and wait for the next one."""
    with Producer({**conf(cluster), "batch.num.messages": 10, "linger.ms": 1000}) as producer:
        for partition in range(PARTITIONS):
            for number in range(start, end):
                producer.produce("t", value(partition, number), None, partition, timestamp=1)


def typed_command(source: MockCluster, lake: Lake, dead: Path) -> list[object]:
    typed = ["--value-format", "avro", "--value-schema", SCHEMA, "--dead-letters", dead]
    return [*archive_command(source, lake), *typed]


def run_again(
    source: MockCluster, lake: Lake, dead: Path, session: SparkSession, **more: str
) -> None:
    options = {"value.format": "avro", "value.schema": SCHEMA, "deadLetters": str(dead), **more}
    archive(conf(source), lake, topics=["t"], session=session, options=options)


def assert_once(lake: Lake, dead: Path) -> None:
    """Check that each record is either a row or a dead letter, and that the manifests count so."""
    rows = lake.dataset().to_table(["partition", "offset", "value"]).to_pylist()
    letters = pq.read_table(dead, columns=["partition", "offset", "value"]).to_pylist()
    good = {(row["partition"], row["offset"]): row["value"] for row in rows}
    bad = {(row["partition"], row["offset"]): row["value"] for row in letters}
    places = [(partition, n) for partition in range(PARTITIONS) for n in range(RECORDS)]
    assert sorted([*good, *bad]) == places
    assert (len(rows), len(letters)) == (len(good), len(bad))
    assert all(number % BAD == 0 and bad[p, number] == value(p, number) for p, number in bad)
    assert all(good[p, number] == f"{p}-{number:03}" for p, number in good)
    assert sum(each.left_out for each in lake.manifests()) == len(bad)
    assert lake.gaps() == []


def test_archive_whose_driver_is_killed(
    source: MockCluster, spark: SparkSession, tmp_path: Path
) -> None:
    lake, dead = Lake(tmp_path / "lake"), tmp_path / "dead"
    fill(source, 0, FIRST)
    run_again(source, lake, dead, spark)
    fill(source, FIRST, RECORDS)
    assert HELD % BAD
    with closed_gate() as gate:
        hold_fetch(source, gate)
        with running(tmp_path / "out", "local[2]", *typed_command(source, lake, dead)) as command:
            command.wait_until(lambda: bool(gate.port) and half_staged(lake), "half a batch")
            command.kill()
    assert lake.dataset().count_rows() == sum(n % BAD > 0 for n in range(FIRST)) * PARTITIONS
    before = {path.name for path in dead.glob("*.parquet")}
    run_again(source, lake, dead, spark, minPartitions="7")  # other tasks than those of the batch
    assert before - {path.name for path in dead.glob("*.parquet")}, "a file was replaced by others"
    assert_once(lake, dead)


def test_archive_whose_executor_is_killed(source: MockCluster, tmp_path: Path) -> None:
    lake, dead = Lake(tmp_path / "lake"), tmp_path / "dead"
    fill(source, 0, RECORDS)
    with closed_gate() as gate:
        hold_fetch(source, gate)
        with running(tmp_path / "out", CLUSTER, *typed_command(source, lake, dead)) as command:
            command.wait_until(lambda: bool(gate.port) and half_staged(lake), "half a batch")
            command.kill_executor(gate.port)
            gate.open()
            command.wait_for_success()
            assert "dead letters in" in command.output()
    assert_once(lake, dead)
