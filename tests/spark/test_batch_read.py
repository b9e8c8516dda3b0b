"""Batch queries by Spark, on the mock cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from kafka_native import Uuid
from tests.spark.support import FIRST_MS, Kafka, needs_filters
from tests.waiting import PROGRAM_S


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().toString())


@pytest.mark.every_slice
def test_all_records_come_with_the_connectors_columns(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    kafka.fill(topic, 25, partition=0)
    kafka.fill(topic, 10, partition=1, start=100)
    frame = kafka.read(topic, includeHeaders="true", minPartitions=5).load()
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    assert frame.rdd.getNumPartitions() >= 5
    rows = frame.orderBy("partition", "offset").collect()
    assert [(row.partition, row.offset) for row in rows] == [(0, n) for n in range(25)] + [
        (1, n) for n in range(10)
    ]
    numbers = [*range(25), *range(100, 110)]
    assert [bytes(row.value) for row in rows] == [b"%d" % number for number in numbers]
    assert [bytes(row.key) for row in rows] == [b"key-%d" % number for number in numbers]
    assert {(row.topic, row.timestampType) for row in rows} == {(topic, 0)}
    at = [datetime.fromtimestamp(FIRST_MS / 1000 + number, tz=timezone.utc) for number in numbers]
    assert [row.timestamp.astimezone(timezone.utc) for row in rows] == at
    assert [[(each.key, bytes(each.value)) for each in row.headers] for row in rows] == [
        [("number", b"%d" % number)] for number in numbers
    ]


def test_chosen_columns_ranges_as_rows_and_topics_without_records(kafka: Kafka) -> None:
    topic = kafka.topic(2)
    frame = kafka.read(topic, columns="offset,value").load()
    assert frame.collect() == []
    kafka.fill(topic, 30)
    assert [
        tuple(row) for row in kafka.read(topic, columns="offset,value").load().limit(2).collect()
    ] == [(0, bytearray(b"0")), (1, bytearray(b"1"))]
    assert kafka.read(topic).load().count() == 30
    ranges = kafka.read(topic, rows="ranges", maxRecordsPerPartition=15).load()
    rows = sorted(
        (row.topic, row.partition, row.start_offset, row.end_offset, row.lost)
        for row in ranges.collect()
    )
    assert rows == [(topic, 0, 0, 15, None), (topic, 0, 15, 30, None)]
    assert {row.topic_id for row in ranges.collect()} == {
        str(Uuid.from_bytes(kafka.cluster.topic_id(topic)))
    }


@needs_filters
def test_filters_narrow_what_is_read(kafka: Kafka) -> None:
    topic = kafka.topic(3)
    for partition in range(3):
        kafka.fill(topic, 20, partition=partition)
    frame = kafka.read(topic, pushFilters="true").load()
    chosen = frame.where("partition in (0, 2) and offset >= 5 and offset < 8").select(
        "partition", "offset"
    )
    assert chosen.rdd.getNumPartitions() == 2
    assert sorted(map(tuple, chosen.collect())) == [(p, n) for p in (0, 2) for n in (5, 6, 7)]
    at = datetime.fromtimestamp(FIRST_MS / 1000 + 18, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    young = frame.where(f"timestamp >= '{at}' and partition = 1")
    assert [row.offset for row in young.orderBy("offset").collect()] == [18, 19]
    assert frame.where("partition = 7").collect() == []
    # the default of this setting
    kafka.spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert kafka.read(topic).load().where("partition = 1 and offset = 3").count() == 1
    finally:
        kafka.spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


@needs_filters
def test_an_upper_bound_of_timestamps_leaves_nothing_out(kafka: Kafka) -> None:
    """Older records may follow younger ones, so the first young record is not the end."""
    topic = kafka.topic()
    seconds = [0, 9, 1, 8, 2, 7, 3, 6, 4, 5]
    kafka.produce(
        topic, ({"value": b"%d" % each, "timestamp": FIRST_MS + each * 1000} for each in seconds)
    )
    frame = (
        kafka.read(topic, pushFilters="true")
        .load()
        .selectExpr("cast(cast(value as string) as int) second", "timestamp")
    )

    def found(condition: str) -> list[int]:
        rows = frame.where(
            condition.format(*(f"timestamp_millis({FIRST_MS + each * 1000})" for each in (3, 6)))
        )
        return sorted(row.second for row in rows.collect())

    assert found("timestamp < {0}") == [0, 1, 2]
    assert found("timestamp <= {0}") == [0, 1, 2, 3]
    assert found("timestamp between {0} and {1}") == [3, 4, 5, 6]
    assert found("timestamp = {1}") == [6]
    # an ending time is an offset: that of the first record that isn't older
    ending = kafka.read(topic, endingTimestamp=FIRST_MS + 8000).load()
    assert [bytes(row.value) for row in ending.orderBy("offset").collect()] == [b"0"]


def test_errors_name_the_option(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.fill(topic, 5)
    with pytest.raises(PySparkException, match="option columns: there is no column 'colour'"):
        kafka.read(topic, columns="colour").load()
    with pytest.raises(PySparkException, match="option startingOffsets: it can't be latest"):
        kafka.read(topic, startingOffsets="latest").load().collect()
    kafka.cluster.move_log_start(topic, 0, 3)
    lost = json.dumps({topic: {"0": 1}})
    with pytest.raises(PySparkException, match=rf"offsets 1 to 3 of {topic} \[0\] can't be read"):
        kafka.read(topic, startingOffsets=lost).load().collect()
    assert kafka.read(topic, startingOffsets=lost, failOnDataLoss="false").load().count() == 2


def test_secrets_are_in_no_plan_and_no_error(
    kafka: Kafka, capfd: pytest.CaptureFixture[str]
) -> None:
    topic = kafka.topic()
    kafka.fill(topic, 5)
    secrets = {"kafka.ssl.key.password": "s3cret-1", "kafka.ssl.keystore.password": "s3cret-2"}
    frame = kafka.read(topic, **secrets).load()
    frame.explain("extended")
    shown = plan_of(frame) + repr(frame)
    kafka.cluster.move_log_start(topic, 0, 3)
    failing = kafka.read(topic, startingOffsets=json.dumps({topic: {"0": 1}}), **secrets).load()
    with pytest.raises(PySparkException) as raised:
        failing.collect()
    with pytest.raises(PySparkException) as refused:
        kafka.read(topic, **{"kafka.sasl.jaas.config": "s3cret-3"}).load()
    sasl = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
    with pytest.raises(PySparkException) as unsupported:  # PLAIN needs a user too
        kafka.read(topic, **sasl, **{"kafka.sasl.password": "s3cret-4"}).load().collect()
    out, err = capfd.readouterr()
    for text in (shown, str(raised.value), str(refused.value), str(unsupported.value), out, err):
        assert "s3cret" not in text
    assert "can't be read" in str(raised.value)


PROGRAM = """
import sys
from tests.spark.conftest import make_session
session = make_session("local-cluster[2,1,1024]", spark_executor_memory="512m")
try:
    frame = session.read.format("kafka_native").option("kafka.bootstrap.servers", sys.argv[1])
    frame = frame.option("subscribe", sys.argv[2]).option("minPartitions", "4").load()
    row = frame.selectExpr("count(*) as n", "sum(cast(cast(value as string) as bigint)) as s").collect()[0]
    print("FOUND", row.n, row.s)
