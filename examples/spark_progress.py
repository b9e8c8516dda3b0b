"""The lag and the progress of a Spark stream, micro-batch by micro-batch.

Needs `pip install 'kafka-native[spark,prometheus]'` and Java 17.
"""

from __future__ import annotations

import os
import queue
import tempfile

from prometheus_client import CollectorRegistry, generate_latest
from pyspark.sql import SparkSession

from kafka_native import Producer
from kafka_native.prometheus import StreamCollector
from kafka_native.spark import BatchProgress, KafkaNativeDataSource, ProgressListener

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
spark.dataSource.register(KafkaNativeDataSource)

with Producer({"bootstrap.servers": BOOTSTRAP}) as producer:
    for number in range(1000):
        producer.produce("clicks", str(number))

# Spark calls the listener on a thread of its own.
reports: queue.Queue[BatchProgress] = queue.Queue()
listener = ProgressListener(on_progress=reports.put)
spark.streams.addListener(listener)
registry = CollectorRegistry()  # or prometheus_client.REGISTRY
registry.register(StreamCollector(listener))

with tempfile.TemporaryDirectory() as folder:
    clicks = (
        spark.readStream.format("kafka_native")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", "clicks")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 400)
        .load()
    )
    query = (
        clicks.writeStream.format("noop")
        .queryName("clicks")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .start()
    )
    rows = 0
    while rows < 1000:
        report = reports.get()
        rows += report.rows
        for lag in report.lags:
            print(f"{report.rows} rows, {lag.max_offsets_behind_latest} offsets behind")
    for line in generate_latest(registry).decode().splitlines():
        if line.startswith("kafka_native_stream_rows_total"):
            print(line)
    query.stop()

spark.stop()
