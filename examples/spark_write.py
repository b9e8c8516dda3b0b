"""Writes a Spark frame and a Spark stream to Kafka.

Needs `pip install 'kafka-native[spark]'` and Java 17.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from kafka_native.spark import KafkaNativeDataSource

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
spark.dataSource.register(KafkaNativeDataSource)

# A frame: its columns are the parts of a record; only `value` is required.
frame = spark.range(1000).selectExpr(
    "CAST(id % 10 AS string) AS key",
    "CAST(id AS string) AS value",
    "array(named_struct('key', 'origin', 'value', CAST('examples' AS binary))) AS headers",
)
to_kafka = {
    "kafka.bootstrap.servers": BOOTSTRAP,
    "topic": "from-spark",
    "kafka.compression.type": "lz4",
}
frame.write.format("kafka_native").options(**to_kafka).mode("append").save()
print("frame: 1000 rows written")

# A stream of the files in a folder, here three. The checkpoint stores the finished ones.
with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / "in").mkdir()
    for number in range(3):
        (Path(folder) / "in" / f"{number}.txt").write_text(
            "".join(f"{number}-{line}\n" for line in range(100))
        )
    lines = (
        spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).text(f"{folder}/in")
    )
    writer = lines.writeStream.format("kafka_native").options(**to_kafka)
    for run in ("first", "second"):
        query = (
            writer.option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows = sum(progress["numInputRows"] for progress in query.recentProgress)
        print(f"stream, {run} run: {rows} rows in {len(query.recentProgress)} micro-batches")

# The error for an unsuitable frame says what to do.
try:
    spark.range(3).write.format("kafka_native").options(**to_kafka).mode("append").save()
except Exception as error:
    print("refused:", next(line for line in str(error).splitlines() if "SchemaError: " in line))

spark.stop()
