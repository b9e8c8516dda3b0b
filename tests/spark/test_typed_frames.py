"""Typed columns in Spark: batch queries and streams, and Spark's own functions as witnesses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, struct, to_json

from kafka_native._native import codec_core
from kafka_native.codecs import AvroEncoder
from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import Schema, SchemaRegistryClient
from kafka_native.spark import by_partition
from tests.broker.cluster import Cluster
from tests.broker.support import TopicMaker
from tests.spark.streams import started
from tests.spark.support import HAS_LIMITS, Kafka, needs_stream_writer
from tests.spark.typed_topics import NESTED, nested_rows
from tests.waiting import WAIT_S

FLAT = {"type": "record", "name": "Reading", "fields": [
    {"name": "id", "type": "long"},
    {"name": "sensor", "type": ["null", "string"], "default": None},
    {"name": "degrees", "type": "double"},
    {"name": "count", "type": "int"},
    {"name": "ok", "type": "boolean"},
]}  # fmt: skip


def flat_rows(count: int) -> pa.Table:
    numbers = range(count)
    return pa.table({
        "id": list(numbers),
        "sensor": [None if n % 5 == 0 else f"sensor {n % 7}" for n in numbers],
        "degrees": [n / 3 for n in numbers],
        "count": pa.array([n * 7 - 50 for n in numbers], pa.int32()),
        "ok": [n % 2 == 0 for n in numbers],
    })  # fmt: skip


@pytest.fixture(scope="module")
def registry() -> Iterator[MockSchemaRegistry]:
    with MockSchemaRegistry() as running:
        yield running


def encoded(registry: MockSchemaRegistry, topic: str, schema: Any, rows: pa.Table) -> list[bytes]:
    """Register a schema, and return the rows as records with its framing."""
    with SchemaRegistryClient({"url": registry.url}) as client:
        number = client.register_schema(f"{topic}-value", Schema(json.dumps(schema)))
    encoder = AvroEncoder(schema, prefix=b"\0" + number.to_bytes(4, "big"))
    return pa.chunked_array(encoder.encode(rows)).to_pylist()


def avro_options(registry: MockSchemaRegistry, **more: str) -> dict[str, str]:
    return {"value.format": "avro", "schema.registry.url": registry.url, **more}


# --- on the mock cluster ---


def test_a_frame_has_typed_columns(kafka: Kafka, registry: MockSchemaRegistry) -> None:
    topic = kafka.topic(2)
    records = encoded(registry, topic, NESTED, nested_rows(30))
    kafka.produce(topic, ({"value": each, "partition": n % 2} for n, each in enumerate(records)))
    frame = kafka.read(topic, **avro_options(registry)).load()
    assert frame.select("value.*").count() == 30
    row = frame.where("value.id = 5").select("value.*", "offset").collect()[0].asDict(True)
    assert row["price"] == Decimal("607.26")
    assert row["on"] == date(1970, 1, 1).fromordinal(date(1970, 1, 1).toordinal() + 5 * 37 - 3000)
    assert row["at"].astimezone(timezone.utc) == datetime.fromtimestamp(5000.008, timezone.utc)
    assert (row["time"], row["millis"]) == (5_000_035, 5_035)
    assert (row["nanos"], row["color"], bytes(row["hash"])) == (5_000_000_035, "BLUE", b"005")
    assert row["lines"] == [{"sku": "s5", "tags": {"a": 5, "b": -5}}, None]
    assert row["either"] == {"member0": None, "member1": False}
    assert (row["number"], row["offset"]) == (160, 2)
    flat = kafka.read(
        topic, **avro_options(registry), columns="value.id,value.color,partition", flatten="true"
    ).load()
    assert flat.schema.simpleString() == "struct<id:bigint,color:string,partition:int>"
    found = flat.where("partition = 1 and id < 5").orderBy("id").collect()
    assert [tuple(row) for row in found] == [(1, "BLUE", 1), (3, "BLUE", 1)]


def test_bad_records_end_the_query_or_become_columns(
    kafka: Kafka, registry: MockSchemaRegistry
) -> None:
    topic = kafka.topic()
    [good] = encoded(registry, topic, FLAT, flat_rows(1))
    kafka.produce(topic, ({"value": each} for each in (good, b"bad")))
    with pytest.raises(PySparkException, match="at offset 1: its value doesn't decode"):
        kafka.read(topic, **avro_options(registry)).load().collect()
    frame = kafka.read(topic, **avro_options(registry), mode="PERMISSIVE").load()
    [row] = frame.where("_corrupt_record is not null").collect()
    assert (bytes(row["_corrupt_record"]), row.value) == (b"bad", None)
    assert "framing" in row["_corrupt_record_reason"]
    with pytest.raises(
        PySparkException, match=r"option value\.subject: the registry doesn't return"
    ):
        kafka.read(topic, **avro_options(registry), **{"value.subject": "none"}).load()


def test_a_stream_keeps_its_schema_over_a_restart(
    kafka: Kafka, registry: MockSchemaRegistry, tmp_path: Path
) -> None:
    topic = kafka.topic(2)
    checkpoint = str(tmp_path / "checkpoint")

    def run(**more: str) -> None:
        options = avro_options(registry, columns="value", flatten="true", **more)
        stream = kafka.read_stream(
            topic, **options, startingOffsets="earliest", checkpointLocation=checkpoint
        )
        writer = stream.load().writeStream.format("json").option("checkpointLocation", checkpoint)
        query = started(lambda: writer.trigger(availableNow=True).start(str(tmp_path / "files")))
        assert query.awaitTermination(WAIT_S), query.status
        assert query.exception() is None

    def produce(schema: Any, rows: pa.Table) -> None:
        kafka.produce(topic, ({"value": each} for each in encoded(registry, topic, schema, rows)))

    produce(FLAT, flat_rows(10))
    run()
    newer = {**FLAT, "fields": [*FLAT["fields"], {"name": "note", "type": "string", "default": ""}]}  # type: ignore[misc]
    rows = flat_rows(20).append_column("note", pa.array(["new"] * 20))
    produce(newer, rows.slice(10))
    run()
    found = kafka.spark.read.json(str(tmp_path / "files"))
    assert (found.count(), "note" in found.columns) == (20, False)
    produce(newer, rows.slice(0, 5))
    run(**{"value.schema.upgrade": "true"})
    found = kafka.spark.read.json(str(tmp_path / "files"))
    assert (found.count(), found.where("note = 'new'").count()) == (25, 5)
    offsets = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))
    assert set(json.loads(offsets[-1].read_text().splitlines()[-1])) == {topic}  # as the JVM's


@needs_stream_writer
def test_frames_and_streams_write_typed_columns(
    kafka: Kafka, registry: MockSchemaRegistry, tmp_path: Path
) -> None:
    topic = kafka.topic(2)
    options = {**avro_options(registry), "kafka.bootstrap.servers": kafka.bootstrap, "topic": topic}
    frame = kafka.spark.range(100).selectExpr(
        "id",
        "cast(id as string) key",
        "named_struct('at', timestamp_micros(id), 'tags', array('a', null)) inner",
        "cast(id as decimal(12,2)) price",
    )
    frame.write.format("kafka_native").options(**options).mode("append").save()
    read = kafka.read(topic, **avro_options(registry)).load().select("value.*")
    assert read.schema.simpleString() == frame.drop("key").schema.simpleString()
    assert read.exceptAll(frame.drop("key")).count() == 0
    assert read.count() == 100
    source = kafka.read_stream(
        topic, **avro_options(registry), startingOffsets="earliest", maxOffsetsPerTrigger=30
    ).load()
    writer = source.select("key", "value").writeStream.format("kafka_native")
    copy = kafka.topic(1)
    writer = writer.options(**{**options, "topic": copy}).option(
        "checkpointLocation", str(tmp_path)
    )
    query = started(lambda: writer.trigger(availableNow=True).start())
    assert query.awaitTermination(WAIT_S), query.status
    assert query.exception() is None
    assert len(query.recentProgress) >= (4 if HAS_LIMITS else 1)
    # The first micro-batch finds no version, registers a schema, and reads it. The others keep it.
    asked = [each.path for each in registry.requests if f"{copy}-value" in each.path]
    assert len(asked) == len(set(asked)), asked
    copied = kafka.read(copy, **avro_options(registry)).load().select("value.*")
    assert (copied.count(), copied.exceptAll(frame.drop("key")).count()) == (100, 0)
    with pytest.raises(PySparkException, match=r"the columns don't fit: .*extra"):
        frame.selectExpr("*", "1 extra").write.format("kafka_native").options(**options).mode(
            "append"
        ).save()


@needs_stream_writer
def test_a_stream_of_structs_without_keys_is_written_exactly_once(
    kafka: Kafka, registry: MockSchemaRegistry, tmp_path: Path
) -> None:
    topic, copy = kafka.topic(2), kafka.topic(3)
    records = encoded(registry, topic, FLAT, flat_rows(60))
    kafka.produce(topic, ({"value": each, "partition": n % 2} for n, each in enumerate(records)))
    stream = kafka.read_stream(topic, **avro_options(registry), startingOffsets="earliest").load()
    frame = by_partition(stream.select("value"), 3)
    options = {
        **avro_options(registry),
        "kafka.bootstrap.servers": kafka.bootstrap,
        "kafka.transactional.id": f"typed-{copy}",
        "topic": copy,
        "checkpointLocation": str(tmp_path),
    }
    writer = frame.writeStream.format("kafka_native").options(**options)
    query = started(lambda: writer.trigger(availableNow=True).start())
    assert query.awaitTermination(WAIT_S), query.status
    assert query.exception() is None
    committed = {"kafka.isolation.level": "read_committed"}
    copied = kafka.read(copy, **avro_options(registry), **committed).load()
    assert sorted(row.id for row in copied.select("value.id").collect()) == list(range(60))
    assert {row.partition for row in copied.select("partition").collect()} == {0, 1, 2}


# --- Spark's own connector and functions ---


def payload(frame: DataFrame) -> DataFrame:
    return frame.select(expr("substring(value, 6)").alias("value"))


@pytest.mark.broker
@pytest.mark.parametrize(("schema", "rows"), [(FLAT, flat_rows), (NESTED, nested_rows)])
def test_rows_are_those_of_from_avro(
    connected: SparkSession,
    apache: Cluster,
    new_topic: TopicMaker,
    registry: MockSchemaRegistry,
    schema: Any,
    rows: Any,
) -> None:
    from pyspark.sql.avro.functions import from_avro

    topic = new_topic(apache, 2)
    records = encoded(registry, topic, schema, rows(3000))
    kafka = real(apache)
    kafka.produce(
        topic,
        [*({"value": each, "partition": n % 2} for n, each in enumerate(records)), {"value": None}],
    )
    base = {"kafka.bootstrap.servers": apache.bootstrap, "subscribe": topic}
    theirs = connected.read.format("kafka").options(**base).load()
    # Spark refuses its type TIME, unless a setting allows it.
    theirs_schema = json.dumps(schema).replace('"logicalType": "time-micros"', '"x": ""')
    theirs = payload(theirs).select(from_avro(col("value"), theirs_schema).alias("value"))
    ours = (
        connected.read.format("kafka_native").options(**base, **avro_options(registry)).load()
    ).select("value")
    assert ours.schema.simpleString() == theirs.schema.simpleString()
    assert sorted(map(_plain, ours.collect()), key=repr) == sorted(
        map(_plain, theirs.collect()), key=repr
    )


def values_written(kafka: Kafka, frame: DataFrame, **options: str) -> list[bytes]:
    """Return the values of a frame's records, sorted, as the sink writes them."""
    topic = kafka.topic()
    sink = frame.write.format("kafka_native").options(**options).mode("append")
    sink.options(**{"kafka.bootstrap.servers": kafka.bootstrap, "topic": topic}).save()
    return sorted(bytes(row.value) for row in kafka.read(topic).load().select("value").collect())


