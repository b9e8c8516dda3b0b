"""The scenarios, the same code for both formats: a job changes one word to switch."""

from __future__ import annotations

import time
from collections.abc import Callable
from json import dumps
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from pyspark.sql.types import DoubleType, StringType, StructField, StructType

from bench.spark import AVRO_SCHEMA, FIELDS, Work

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FORMATS = {"jvm": "kafka", "frames": "kafka_native"}
WAIT_S = 600
POLL_S = 0.05
PARTS = ("triggerExecution", "addBatch", "walCommit", "commitOffsets", "latestOffset")
# Options of a producer for throughput, the same for Spark's connector and ours.
TUNED = {"kafka.compression.type": "lz4", "kafka.linger.ms": "20", "kafka.batch.size": "262144"}
GENERATORS = 4

Outcome = tuple[int, dict[str, float]]


def source(
    spark: SparkSession, contestant: str, work: Work, stream: bool = False, **more: str
) -> DataFrame:
    """Open the topic as a DataFrame, from its beginning."""
    reader = (spark.readStream if stream else spark.read).format(FORMATS[contestant])
    options = {
        "kafka.bootstrap.servers": work.bootstrap,
        "subscribe": work.source,
        "startingOffsets": "earliest",
    }
    return reader.options(**options, **more).load()


def read(spark: SparkSession, contestant: str, work: Work) -> Outcome:
    """Read the whole topic into one row of sums."""
    sums = ("count(1)", "sum(length(value))", "sum(length(key))", "max(offset)", "max(timestamp)")
    row = source(spark, contestant, work).selectExpr(*sums).collect()[0]
    if row[1] != row[0] * work.size:
        raise RuntimeError(
            f"{row[0]} values of {row[1]} bytes together, {work.size} each were produced"
        )
    return row[0], {}


def parquet(spark: SparkSession, contestant: str, work: Work) -> Outcome:
    """Write all columns to Parquet files."""
    source(spark, contestant, work).write.parquet(f"{work.folder}/table")
    return rows_of(work), {}


def json(spark: SparkSession, contestant: str, work: Work) -> Outcome:
    """Decode JSON values, and read all their fields into one row of sums."""
    if contestant != "jvm":
        return fields(source(spark, contestant, work, columns="value", **json_options()), work)
    return fields(source(spark, contestant, work).select(json_value()), work)


def avro(spark: SparkSession, contestant: str, work: Work) -> Outcome:
    """Decode Avro values, and read all their fields into one row of sums."""
    if contestant != "jvm":
        return fields(source(spark, contestant, work, columns="value", **avro_options()), work)
    return fields(source(spark, contestant, work).select(avro_value()), work)


def json_kind() -> StructType:
    """The type of JSON values."""
    kind = StructType([StructField(name, StringType()) for name in FIELDS])
    return kind.add("price", DoubleType())


def json_options() -> dict[str, str]:
    """The options with which our source decodes JSON values."""
    return {"value.format": "json", "value.schema": json_kind().json(), "mode": "FAILFAST"}


def avro_options() -> dict[str, str]:
    """The options with which our source decodes Avro values."""
    return {"value.format": "avro", "value.schema": dumps(AVRO_SCHEMA)}


def json_value() -> Column:
    """The column ``value``, decoded by Spark's function."""
    from pyspark.sql.functions import expr, from_json

    return from_json(expr("cast(value as string)"), json_kind()).alias("value")


def avro_value() -> Column:
    """The column ``value``, decoded by Spark's function."""
    from pyspark.sql.avro.functions import from_avro

    return from_avro("value", dumps(AVRO_SCHEMA)).alias("value")


def fields(frame: DataFrame, work: Work) -> Outcome:
    """Read all fields of the column ``value`` into one row of sums."""
    sums = [f"sum(length(value.{name}))" for name in FIELDS]
    row = frame.selectExpr(
        "count(value)", "count(value.price)", "sum(value.price)", *sums
    ).collect()[0]
    if row[0] != row[1]:
        raise RuntimeError(f"{row[0]} records have {row[1]} prices")
    return row[0], {}


def write(spark: SparkSession, contestant: str, work: Work, **more: str) -> Outcome:
    """Write generated rows with key and value to a topic, with each format's default producer."""
    rows = spark.range(0, work.count, 1, GENERATORS)
    number = "lpad(cast(id as string), 20, '0')"
    rows = rows.selectExpr(
        f"cast({number} as binary) key", f"cast(rpad({number}, {work.size}, 'x') as binary) value"
    )
    writer = (
        rows.write.format(FORMATS[contestant])
        .mode("append")
        .option("kafka.bootstrap.servers", work.bootstrap)
    )
    writer.options(**more).option("topic", work.target).save()
    return work.count, {}


def tuned(spark: SparkSession, contestant: str, work: Work) -> Outcome:
    """Like `write`, with a producer for throughput."""
    return write(spark, contestant, work, **TUNED)


def stream(spark: SparkSession, contestant: str, work: Work) -> Outcome:
    """Stream all records to Parquet files, with a checkpoint."""
    return to_parquet(source(spark, contestant, work, stream=True), work)


