"""The main features in a session of Spark Connect. The program prints the results as JSON.

python -m tests.spark.connect_client SETTINGS
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kafka_native.spark import KafkaNativeDataSource, ProgressListener, by_partition
from kafka_native.spark.pipelines import PipelineError, archive
from kafka_native.spark.pipelines.mirror import mirror
from kafka_native.spark.pipelines.snapshot import snapshot
from tests.spark.conftest import ROOT
from tests.spark.streams import WAIT_S, completed
from tests.waiting import PROGRAM_S

FORMAT = "kafka_native"


class Client:
    """A session of Spark Connect with a server on this machine."""

    def __init__(self, bootstrap: str, source: str, target: str, folder: str) -> None:
        os.environ["PYSPARK_PYTHON"], os.environ["PYTHONPATH"] = sys.executable, str(ROOT)
        self.bootstrap, self.source, self.target = bootstrap, source, target
        self.folder = Path(folder)
        self.spark = SparkSession.builder.remote("local[2]").getOrCreate()
        self.spark.conf.set("spark.sql.shuffle.partitions", "2")
        self.spark.dataSource.register(KafkaNativeDataSource)

    def read(self, topic: str, **options: str) -> DataFrame:
        reader = self.spark.read.format(FORMAT).option("kafka.bootstrap.servers", self.bootstrap)
        return reader.option("subscribe", topic).options(**options).load()

    def stream(self, name: str) -> DataFrame:
        reader = self.spark.readStream.format(FORMAT).option("subscribe", self.source)
        reader = reader.option("kafka.bootstrap.servers", self.bootstrap)
        reader = reader.option("checkpointLocation", str(self.folder / name))
        return reader.option("startingOffsets", "earliest").load()

    def finish(self, writer: Any, name: str) -> None:
        """Run a query to its end."""
        writer = writer.option("checkpointLocation", str(self.folder / name))
        completed(writer.trigger(availableNow=True).start)

    def sink(self, writer: Any) -> Any:
        writer = writer.format(FORMAT).option("kafka.bootstrap.servers", self.bootstrap)
        return writer.option("topic", self.target)

    def batch(self) -> dict[str, int]:
        """Read, and write to a topic, as batch queries."""
        frame = self.read(self.source)
        self.sink(frame.select("key", "value").write).mode("append").save()
        return {
            "read": frame.count(),
            "arrow": frame.toArrow().num_rows,
            "filtered": frame.where("offset >= 10").count(),
            "written": self.read(self.target).count(),
        }

    def view(self) -> int:
        """Read a temporary view."""
        options = f"'kafka.bootstrap.servers'='{self.bootstrap}', subscribe='{self.source}'"
        self.spark.sql(f"CREATE TEMPORARY VIEW records USING {FORMAT} OPTIONS ({options})")
        return int(self.spark.sql("SELECT count(*) AS found FROM records").collect()[0].found)

    def streams(self) -> dict[str, int]:
        """Write a stream to files, with foreachBatch, and to a topic exactly once."""
        files = str(self.folder / "rows")
        self.finish(
            self.stream("files").writeStream.format("parquet").option("path", files), "files"
        )
        batches = str(self.folder / "batches")

        def write(rows: DataFrame, batch: int) -> None:
            rows.write.mode("overwrite").parquet(f"{batches}/batch={batch}")

        self.finish(self.stream("foreach").writeStream.foreachBatch(write), "foreach")
        before = self.read(self.target).count()
        rows = by_partition(self.stream("once").select("key", "value"), 2)
        sink = self.sink(rows.writeStream).option("kafka.transactional.id", self.target)
        self.finish(sink, "once")
        committed = self.read(self.target, **{"kafka.isolation.level": "read_committed"})
        return {
            "files": self.spark.read.parquet(files).count(),
            "foreach": self.spark.read.parquet(batches).count(),
            "once": committed.count() - before,
        }

    def progress(self) -> int:
        """Return the rows that a listener has seen."""
        rows: list[int] = []
        seen = threading.Event()
        listener = ProgressListener(
            on_progress=lambda each: (rows.append(each.rows), seen.set()),
        )
        self.spark.streams.addListener(listener)
        try:
            self.finish(self.stream("listened").writeStream.format("noop"), "listened")
            assert seen.wait(WAIT_S), "no progress"
        finally:
            self.spark.streams.removeListener(listener)
        return sum(rows)

    def refused(self) -> dict[str, str]:
        """Return the errors of pipelines."""
        conf = {"bootstrap.servers": self.bootstrap}
        place = str(self.folder / "pipeline")
        calls: dict[str, Callable[[], object]] = {
            "archive": lambda: archive(conf, place, topics=[self.source]),
            "mirror": lambda: mirror(
                self.spark, conf, conf, place, topics=[self.source], to=self.target
            ),
            "snapshot": lambda: snapshot(self.spark, conf, place, topics=[self.source]),
        }
        errors = {}
        for name, call in calls.items():
            try:
                call()
            except PipelineError as error:
                errors[name] = str(error)
        return errors


def main() -> None:
    faulthandler.dump_traceback_later(PROGRAM_S * 0.9, exit=True)
    client = Client(*json.loads(sys.argv[1]))
    parts = (client.batch, client.view, client.streams, client.progress, client.refused)
    print("\n" + json.dumps({part.__name__: part() for part in parts}), flush=True)
    client.spark.stop()


if __name__ == "__main__":
    main()