def test_records_are_those_of_to_avro(connected: SparkSession, kafka: Kafka) -> None:
    from pyspark.sql.avro.functions import to_avro

    schema = {"type": "record", "name": "R", "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "on", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]},
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
        {"name": "tags", "type": {"type": "array", "items": ["string", "null"]}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "real", "type": ["double", "null"]},
    ]}  # fmt: skip
    frame = connected.range(500).selectExpr(
        "id",
        "cast(id / 4 - 30 as decimal(12,2)) price",
        "date_add(date'2026-01-01', cast(id as int)) on",
        "timestamp_millis(id * 1000003) at",
        "if(id % 3 = 0, null, cast(timestamp_micros(id) as timestamp_ntz)) local",
        "if(id % 2 = 0, 'RED', 'BLUE') color",
        "array('a', null, cast(id as string)) tags",
        "map('n', cast(id as int)) counts",
        "if(id % 5 = 0, null, id / 7) real",
    )
    text = json.dumps(schema)
    whole = frame.select(to_avro(struct("*"), text).alias("value"))
    theirs = sorted(bytes(row.value) for row in whole.collect())
    assert values_written(kafka, frame, **{"value.format": "avro", "value.schema": text}) == theirs


@pytest.mark.skipif(not codec_core.HAS_JSON, reason="this build has no simdjson")
def test_records_are_those_of_to_json(kafka: Kafka) -> None:
    frame = kafka.spark.range(500).selectExpr(
        "id",
        "cast(id / 4 - 30 as decimal(12,2)) price",
        "date_add(date'2026-01-01', cast(id as int)) on",
        "if(id % 3 = 0, null, concat('näme \"', id)) name",
        "array(1, null, cast(id as int)) numbers",
        "map('n', named_struct('x', id, 'y', id % 2 = 0)) inner",
        "id / 7 real",
        "cast(cast(id as string) as binary) raw",
    )
    theirs = [json.loads(row[0]) for row in frame.select(to_json(struct("*"))).collect()]
    ours = [json.loads(each) for each in values_written(kafka, frame, **{"value.format": "json"})]
    assert sorted(ours, key=repr) == sorted(theirs, key=repr)


