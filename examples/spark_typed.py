"""Reads a topic of Avro values as typed columns of a Spark frame, with a schema registry.

Needs `pip install 'kafka-native[spark,registry]'` and Java 17.
"""

from __future__ import annotations

import json
import os
from uuid import uuid4

import pyarrow
from pyspark.sql import SparkSession

from kafka_native import Producer
from kafka_native.codecs import Avro
from kafka_native.mock import MockSchemaRegistry
from kafka_native.spark import KafkaNativeDataSource

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
TOPIC = f"example-spark-typed-{uuid4().hex[:8]}"
SCHEMA = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "sensor", "type": "string"},
        {"name": "degrees", "type": ["null", "int"]},
    ],
}


def produce(registry_url: str) -> None:
    """Produce 100 Avro records, and one that isn't Avro."""
    rows = pyarrow.table(
        {
            "sensor": [f"sensor {number % 3}" for number in range(100)],
            "degrees": pyarrow.array([number % 40 for number in range(100)], pyarrow.int32()),
        }
    )
    with (
        Avro(registry_url, schema=json.dumps(SCHEMA)) as avro,
        Producer({"bootstrap.servers": BOOTSTRAP}) as producer,
    ):
        producer.produce_arrow(TOPIC, rows, value=avro)
        producer.flush()
        producer.produce(TOPIC, b"not Avro")
        producer.flush()


def main() -> None:
    """Produce records, and read them with Spark."""
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = spark.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(KafkaNativeDataSource)
    with MockSchemaRegistry() as registry:
        produce(registry.url)
        frame = (
            session.read.format("kafka_native")
            .option("kafka.bootstrap.servers", BOOTSTRAP)
            .option("subscribe", TOPIC)
            .option("value.format", "avro")
            .option("schema.registry.url", registry.url)
            .option("mode", "PERMISSIVE")
            .load()
        )
        print(f"value: {frame.schema['value'].dataType.simpleString()}")
        warmest = frame.select("value.*").groupBy("sensor").agg({"degrees": "max"})
        for row in warmest.where("sensor is not null").orderBy("sensor").collect():
            print(f"{row[0]}: {row[1]}")
        for row in frame.where("_corrupt_record is not null").collect():
            print(f"bad: offset {row.offset}, bytes {bytes(row['_corrupt_record'])!r}")
    session.stop()


if __name__ == "__main__":
    main()
