"""Spark reads the tables of archive: Iceberg and Delta, raw and typed, also after maintain."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from kafka_native.mock import MockCluster
from kafka_native.spark import range_reader
from kafka_native.spark.pipelines import maintain
from tests.spark import spark_tables
from tests.spark.lakes import DAY_MS, NOON_MS
from tests.spark.tables import PARTITIONS, DeltaTables, IcebergTables, Tables, frame, run_of
from tests.spark.test_tables import EACH, RECORDS, fill
from tests.spark.test_typed_archive import NEWER, NEWER_ORDERS, VALUES, Topic, orders  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_consumer_left")]

KINDS: dict[str, type[Tables]] = {"delta": DeltaTables, "iceberg": IcebergTables}


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    if why := spark_tables.missing():
        pytest.skip(why)
    return str(request.param)


@pytest.fixture
def filled() -> Iterator[MockCluster]:
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("orders", partitions=PARTITIONS)
        fill(cluster, RECORDS)
        yield cluster
    range_reader.close_idle()


def stamp(number: int) -> int:
    """Return the timestamp of a record of `fill`."""
    return NOON_MS + number + number % 2 * DAY_MS


def row(number: int) -> dict[str, Any]:
    """Return a record of `fill` as a row of the table."""
    return {
        "topic": "orders",
        "partition": number % PARTITIONS,
        "offset": number // PARTITIONS,
        "timestamp": datetime.fromtimestamp(stamp(number) / 1000, timezone.utc),
        "timestamp_type": 0,
        "key": None if number % 3 == 0 else b"k%d" % number,
        "value": None if number % 7 == 0 else b"v%d" % number,
        "headers": [{"key": "h", "value": b"%d" % number}] if number % 5 == 0 else None,
    }


def test_raw_records(kind: str, filled: MockCluster, tmp_path: Path) -> None:
    target = KINDS[kind](tmp_path).target
    run = run_of(target(partition_by=["topic", "day"]), filled.bootstrap_servers)
    for number, start in enumerate(range(0, EACH, 20)):
        run.commit(frame(start, start + 20), number)
    at = datetime.fromtimestamp((NOON_MS + DAY_MS) / 1000, timezone.utc)
    columns, order = ", ".join(row(0)), "ORDER BY offset, partition"
    queries = [
        f"SELECT {columns} FROM {{table}} {order}",
        f"SELECT offset FROM {{table}} WHERE partition = 1 AND offset >= 90 {order}",
        f"SELECT {columns} FROM {{table}} WHERE timestamp >= TIMESTAMP'{at:%F %T}Z' {order}",
        "SELECT topic, count(*) AS rows, max(offset) AS last FROM {table} GROUP BY topic",
    ]

    def check() -> None:
        whole, late, second_day, counted = spark_tables.read_by_spark(kind, tmp_path, *queries)
        assert whole.to_pylist() == [row(number) for number in range(RECORDS)]
        assert late["offset"].to_pylist() == list(range(90, EACH))
        assert second_day.to_pylist() == [row(number) for number in range(1, RECORDS, 2)]
        assert counted.to_pylist() == [{"topic": "orders", "rows": RECORDS, "last": EACH - 1}]

    check()
    assert maintain(target(), before="2100-01-01").merged > PARTITIONS
    check()


def test_typed_records(kind: str, orders: Topic, tmp_path: Path) -> None:  # noqa: F811
    """The files from before a field was added have nulls in its place."""
    target = KINDS[kind](tmp_path).target
    orders.archive(target(partition_by=["topic", "day"]), 0, 0, 2)  # type: ignore[arg-type]
    orders.archive(target(), 1, 2, 3)  # type: ignore[arg-type]
    orders.produce(*orders.encode(NEWER, NEWER_ORDERS))
    orders.archive(target(), 2, 3, 5)  # type: ignore[arg-type]
    older = [{**each, "note": None} for each in VALUES]
    newer = [{**each, "note": note} for each, note in zip(VALUES, "xy", strict=True)]
    queries = [
        "SELECT value FROM {table} ORDER BY offset",
        "SELECT offset FROM {table} WHERE value.note = 'y'",
        "SELECT offset, value.id AS id FROM {table} WHERE value.note IS NULL ORDER BY offset",
    ]

    assert maintain(target(), before="2100-01-01").merged >= 2
    values, noted, older_ones = spark_tables.read_by_spark(kind, tmp_path, *queries)
    assert values["value"].to_pylist() == [*older, None, *newer]
    assert noted["offset"].to_pylist() == [4]
    ids = [each["id"] for each in VALUES]
    assert older_ones["offset"].to_pylist() == [0, 1, 2]
    assert older_ones["id"].to_pylist() == [*ids, None]
