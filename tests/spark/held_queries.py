"""Streaming queries that wait inside a micro-batch until they are killed.

``python -m tests.spark.held_queries SETTINGS`` is a driver that runs them. Without a hold they run
to their ends, also in the session of a test.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, expr
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from kafka_native.spark import KafkaNativeDataSource
from tests.spark import conftest
from tests.spark.streams import started

READING, RESULT, WRITTEN = "reading", "result", "written"
"""The steps at which a query waits: a task that reads, a task of the result, after the output."""
SCHEMA: Final = {
    "type": "record",
    "name": "Record",
    "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}],
}
"""The Avro schema of the records for dead letters."""
_CHECK_INTERVAL_S: Final = 0.05


@dataclass(frozen=True)
class Hold:
    """The place in a query at which it waits. It writes a file first."""

    step: str
    batch: int
    """The first micro-batch that waits. A stateful query may have batches without rows."""
    mark: str
    """The file. Its content is the micro-batch and the id of the process."""
    gate: str
    """The query goes on when this file exists."""

    def wait(self, batch: int) -> None:
        """Write the file, and wait. The file is complete as soon as it exists."""
        if batch < self.batch or Path(self.gate).exists():
            return
        mark = Path(self.mark)
        mark.parent.mkdir(parents=True, exist_ok=True)
        partial = mark.with_name(f".{mark.name}-{os.getpid()}")
        partial.write_text(json.dumps({"batch": batch, "pid": os.getpid()}))
        partial.rename(mark)
        while not Path(self.gate).exists():
            time.sleep(_CHECK_INTERVAL_S)


@dataclass(frozen=True)
class Inputs:
    """The topics of the queries, and the options of their sources."""

    format: str
    bootstrap: str
    topics: Mapping[str, str]
    """The topics' names: orders, payments, products, records."""
    offsets_max: int
    """The number of offsets of a micro-batch."""
    dead_letters: Mapping[str, str] = field(default_factory=dict)
    """The targets of dead letters, by query."""
    checkpoint: str = ""
    """The checkpoint of the query. Our source keeps files there."""

    def options(self, name: str) -> dict[str, str]:
        servers = {"kafka.bootstrap.servers": self.bootstrap}
        return {**servers, "subscribe": self.topics[name], "startingOffsets": "earliest"}

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        """Return a topic as a static frame."""
        return _parsed(spark.read.format(self.format).options(**self.options(name)).load())

    def stream(self, spark: SparkSession, name: str, hold: Hold | None = None) -> DataFrame:
        """Return a topic as a stream. Its tasks may wait after their first rows."""
        return _parsed(_held(self.records(spark, name), hold, READING))

    def records(self, spark: SparkSession, name: str, **options: str) -> DataFrame:
        """Return a topic as a stream with the source's columns."""
        if self.format == "kafka_native":
            options["checkpointLocation"] = self.checkpoint
        reader = spark.readStream.format(self.format).options(**self.options(name), **options)
        return reader.option("maxOffsetsPerTrigger", str(self.offsets_max)).load()


def _parsed(frame: DataFrame) -> DataFrame:
    """Return the columns of records whose values are two words."""
    return frame.select(
        "partition",
        "offset",
        "timestamp",
        expr("cast(key as string) as id"),
        expr("split(cast(value as string), ' ')[0] as name"),
        expr("cast(split(cast(value as string), ' ')[1] as bigint) as number"),
    )


def _held(frame: DataFrame, hold: Hold | None, step: str) -> DataFrame:
    """Return a frame whose second task waits after its first rows."""
    if hold is None or hold.step != step:
        return frame
    waiting = hold

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        first = next(batches, None)
        if first is not None:
            yield first
        if context.partitionId() == 1:
            waiting.wait(batch)
        yield from batches

    return frame.mapInArrow(work, frame.schema)


# --- the queries ---


def windows(spark: SparkSession, inputs: Inputs, hold: Hold | None) -> DataFrame:
    """Count orders by product in windows of ten seconds. Rows that are too late are dropped."""
    orders = inputs.stream(spark, "orders", hold).withWatermark("timestamp", "20 seconds")
    counted = orders.groupBy(expr("window(timestamp, '10 seconds')"), "name").agg(
        expr("count(*) as orders"), expr("sum(number) as total"), expr("sum(offset) as offsets")
    )
    return counted.select(
        expr("window.start as start"), expr("window.end as end"), "name", "orders", "total",
        "offsets",
    )  # fmt: skip


