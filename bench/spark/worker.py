"""A contestant's Spark driver: ``python -m bench.spark.worker CONTESTANT CORES MEMORY``; JSON lines in and out."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
import traceback
from typing import Any

from bench.adapters import Figures
from bench.spark import Work
from bench.spark.processes import cpu_seconds
from bench.spark.scenarios import RUN


def session(contestant: str, cores: str, memory: str) -> Any:
    """A session with the contestant's format, and no interface or progress bar that would cost time."""
    from pyspark.sql import SparkSession

    from kafka_native.spark import KafkaNativeDataSource, worker_python
    from kafka_native.spark.pipelines.session import settings_for

    # docs/guide/spark.md, "Settings worth having"; the connector has no Python, so they change nothing for it
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
    if contestant == "direct":  # as the pipelines are by themselves
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


def measure(spark: Any, contestant: str, scenario: str, work: Work) -> Figures:
    """One scenario once. CPU: this process, its JVM and the JVM's Python workers."""
    cpu, started = cpu_seconds(os.getpid()), time.perf_counter()
    count, more = RUN[scenario](spark, contestant, work)
    return Figures(count, time.perf_counter() - started, cpu_seconds(os.getpid()) - cpu, more=more)


def main() -> None:
    """Answers each line with one; whatever else is printed goes to stderr."""
    contestant, cores, memory = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # before the JVM inherits it
    spark = session(contestant, cores, memory)
    print("{}", file=answers)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = dataclasses.asdict(
                measure(spark, contestant, asked["scenario"], Work(**asked["work"]))
            )
        except Exception:  # one scenario less; the report says which, and why
            answer = {"failed": traceback.format_exc()}
        print(json.dumps(answer), file=answers)
    spark.stop()


if __name__ == "__main__":
    main()
