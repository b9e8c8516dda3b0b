"""A Spark driver as a process: a stream from a topic to a topic or a lake that restarts after each
failure, until it is killed.

    python -m tests.broker.spark.driver SETTINGS
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyspark.sql import SparkSession

from kafka_native.spark import by_partition
from kafka_native.spark.pipelines import archive
from tests.harness.processes import say
from tests.spark.conftest import make_session

PAUSE_S = 0.2
ARCHIVE_INTERVAL_S = 0.2


def copy(session: SparkSession, settings: dict[str, Any]) -> None:
    """Copy the topic to another topic until a failure."""
    frame = (
        session.readStream.format("kafka_native")
        .options(**settings["source"])
        .load()
        .select("key", "value")
    )
    writer = by_partition(frame, settings["partitions"]).writeStream.format("kafka_native")
    writer = writer.options(**settings["sink"]).trigger(processingTime="0 seconds")
    writer.start().awaitTermination()


def keep_archiving(session: SparkSession, settings: dict[str, Any]) -> None:
    """Archive the topic in a lake until a failure."""
    archive(
        settings["conf"],
        settings["lake"],
        topics=[settings["topic"]],
        session=session,
        trigger="continuous",
        interval_s=ARCHIVE_INTERVAL_S,
        options=settings["options"],
    )


def main() -> None:
    """Run the driver. Never returns."""
    settings = json.loads(sys.argv[1])
    session = make_session(settings["master"], spark_executor_memory="512m")
    while True:
        say("start")
        try:
            (keep_archiving if "lake" in settings else copy)(session, settings)
        except Exception as error:
            session.sparkContext.defaultParallelism  # noqa: B018 - raises, and so ends this process, if the JVM is gone
            lines = [line for line in str(error).splitlines() if "Error: " in line]
            say("failed", text=(lines or [str(error)[:300]])[-1].strip())
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
