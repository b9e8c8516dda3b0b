"""Writes a Spark stream to Kafka exactly once, also when a batch runs again.

Needs `pip install 'kafka-native[spark]'` and Java 17.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from kafka_native import Consumer, KafkaError, TopicPartition
from kafka_native.admin import AdminClient, NewTopic
from kafka_native.spark import KafkaNativeDataSource, by_partition

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
TOPIC, PARTITIONS = "once-from-spark", 3

with AdminClient({"bootstrap.servers": BOOTSTRAP}) as admin:
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result()

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
spark.dataSource.register(KafkaNativeDataSource)


def committed() -> int:
    """Return the number of rows that a committed reader sees."""
    conf = {
        "bootstrap.servers": BOOTSTRAP,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    rows = ends = 0
    with Consumer(conf) as consumer:
        consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
        while ends < PARTITIONS:
            for message in consumer.consume(1000, 1.0):
                error = message.error()
                if error is None:
                    rows += 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    ends += 1
    return rows


with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / "in").mkdir()
    (Path(folder) / "in" / "lines.txt").write_text("".join(f"{line}\n" for line in range(100)))
    # One task has all rows of a partition. Without a key, the value decides the partition.
    lines = by_partition(spark.readStream.schema("value string").text(f"{folder}/in"), PARTITIONS)
    to_kafka = {
        "kafka.bootstrap.servers": BOOTSTRAP,
        "kafka.transactional.id": "lines-to-kafka",  # switches exactly once on
        "topic": TOPIC,
        "checkpointLocation": f"{folder}/checkpoint",
    }
    writer = lines.writeStream.format("kafka_native").options(**to_kafka).trigger(availableNow=True)
    writer.start().awaitTermination()
    print(f"first run: {committed()} rows")

    # Simulates a kill of Spark between the batch and its checkpoint: the batch runs again.
    for note in (Path(folder) / "checkpoint" / "commits").glob("*0*"):
        note.unlink()
    writer.start().awaitTermination()
    print(f"the same batch again: {committed()} rows")

# Without the column `partition`, the sink refuses the stream.
try:
    stream = spark.readStream.format("rate").load().selectExpr("CAST(value AS string) AS value")
    stream.writeStream.format("kafka_native").options(**to_kafka).start().awaitTermination()
except Exception as error:
    print("refused:", next(line for line in str(error).splitlines() if "SchemaError: " in line))

spark.stop()
