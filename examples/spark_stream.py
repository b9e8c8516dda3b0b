"""A Spark stream from Kafka, stopped and continued.

Needs `pip install 'kafka-native[spark]'` and Java 17.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from kafka_native import Producer
from kafka_native.spark import KafkaNativeDataSource

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")


def produce(count: int) -> None:
    """Produce readings of three sensors."""
    with Producer({"bootstrap.servers": BOOTSTRAP}) as producer:
        for number in range(count):
            producer.produce("readings", str(number), key=f"sensor-{number % 3}")


spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
spark.dataSource.register(KafkaNativeDataSource)

with tempfile.TemporaryDirectory() as folder:
    checkpoint = f"{folder}/checkpoint"
    readings = (
        spark.readStream.format("kafka_native")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", "readings")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 400)
        .option("checkpointLocation", checkpoint)  # keeps the ids of topics there, too
        .load()
        .selectExpr(
            "CAST(key AS string) AS sensor", "CAST(CAST(value AS string) AS int) AS reading"
        )
    )

    def run() -> StreamingQuery:
        """Write all available readings into Parquet files; the checkpoint stores the position."""
        writer = readings.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start(f"{folder}/readings")
        query.awaitTermination()
        return query

    produce(1000)
    print("micro-batches:", [progress["numInputRows"] for progress in run().recentProgress])
    produce(100)
    print("after a restart:", [progress["numInputRows"] for progress in run().recentProgress])
    print("rows in the files:", spark.read.parquet(f"{folder}/readings").count())
    last = max((Path(checkpoint) / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    print("the checkpoint ends at", json.loads(last.read_text().splitlines()[-1]))

spark.stop()
