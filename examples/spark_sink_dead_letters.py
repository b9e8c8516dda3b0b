"""Writes a Spark frame as Avro: rows that can't be written go to a folder, and back after a fix.

Needs `pip install 'kafka-native[spark,registry]'` and Java 17.
"""

from __future__ import annotations

import os
import tempfile
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import from_json

from kafka_native import Consumer, TopicPartition
from kafka_native.spark import KafkaNativeDataSource
from kafka_native.spark.pipelines import replay_dead_letters

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
TOPIC = f"example-sink-dead-letters-{uuid4().hex[:8]}"
SCHEMA = """{"type": "record", "name": "Reading", "fields": [
    {"name": "sensor", "type": "string"}, {"name": "note", "type": "string"}]}"""


def write(frame: DataFrame, folder: str) -> None:
    """Write a frame. A record may have 1000 bytes."""
    sink = frame.write.format("kafka_native").option("kafka.bootstrap.servers", BOOTSTRAP)
    sink = sink.option("topic", TOPIC).option("kafka.max.request.size", 1000)
    sink = sink.option("value.format", "avro").option("value.schema", SCHEMA)
    sink.option("deadLetters", folder).mode("append").save()


def stored() -> int:
    """Return the number of records in the topic."""
    with Consumer({"bootstrap.servers": BOOTSTRAP}) as consumer:
        partitions = consumer.list_topics(TOPIC).topics[TOPIC].partitions
        places = [TopicPartition(TOPIC, number) for number in partitions]
        return sum(consumer.get_watermark_offsets(each)[1] for each in places)


def main() -> None:
    """Write 100 rows, of which a null and a long text are dead letters. Write those, too."""
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = spark.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(KafkaNativeDataSource)
    with tempfile.TemporaryDirectory() as folder:
        rows = session.range(100).selectExpr(
            "CASE WHEN id <> 7 THEN concat('sensor ', id % 3) END AS sensor",
            "repeat('x', IF(id = 8, 5000, 10)) AS note",
        )
        write(rows, folder)
        print(f"written: {stored()}")
        letters = session.read.parquet(folder).cache()
        for row in letters.orderBy("path").collect():
            print(f"dead letter, field {row.path}: {row.error[:50]}")

        # Rows that don't encode are JSON: repair them, and write them as before.
        bad = letters.where("row IS NOT NULL")
        fields = bad.select(from_json("row", "sensor string, note string").alias("row"))
        write(fields.select("row.*").na.fill("unknown", ["sensor"]), folder)
        # Other rows have the bytes of their record: replay produces them.
        done = replay_dead_letters({"bootstrap.servers": BOOTSTRAP}, folder)
        print(f"replayed: {done.records}, left: {done.rows_left}, written: {stored()}")
    session.stop()


if __name__ == "__main__":
    main()
