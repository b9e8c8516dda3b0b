"""A Spark stream of Avro records: bad ones become dead letters, and are replayed after a fix.

Needs `pip install 'kafka-native[spark,registry]'` and Java 17.
"""

from __future__ import annotations

import json
import os
import tempfile
from uuid import uuid4

import pyarrow
from pyspark.sql import SparkSession

from kafka_native import Producer
from kafka_native.codecs import Avro
from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import Schema, SchemaRegistryClient
from kafka_native.spark import KafkaNativeDataSource
from kafka_native.spark.pipelines import dead_letter_files, replay_dead_letters

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
TOPIC = f"example-dead-letters-{uuid4().hex[:8]}"
SENSOR = {"name": "sensor", "type": "string"}
SCHEMA = json.dumps({"type": "record", "name": "Reading", "fields": [SENSOR]})
PLACE = {"name": "place", "type": "string", "default": ""}
NEWER = json.dumps({"type": "record", "name": "Reading", "fields": [SENSOR, PLACE]})


def produce(registry_url: str) -> None:
    """Produce 100 readings, and one whose schema isn't in the registry yet: it has the id 2."""
    rows = pyarrow.table({"sensor": [f"sensor {number % 3}" for number in range(100)]})
    with (
        Avro(registry_url, schema=SCHEMA) as avro,
        Producer({"bootstrap.servers": BOOTSTRAP}) as producer,
    ):
        producer.produce_arrow(TOPIC, rows, value=avro)
        producer.flush()
        producer.produce(TOPIC, b"\0\0\0\0\2" + b"\x10sensor 7" + b"\x08roof", key="early")
        producer.flush()


def run(session: SparkSession, registry_url: str, folder: str) -> None:
    """Write all available readings into Parquet files."""
    stream = (
        session.readStream.format("kafka_native")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("value.format", "avro")
        .option("schema.registry.url", registry_url)
        .option("deadLetters", f"{folder}/dead")
        .load()
        .select("value.*", "offset")
    )
    writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{folder}/state")
    writer.trigger(availableNow=True).start(f"{folder}/readings").awaitTermination()
    print("rows:", session.read.parquet(f"{folder}/readings").count())


def main() -> None:
    """Read, repair the cause, and replay."""
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = spark.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(KafkaNativeDataSource)
    with MockSchemaRegistry() as registry, tempfile.TemporaryDirectory() as folder:
        produce(registry.url)
        run(session, registry.url, folder)
        for row in session.read.parquet(f"{folder}/dead").collect():
            print(f"dead letter: offset {row.offset}, schema id {row.schema_id}: {row.error}")

        with SchemaRegistryClient({"url": registry.url}) as client:
            print("registered:", client.register_schema(f"{TOPIC}-value", Schema(NEWER)))
        done = replay_dead_letters({"bootstrap.servers": BOOTSTRAP}, f"{folder}/dead")
        print(f"replayed: {done.records}, left: {len(dead_letter_files(f'{folder}/dead'))}")
        run(session, registry.url, folder)
    session.stop()


if __name__ == "__main__":
    main()