finally:
    session.stop()
"""


@pytest.mark.slow
def test_executors_of_a_cluster_read(kafka: Kafka, tmp_path: Path) -> None:
    """Executors are separate processes here, with their own workers."""
    topic = kafka.topic(2)
    for partition in range(2):
        kafka.fill(topic, 500, partition=partition)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program), kafka.bootstrap, topic],
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_S,
        cwd=tmp_path,
    )
    assert f"FOUND 1000 {sum(range(500)) * 2}" in done.stdout, (
        done.stdout[-2000:] + done.stderr[-4000:]
    )


def test_sql_reads_a_temporary_view_and_refuses_a_table(kafka: Kafka) -> None:
    topic = kafka.topic()
    kafka.fill(topic, 5)
    given = ", ".join(f"`{name}` '{value}'" for name, value in kafka.options(topic).items())
    kafka.spark.sql(f"CREATE TEMPORARY VIEW readings USING kafka_native OPTIONS ({given})")
    try:
        rows = kafka.spark.sql("SELECT string(value) FROM readings WHERE offset > 2").collect()
        assert sorted(row[0] for row in rows) == ["3", "4"]
    finally:
        kafka.spark.catalog.dropTempView("readings")
    with pytest.raises(PySparkException, match="write CREATE TEMPORARY VIEW name USING"):
        kafka.spark.sql(f"CREATE TABLE readings USING kafka_native OPTIONS ({given})")
