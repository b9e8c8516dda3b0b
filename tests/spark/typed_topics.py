"""Topics of typed columns without a JVM: what tasks of sources read, and those of sinks write."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from kafka_native.mock import MockCluster
from kafka_native.spark import KafkaNativeDataSource, range_reader
from kafka_native.spark.column_types import arrow_type, spark_column
from kafka_native.spark.ranges import OffsetRange
from kafka_native.spark.writers import BatchWriter, batch_writer
from tests.spark.support import source_options

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": ["null", "string"], "default": None},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "sku", "type": "string"}, {"name": "count", "type": "int"}]}}},
    ],
}  # fmt: skip
LINE = pa.struct([("sku", pa.string()), ("count", pa.int32())])
ORDERS = pa.table(
    {
        "id": [1, 2],
        "customer": ["ann", None],
        "lines": pa.array([[{"sku": "a", "count": 3}], []], pa.list_(LINE)),
    }
)
NESTED = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
    {"name": "on", "type": {"type": "int", "logicalType": "date"}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "seen", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
    {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
    {"name": "time", "type": {"type": "long", "logicalType": "time-micros"}},
    {"name": "millis", "type": {"type": "int", "logicalType": "time-millis"}},
    {"name": "nanos", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
    {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
    {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
    {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 3}},
    {"name": "raw", "type": "bytes"},
    {"name": "lines", "type": {"type": "array", "items": ["null", {
        "type": "record", "name": "Line", "fields": [
            {"name": "sku", "type": "string"},
            {"name": "tags", "type": {"type": "map", "values": "int"}}]}]}},
    {"name": "either", "type": ["null", "string", "boolean"]},
    {"name": "number", "type": ["int", "long"]},
]}  # fmt: skip


def nested_rows(count: int) -> pa.Table:
    numbers = range(count)
    line = pa.struct([("sku", pa.string()), ("tags", pa.map_(pa.string(), pa.int32()))])
    lines = [[{"sku": f"s{n}", "tags": [("a", n), ("b", -n)]}, None][: n % 3] for n in numbers]
    either = [
        [None, {"string": f"e{n}", "boolean": None}, {"string": None, "boolean": n % 2 == 0}][n % 3]
        for n in numbers
    ]
    union = pa.UnionArray.from_dense(
        pa.array([[0, 1, 2][n % 3] for n in numbers], pa.int8()),
        pa.array([n // 3 for n in numbers], pa.int32()),
        [
            pa.nulls(len(numbers[0::3])),
            pa.array([f"e{n}" for n in numbers[1::3]]),
            pa.array([n % 2 == 0 for n in numbers[2::3]]),
        ],
        ["null", "string", "boolean"],
    )
    assert len(either) == len(union)
    micros = [n * 86_400_123_457 for n in numbers]
    return pa.table({
        "id": list(numbers),
        "price": pa.array([Decimal(n * 12_345 - 999) / 100 for n in numbers], pa.decimal128(12, 2)),
        "on": pa.array([n * 37 - 3000 for n in numbers], pa.int32()).cast(pa.date32()),
        "at": pa.array([n * 1_000_003 - 7 for n in numbers], pa.timestamp("ms", "UTC")),
        "seen": pa.array([None if n % 4 == 0 else micros[n] for n in numbers], pa.timestamp("us", "UTC")),
        "local": pa.array(micros, pa.timestamp("us")),
        "time": pa.array([n * 1_000_007 for n in numbers], pa.time64("us")),
        "millis": pa.array([n * 1_007 for n in numbers], pa.time32("ms")),
        "nanos": pa.array([n * 1_000_000_007 for n in numbers], pa.timestamp("ns", "UTC")),
        "uuid": [f"0123{n:04d}-89ab-cdef-0123-456789abcdef" for n in numbers],
        "color": [["RED", "BLUE"][n % 2] for n in numbers],
        "hash": pa.array([b"%03d" % (n % 1000) for n in numbers], pa.binary(3)),
        "raw": [b"\x00\xff" * (n % 4) for n in numbers],
        "lines": pa.array(lines, pa.list_(line)),
        "either": union,
        "number": pa.array([n << (n % 40) for n in numbers], pa.int64()),
    })  # fmt: skip


def source(cluster: MockCluster, topic: str, **more: Any) -> KafkaNativeDataSource:
    """Return a source. An option's name has underscores in place of dots."""
    options = source_options(
        cluster.bootstrap_servers,
        topic,
        **{name.replace("_", "."): value for name, value in more.items()},
    )
    return KafkaNativeDataSource(CaseInsensitiveDict(options))


def read(made: KafkaNativeDataSource, end: int, start: int = 0) -> list[dict[str, Any]]:
    """Return the rows of a task, which has pickled options as in Spark."""
    kind = made.schema()
    made = pickle.loads(CloudPickleSerializer().dumps(made))
    options = made._parsed()
    topic = options.subscription.topics[0]
    rows: list[dict[str, Any]] = []
    for batch in range_reader.read_rows(options, OffsetRange(topic, 0, start, end)):
        if isinstance(kind, StructType):
            assert batch.schema == pa.schema(list(arrow_type(kind)))
        rows += batch.to_pylist()
    return rows


def sink_options(cluster: MockCluster, topic: str, **more: Any) -> dict[str, str]:
    """Return the options of a sink. An option's name has underscores in place of dots."""
    options = {name.replace("_", "."): str(value) for name, value in more.items()}
    return options | {"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": topic}


def spark_type(schema: pa.Schema) -> StructType:
    """Return Spark's type of a frame with these columns."""
    kind = spark_column(pa.struct(list(schema))).spark
    assert isinstance(kind, StructType)
    return kind


def task_writer(cluster: MockCluster, topic: str, schema: pa.Schema, **more: Any) -> BatchWriter:
    """Return the writer of a task, with pickled options as in Spark."""
    options = CaseInsensitiveDict(sink_options(cluster, topic, **more))
    writer = batch_writer(options, spark_type(schema), False)
    made: BatchWriter = pickle.loads(CloudPickleSerializer().dumps(writer))
    return made


def write(cluster: MockCluster, topic: str, rows: pa.Table, **more: Any) -> int:
    """Write rows as a task. Return how many were acknowledged."""
    return task_writer(cluster, topic, rows.schema, **more).write(iter(rows.to_batches())).rows
