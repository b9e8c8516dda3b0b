"""Writes a Spark frame as Protobuf with a schema registry, and as plain JSON.

Needs `pip install 'kafka-native[spark,registry,protobuf]'` and Java 17.
"""

from __future__ import annotations

import os
from uuid import uuid4

from pyspark.sql import SparkSession

from kafka_native.mock import MockSchemaRegistry
from kafka_native.spark import KafkaNativeDataSource

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
NUMBER = uuid4().hex[:8]
SCHEMA = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Reading {
  string sensor = 1;
  double degrees = 2;
  google.protobuf.Timestamp at = 3;
}
"""


def main() -> None:
    """Write a frame in two formats, and read it back."""
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = spark.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(KafkaNativeDataSource)
    readings = session.range(100).selectExpr(
        "concat('sensor ', id % 3) AS sensor",
        "id / 4 AS degrees",
        "timestamp_seconds(id) AS at",
        "CAST(id % 3 AS string) AS key",  # the record's key isn't part of the value
    )
    with MockSchemaRegistry() as registry:
        formats = {
            "protobuf": {"schema.registry.url": registry.url, "value.schema": SCHEMA},
            "json": {},
        }
        for name, options in formats.items():
            sink = readings.write.format("kafka_native").options(**options)
            sink = sink.option("kafka.bootstrap.servers", BOOTSTRAP)
            sink = sink.option("topic", f"example-spark-{name}-{NUMBER}")
            sink.option("value.format", name).mode("append").save()
        source = (
            session.read.format("kafka_native")
            .option("kafka.bootstrap.servers", BOOTSTRAP)
            .option("subscribe", f"example-spark-protobuf-{NUMBER}")
            .option("value.format", "protobuf")
            .option("schema.registry.url", registry.url)
            .load()
        )
        print(f"value: {source.schema['value'].dataType.simpleString()}")
        warmest = source.select("value.*").groupBy("sensor").agg({"degrees": "max"})
        for row in warmest.orderBy("sensor").collect():
            print(f"{row[0]}: {row[1]}")
    texts = (
        session.read.format("kafka_native")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", f"example-spark-json-{NUMBER}")
        .load()
    )
    print(texts.selectExpr("min(CAST(value AS string))").collect()[0][0])
    session.stop()


if __name__ == "__main__":
    main()
