"""The Spark driver of a contestant: ``python -m bench.spark.worker CONTESTANT CORES MEMORY``.

It reads and writes JSON lines.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
import traceback
from typing import TYPE_CHECKING

from bench.adapters import Figures
from bench.spark import Work
from bench.spark.processes import cpu_seconds
from bench.spark.scenarios import RUN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(contestant: str, cores: str, memory: str) -> SparkSession:
    """Open a session with the contestant's format, without user interface and progress bar."""
    from pyspark.sql import SparkSession

    from kafka_native.spark import KafkaNativeDataSource, worker_python
    from kafka_native.spark.pipelines.session import settings_for

    # See docs/guide/spark.md, "Settings worth having". The connector has no Python, so they don't
    # affect it.
    os.environ["PYSPARK_PYTHON"] = worker_python()
    builder = SparkSession.builder.master(f"local[{cores}]").appName(f"bench {contestant}")
    settings = {
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": cores,
        "spark.sql.session.timeZone": "UTC",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    }
    if contestant == "direct":  # the pipelines' own settings
        settings |= settings_for("local")
    if contestant == "jvm":
        from tests.spark import jvm

        settings |= jvm.options()
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if contestant != "jvm":
        spark.dataSource.register(KafkaNativeDataSource)
    return spark


def measure(spark: SparkSession, contestant: str, scenario: str, work: Work) -> Figures:
    """Run one scenario once. CPU is of this process, its JVM and the JVM's Python workers."""
    cpu, started = cpu_seconds(os.getpid()), time.perf_counter()
    count, more = RUN[scenario](spark, contestant, work)
    return Figures(count, time.perf_counter() - started, cpu_seconds(os.getpid()) - cpu, more=more)


def main() -> None:
    """Answer each line with one line. All other output goes to stderr."""
    contestant, cores, memory = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # before the JVM starts and inherits stdout
    spark = session(contestant, cores, memory)
    print("{}", file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = dataclasses.asdict(
                measure(spark, contestant, request["scenario"], Work(**request["work"]))
            )
        except Exception:  # the report names the failed scenario and the error
            answer = {"failed": traceback.format_exc()}
        print(json.dumps(answer), file=answers)
    spark.stop()


if __name__ == "__main__":
    main()
