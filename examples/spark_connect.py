"""Frames and streams in a session of Spark Connect.

Needs `pip install 'kafka-native[spark]' 'pyspark[connect]'`. Set `SPARK_REMOTE` to the address of a
server, such as `sc://spark.example.org`. Its Python needs kafka-native, too. Without an address,
PySpark starts a server on this machine, which needs Java 17.
"""

from __future__ import annotations

import os
import queue
import tempfile

from pyspark.sql import SparkSession

from kafka_native.spark import BatchProgress, KafkaNativeDataSource, ProgressListener

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
SERVER = os.environ.get("SPARK_REMOTE", "local[2]")

spark = SparkSession.builder.remote(SERVER).getOrCreate()
spark.dataSource.register(KafkaNativeDataSource)  # the session's server gets it

# Written and read as with any other session.
orders = spark.range(1000).selectExpr(
    "CAST(id % 10 AS string) AS key", "CAST(id AS string) AS value"
)
where = {"kafka.bootstrap.servers": BOOTSTRAP}
orders.write.format("kafka_native").options(**where, topic="remote-orders").mode("append").save()
frame = spark.read.format("kafka_native").options(**where, subscribe="remote-orders").load()
print("read:", frame.count(), "of key 3:", frame.where("CAST(key AS string) = '3'").count())

# The server calls a listener through the session. So it prints here, also with a remote server.
reports: queue.Queue[BatchProgress] = queue.Queue()
listener = ProgressListener(on_progress=reports.put)
spark.streams.addListener(listener)

with tempfile.TemporaryDirectory() as folder:  # with a remote server, a folder that it reaches
    stream = (
        spark.readStream.format("kafka_native")
        .options(**where, subscribe="remote-orders", startingOffsets="earliest")
        .load()
    )
    writer = stream.select("key", "value").writeStream.format("kafka_native")
    query = (
        writer.options(**where, topic="remote-copy")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    report = reports.get(timeout=60)
    print("copied:", report.rows, "rows in micro-batch", report.batch_id)

spark.streams.removeListener(listener)
spark.stop()
