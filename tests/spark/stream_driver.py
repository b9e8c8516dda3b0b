"""A Spark driver that streams into Parquet files in small batches until a test kills it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.spark.conftest import make_session
from tests.spark.streams import started

if __name__ == "__main__":
    options, checkpoint, files = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
    frame = make_session().readStream.format("kafka_native").options(**options).load()
    writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    started(lambda: writer.trigger(processingTime="0 seconds").start(files)).awaitTermination()