def joined_streams(spark: SparkSession, inputs: Inputs, hold: Hold | None) -> DataFrame:
    """Join orders with their payments in the next half minute. Some orders have no payment."""
    orders = inputs.stream(spark, "orders", hold).withWatermark("timestamp", "20 seconds")
    payments = inputs.stream(spark, "payments").withWatermark("timestamp", "20 seconds")
    condition = expr(
        "orders.id = payments.id and payments.timestamp between orders.timestamp and "
        "orders.timestamp + interval 30 seconds"
    )
    both = orders.alias("orders").join(payments.alias("payments"), condition, "leftOuter")
    return both.select(
        "orders.id", "orders.name", "orders.number", expr("payments.offset as paid"),
        expr("payments.number as amount"),
    )  # fmt: skip


def joined_table(spark: SparkSession, inputs: Inputs, hold: Hold | None) -> DataFrame:
    """Join orders with a table of products."""
    products = inputs.table(spark, "products").selectExpr("id as product", "number as price")
    orders = inputs.stream(spark, "orders", hold)
    both = orders.join(broadcast(products), expr("name = product"))
    return both.selectExpr("partition", "offset", "id", "product", "number * price as total")


def batches(spark: SparkSession, inputs: Inputs, hold: Hold | None) -> DataFrame:
    """Return orders. ``foreachBatch`` writes them."""
    return inputs.stream(spark, "orders", hold).select("partition", "offset", "id", "number")


def letters_folder(spark: SparkSession, inputs: Inputs, hold: Hold | None) -> DataFrame:
    """Decode records. Those that don't decode go to a folder."""
    return _decoded(spark, inputs, hold, inputs.dead_letters[letters_folder.__name__])


def letters_topic(spark: SparkSession, inputs: Inputs, hold: Hold | None) -> DataFrame:
    """Decode records. Those that don't decode go to a topic."""
    return _decoded(spark, inputs, hold, inputs.dead_letters[letters_topic.__name__])


def _decoded(spark: SparkSession, inputs: Inputs, hold: Hold | None, target: str) -> DataFrame:
    options = {
        "value.format": "avro", "value.schema": json.dumps(SCHEMA), "deadLetters": target,
    }  # fmt: skip
    frame = inputs.records(spark, "records", **options)
    return _held(frame.selectExpr("partition", "offset", "value.id as id"), hold, READING)


QUERIES: Final[Mapping[str, Callable[[SparkSession, Inputs, Hold | None], DataFrame]]] = {
    each.__name__: each for each in (
        windows, joined_streams, joined_table, batches, letters_folder, letters_topic,
    )
}  # fmt: skip


def _written(frame: DataFrame, folder: Path, hold: Hold | None) -> DataStreamWriter:
    """Return a writer with ``foreachBatch`` that replaces the folder of a repeated batch."""

    def write(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(f"{folder / 'rows'}/batch={batch}")
        if hold is not None and hold.step == WRITTEN:
            hold.wait(batch)

    return frame.writeStream.foreachBatch(write)


def start(
    spark: SparkSession, name: str, inputs: Inputs, folder: Path, hold: Hold | None = None
) -> StreamingQuery:
    """Start a query from its checkpoint. It ends at the current ends of its topics."""
    checkpoint = str(folder / "checkpoint")
    inputs = replace(inputs, checkpoint=checkpoint)
    frame = _held(QUERIES[name](spark, inputs, hold), hold, RESULT)
    if name == batches.__name__:
        writer = _written(frame, folder, hold)
    else:
        writer = frame.writeStream.format("parquet").option("path", str(folder / "rows"))
    writer = writer.option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start()


# --- the driver ---


@dataclass(frozen=True)
class Settings:
    """What a driver runs."""

    master: str
    inputs: Inputs
    holds: Mapping[str, Hold]
    """The places at which queries wait, by name."""
    folders: Mapping[str, str]
    """The folders of the queries, by name."""
    is_remote: bool = False
    """Whether the session is one of Spark Connect."""
    conf: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Settings:
        values: dict[str, Any] = json.loads(text)
        values["inputs"] = Inputs(**values["inputs"])
        values["holds"] = {name: Hold(**hold) for name, hold in values["holds"].items()}
        return cls(**values)

    def session(self) -> SparkSession:
        if not self.is_remote:
            return conftest.make_session(self.master, **self.conf)
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["PYTHONPATH"] = str(conftest.ROOT)
        spark = SparkSession.builder.remote(self.master).getOrCreate()
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.dataSource.register(KafkaNativeDataSource)
        return spark


def run(spark: SparkSession, settings: Settings) -> None:
    """Run the queries at the same time, to their ends.

    :raises StreamingQueryException: A query has failed.
    """
    queries = [
        started(
            lambda name=name, folder=folder: start(
                spark, name, settings.inputs, Path(folder), settings.holds.get(name)
            )
        )
        for name, folder in settings.folders.items()
    ]
    for query in queries:
        query.awaitTermination()


if __name__ == "__main__":
    chosen = Settings.parse(sys.argv[1])
    run(chosen.session(), chosen)