def to_parquet(frame: DataFrame, work: Work) -> Outcome:
    """Stream a frame to Parquet files, with a checkpoint."""
    writer = frame.writeStream.format("parquet")
    writer = writer.option("checkpointLocation", f"{work.folder}/checkpoint").trigger(
        availableNow=True
    )
    finish(writer.start(f"{work.folder}/table"))
    return rows_of(work), {}


def archive(spark: SparkSession, contestant: str, work: Work) -> Outcome:
    """Copy the topic to Parquet files. With the connector it is a stream."""
    if contestant != "direct":
        return stream(spark, contestant, work)
    from bench.spark import direct

    direct.archive(spark, work)
    return rows_of(work), {}


def archive_avro(spark: SparkSession, contestant: str, work: Work) -> Outcome:
    """Copy the topic to Parquet files whose values are decoded from Avro."""
    if contestant != "direct":
        return typed_stream(spark, contestant, work, avro_value())
    from bench.spark import direct

    direct.archive(spark, work, **avro_options())
    return rows_of(work), {}


def archive_json(spark: SparkSession, contestant: str, work: Work) -> Outcome:
    """Copy the topic to Parquet files whose values are decoded from JSON."""
    if contestant != "direct":
        return typed_stream(spark, contestant, work, json_value())
    from bench.spark import direct

    direct.archive(spark, work, **json_options())
    return rows_of(work), {}


def typed_stream(spark: SparkSession, contestant: str, work: Work, value: Column) -> Outcome:
    """Stream all records to Parquet files, with another column ``value``."""
    frame = source(spark, contestant, work, stream=True)
    others = [name for name in frame.columns if name != "value"]
    return to_parquet(frame.select(*others, value), work)


def mirror(spark: SparkSession, contestant: str, work: Work) -> Outcome:
    """Copy all records to another topic."""
    if contestant == "direct":
        from bench.spark import direct

        direct.mirror(spark, work)
        return work.count, {}
    writer = to_topic(
        source(spark, contestant, work, stream=True, includeHeaders="true"), contestant, work
    )
    finish(writer.option("kafka.compression.type", work.codec).trigger(availableNow=True).start())
    return work.count, {}


def to_topic(frame: DataFrame, contestant: str, work: Work) -> DataStreamWriter:
    """Make a stream to the target, without starting it."""
    columns = ["key", "value", "partition", *(["headers"] if "headers" in frame.columns else [])]
    writer = (
        frame.selectExpr(*columns)
        .writeStream.format(FORMATS[contestant])
        .option("kafka.bootstrap.servers", work.bootstrap)
    )
    return writer.option("topic", work.target).option(
        "checkpointLocation", f"{work.folder}/checkpoint"
    )


def trigger(spark: SparkSession, contestant: str, work: Work) -> Outcome:
    """Run small micro-batches one after the other, and drop their rows."""
    frame = source(spark, contestant, work, stream=True, maxOffsetsPerTrigger=str(work.step))
    writer = frame.writeStream.format("noop").option(
        "checkpointLocation", f"{work.folder}/checkpoint"
    )
    return triggers(writer, work)


def to_kafka(spark: SparkSession, contestant: str, work: Work) -> Outcome:
    """Run small micro-batches one after the other, from topic to topic."""
    frame = source(spark, contestant, work, stream=True, maxOffsetsPerTrigger=str(work.step))
    return triggers(to_topic(frame, contestant, work), work)


def triggers(writer: DataStreamWriter, work: Work) -> Outcome:
    """The medians of Spark's durations of each trigger, after a warm-up.

    The stream runs until it has enough triggers. The first half isn't counted.
    """
    query = writer.trigger(processingTime="0 seconds").start()
    wanted = 2 * work.triggers
    found: dict[int, StreamingQueryProgress] = {}
    try:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            found |= {
                each["batchId"]: each for each in query.recentProgress if each["numInputRows"]
            }
            if len(found) >= wanted:
                break
            if query.awaitTermination(POLL_S):  # type: ignore[arg-type]
                raise RuntimeError(f"the stream ended after {len(found)} triggers")
    finally:
        query.stop()
    if len(found) < wanted:
        raise RuntimeError(f"{len(found)} triggers in {WAIT_S} s, {wanted} were wanted")
    counted = [found[number] for number in sorted(found)][work.triggers : wanted]
    more = {
        f"{part} ms": median(each["durationMs"].get(part, 0) for each in counted) for part in PARTS
    }
    return sum(found[number]["numInputRows"] for number in sorted(found)), more


def finish(query: StreamingQuery) -> None:
    """Wait for a stream's end. Its error is raised here."""
    if not query.awaitTermination(WAIT_S):
        query.stop()
        raise RuntimeError(f"the stream was not done in {WAIT_S} s")


def rows_of(work: Work) -> int:
    """The number of rows in the files, from their footers."""
    from pyarrow.parquet import ParquetFile

    return sum(ParquetFile(path).metadata.num_rows for path in Path(work.folder).rglob("*.parquet"))


RUN: dict[str, Callable[[SparkSession, str, Work], Outcome]] = {
    each.__name__: each
    for each in (
        read,
        parquet,
        json,
        avro,
        write,
        tuned,
        stream,
        archive,
        archive_avro,
        archive_json,
        mirror,
        trigger,
        to_kafka,
    )
}