JSON_ORDER = (
    "id BIGINT, name STRING, price DECIMAL(12,2), real DOUBLE, ok BOOLEAN, on DATE, "
    "at TIMESTAMP, tags MAP<STRING,INT>, lines ARRAY<STRUCT<sku:STRING,counts:ARRAY<INT>>>"
)
"""The type of `json_order`."""


@pytest.mark.broker
@pytest.mark.skipif(not codec_core.HAS_JSON, reason="this build has no simdjson")
def test_rows_are_those_of_from_json(
    connected: SparkSession, apache: Cluster, new_topic: TopicMaker
) -> None:
    from pyspark.sql.functions import from_json
    from pyspark.sql.types import StructType

    kind = StructType.fromDDL(JSON_ORDER)
    topic = new_topic(apache, 2)
    kafka = real(apache)
    kafka.produce(topic, ({"value": json_order(n), "partition": n % 2} for n in range(3000)))
    base = {"kafka.bootstrap.servers": apache.bootstrap, "subscribe": topic}
    theirs = connected.read.format("kafka").options(**base).load()
    theirs = theirs.select(from_json(expr("cast(value as string)"), kind).alias("value"))
    typed = {"value.format": "json", "value.schema": kind.json()}
    ours = connected.read.format("kafka_native").options(**base, **typed).load().select("value")
    assert ours.schema.simpleString() == theirs.schema.simpleString()
    assert sorted(map(_plain, ours.collect()), key=repr) == sorted(
        map(_plain, theirs.collect()), key=repr
    )


def json_order(number: int) -> bytes:
    """Return a JSON record, of which some fields may be missing or null."""
    record: dict[str, Any] = {"id": number, "name": f"näme {number}", "more": [1, {"x": None}]}
    if number % 3:
        record |= {"price": number / 4, "real": number / 7, "ok": number % 2 == 0}
    if number % 4:
        record |= {"on": f"2026-01-{number % 28 + 1:02}", "at": f"2026-01-02T03:04:05.{number:06}Z"}
    if number % 5:
        record["tags"] = {"a": number, "b": None}
        record["lines"] = [{"sku": None, "counts": [1, None, number]}, None, {}]
    return json.dumps(record, ensure_ascii=number % 2 == 0).encode()


def _plain(row: Any) -> Any:
    return row.asDict(recursive=True)


def real(apache: Cluster) -> Any:
    """Return the helpers of the tests for a real cluster."""
    return _Producing(apache.bootstrap)


class _Producing:
    """Produces to a real cluster."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def produce(self, topic: str, records: Any) -> None:
        from kafka_native import Producer

        with Producer({"bootstrap.servers": self.bootstrap}) as producer:
            for record in records:
                producer.produce(topic, **record)
            assert producer.flush(60) == 0
