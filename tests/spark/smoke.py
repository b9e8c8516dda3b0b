"""The main features once, on the mock cluster, with the imported PySpark: see versions.py."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession

from kafka_native.admin import AdminClient
from kafka_native.cli.mock import mock_cluster
from kafka_native.cli.perf import create_topic
from kafka_native.spark import KafkaNativeDataSource

ROWS = 2000
WAIT_S = 300


def session() -> SparkSession:
    """Return a small local session that knows the format."""
    builder = (
        SparkSession.builder.master("local[2]").appName("smoke").config("spark.driver.memory", "1g")
    )
    builder = builder.config("spark.ui.enabled", "false").config(
        "spark.sql.shuffle.partitions", "2"
    )
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(KafkaNativeDataSource)
    return spark


def write(spark: SparkSession, servers: str, topic: str, first: int) -> None:
    """Write ROWS rows from a number on, as a batch."""
    rows = spark.range(first, first + ROWS, 1, 2)
    rows = rows.selectExpr(
        "cast(cast(id as string) as binary) key", "cast(concat('value ', id) as binary) value"
    )
    writer = (
        rows.write.format("kafka_native").mode("append").option("kafka.bootstrap.servers", servers)
    )
    writer.option("topic", topic).save()


def read(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """Read all of a topic, as a batch."""
    reader = spark.read.format("kafka_native").option("kafka.bootstrap.servers", servers)
    return reader.option("subscribe", topic).load()


def stream(spark: SparkSession, servers: str, source: str, target: str, checkpoint: Path) -> None:
    """Copy new records from one topic to another, with a checkpoint."""
    reader = spark.readStream.format("kafka_native").option("kafka.bootstrap.servers", servers)
    frame = reader.option("subscribe", source).option("startingOffsets", "earliest").load()
    writer = frame.select("key", "value").writeStream.format("kafka_native").option("topic", target)
    writer = writer.option("kafka.bootstrap.servers", servers).option(
        "checkpointLocation", str(checkpoint)
    )
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_S), f"the stream is not done in {WAIT_S} s: {query.status}"


def values(frame: DataFrame) -> list[str]:
    """Return the values in order, as text."""
    return sorted(bytes(row.value).decode() for row in frame.select("value").collect())


def main() -> int:
    """Run batch and stream, both ways, with a restart on a checkpoint."""
    spark = session()
    with mock_cluster() as servers, tempfile.TemporaryDirectory() as folder:
        with AdminClient({"bootstrap.servers": servers}) as admin:
            for name in ("first", "second"):
                create_topic(admin, name, 2)
        for number in range(2):
            write(spark, servers, "first", number * ROWS)
            wanted = sorted(f"value {each}" for each in range((number + 1) * ROWS))
            assert values(read(spark, servers, "first")) == wanted
            stream(spark, servers, "first", "second", Path(folder))
            assert values(read(spark, servers, "second")) == wanted
    spark.stop()
    print(
        f"PySpark {pyspark.__version__}: batch and stream, read and write, a restart: all as "
        "it should be"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
