"""Topics of typed columns without a JVM: what tasks of sources read, and those of sinks write."""

from __future__ import annotations

import pickle
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
