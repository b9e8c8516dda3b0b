"""A Spark driver as a process: a stream from topic to topic that restarts after each failure, until
it is killed.

    python -m tests.broker.spark_once.driver SETTINGS
"""

from __future__ import annotations

import json
import sys
import time

from kafka_native.spark import by_partition
from tests.harness.processes import say
from tests.spark.conftest import make_session

PAUSE_S = 0.2


def main() -> None:
    """Run the driver. Never returns."""
    settings = json.loads(sys.argv[1])
    session = make_session(settings["master"], spark_executor_memory="512m")
    while True:
        frame = (
            session.readStream.format("kafka_native")
            .options(**settings["source"])
            .load()
            .select("key", "value")
        )
        writer = by_partition(frame, settings["partitions"]).writeStream.format("kafka_native")
        writer = writer.options(**settings["sink"]).trigger(processingTime="0 seconds")
        say("start")
        try:
            writer.start().awaitTermination()
        except Exception as error:
            session.sparkContext.defaultParallelism  # noqa: B018 - raises, and so ends this process, if the JVM is gone
            lines = [line for line in str(error).splitlines() if "Error: " in line]
            say("failed", text=(lines or [str(error)[:300]])[-1].strip())
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
