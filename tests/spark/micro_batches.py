"""A micro-batch as Spark runs it, but step by step in one process, so that tests can stop it."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import datasource
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from kafka_native import Consumer, KafkaError, TopicPartition
from kafka_native.spark.writers import StreamWriter, Written, stream_writer
from tests.spark.typed_topics import spark_type
from tests.waiting import WAIT_S

SCHEMA = StructType(
    [
        StructField("topic", StringType()),
        StructField("value", BinaryType()),
        StructField("partition", IntegerType()),
    ]
)
Rows = Mapping[int, list[str]]
"""Values by partition."""


class Attempts:
    """Unique numbers of attempts."""

    last = 0

    @classmethod
    def next(cls) -> int:
        """Return the next number."""
        cls.last += 1
        return cls.last


@contextmanager
def task_context(
    partition: int, query: str | None, batch_id: int, attempt: int = 0
) -> Iterator[None]:
    """Act as a Spark task within the block."""
    context = object.__new__(TaskContext)
    context._partitionId, context._attemptNumber = partition, attempt
    context._taskAttemptId = Attempts.next()
    context._localProperties = {} if query is None else {"sql.streaming.queryId": query}
    context._localProperties["streaming.sql.batchId"] = str(batch_id)
    TaskContext._setTaskContext(context)
    try:
        yield
    finally:
        TaskContext._setTaskContext(cast(Any, None))


def as_spark_passes(batch: pa.RecordBatch) -> Iterator[Any]:
    """Return what Spark passes to a stream's writer: Arrow batches, or rows in PySpark 4.0."""
    if hasattr(datasource, "DataSourceStreamArrowWriter"):
        return iter([batch])
    return (tuple(row[name] for name in SCHEMA.names) for row in batch.to_pylist())


class MicroBatch:
    """One run of a micro-batch. A repetition is another run."""

    def __init__(self, options: Mapping[str, str], batch_id: int, query: str = "q") -> None:
        """Begin as the driver: make a writer, and pickle it for the tasks."""
        self._options = options
        self._batch_id = batch_id
        self._query = query
        self.pickled = pickle.dumps(stream_writer(options, SCHEMA, False))
        self.messages: list[Written | None] = []

    def task(self, number: int, rows: Rows, topic: str | None = None, attempt: int = 0) -> Written:
        """Run a successful task that writes rows."""
        partitions = [partition for partition, texts in rows.items() for _ in texts]
        values = [text.encode() for texts in rows.values() for text in texts]
        batch = pa.RecordBatch.from_pydict(
            {
                "topic": pa.array([topic] * len(values), pa.string()),
                "value": pa.array(values, pa.binary()),
                "partition": pa.array(partitions, pa.int32()),
            }
        )
        writer: StreamWriter = pickle.loads(self.pickled)
        with task_context(number, self._query, self._batch_id, attempt):
            written = writer.write(as_spark_passes(batch))
        self.messages.append(pickle.loads(pickle.dumps(written)))
        return written

    def commit(self) -> None:
        """Commit as the driver, with another writer."""
        stream_writer(self._options, SCHEMA, False).commit(self.messages, self._batch_id)

    def abort(self) -> None:
        """Abort as the driver after a task has failed for good."""
        stream_writer(self._options, SCHEMA, False).abort([*self.messages, None], self._batch_id)


def run(options: Mapping[str, str], batch_id: int, rows: Rows, query: str = "q") -> None:
    """Run a whole micro-batch, with a task for each partition."""
    batch = MicroBatch(options, batch_id, query)
    for partition, texts in rows.items():
        batch.task(partition, {partition: texts})
    batch.commit()


def seen(
    bootstrap: str, topic: str, partitions: int, isolation: str = "read_committed"
) -> dict[int, list[str]]:
    """Return a reader's values of each non-empty partition."""
    conf = {
        "bootstrap.servers": bootstrap,
        "isolation.level": isolation,
        "enable.partition.eof": True,
    }
    found: dict[int, list[str]] = {}
    with Consumer(conf) as consumer:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        ends, deadline = 0, time.monotonic() + WAIT_S
        while ends < partitions:
            assert time.monotonic() < deadline, f"read to the end of {ends} partitions only"
            for message in consumer.consume(1000, 0.5):
                error = message.error()
                assert error is None or error.code() == KafkaError._PARTITION_EOF, error
                if error is not None:
                    ends += 1
                else:
                    found.setdefault(message.partition() or 0, []).append(message.value().decode())
    return found


class TypedBatches:
    """A stream whose micro-batches run step by step, with tables of any columns as tasks."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Take Spark's options."""
        self._options = datasource.CaseInsensitiveDict(dict(options))

    def run(self, batch_id: int, *tasks: pa.Table, commits: bool = True, query: str = "q") -> None:
        """Run a micro-batch. Without a commit it ends as if the driver was killed."""
        schema = spark_type(tasks[0].schema)
        pickled = CloudPickleSerializer().dumps(stream_writer(self._options, schema, False))
        messages: list[Any] = []
        for number, rows in enumerate(tasks):
            with task_context(number, query, batch_id):
                messages.append(pickle.loads(pickled).write(iter(rows.to_batches())))
        if commits:
            stream_writer(self._options, schema, False).commit(messages, batch_id)
