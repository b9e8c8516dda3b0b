"""Writes frames and streams to Kafka: the sinks of ``format("kafka_native")``.

Columns, options and what they mean are those of Spark's own connector. The driver checks the schema; each task takes
the Arrow batches that Spark hands to its Python worker, queues them in a producer that the worker keeps, and ends when
all of its rows are acknowledged. A row that can't be delivered fails the task, and Spark runs it again from its first
row: each row is written at least once.

With ``kafka.transactional.id`` a stream's rows are written exactly once (`exactly_once`): the micro-batch's transaction
is begun where the driver pickles the writer for the tasks, used by them (`_write_once`), and ended by
`StreamWriter.commit`. Spark builds the stream's writer anew for that, so what it has to know goes through the tasks'
commit messages (`Written`).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import Row, StringType, StructType

from kafka_native import ArrowReport, KafkaError, KafkaException, Producer
from kafka_native.spark import exactly_once
from kafka_native.spark.client_pool import settle
from kafka_native.spark.errors import OptionError
from kafka_native.spark.exactly_once import Turn, Writing
from kafka_native.spark.log import logger
from kafka_native.spark.offsets import Key
from kafka_native.spark.options import SinkOptions
from kafka_native.spark.producers import lent, patience_s

__all__ = [
    "BatchWriter",
    "SchemaError",
    "StreamWriter",
    "WriteError",
    "Written",
    "batch_writer",
    "stream_writer",
    "write_rows",
]

HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"
_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "value": ("string", "binary"),
    "key": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": (HEADERS_TYPE,),
}
_ROW_TYPES: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "int": pa.int32(),
    HEADERS_TYPE: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}
_ROWS_AT_ONCE: Final = 10_000
_CHECK_INTERVAL_S: Final = 0.5
"""How long a task waits for room or acknowledgements before it looks whether a row has failed."""
_BATCH_ID: Final = "streaming.sql.batchId"

_ProducerOf = Callable[[SinkOptions], AbstractContextManager[Producer]]


class SchemaError(ValueError):
    """A frame that can't be written as it is. The text says which column is wrong and what to do."""


class WriteError(RuntimeError):
    """Rows of a task that weren't written.

    The text has the first error, its topic and how many rows failed. Rows before and after them may have been written;
    the next attempt writes all of the task's rows again.
    """


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task has written, as it tells the driver."""

    rows: int
    """Rows that are acknowledged."""
    partition: int | None = None
    """The task's partition of the frame."""
    attempt: int | None = None
    """0: the first attempt. Later ones may have written rows for the second time."""
    batch_id: int | None = None
    """The micro-batch; None: no stream."""
    query: str | None = None
    """The stream's id, where it is written exactly once."""
    turn: Turn | None = None
    """The transaction that the rows are part of; None: there is none."""
    partitions: frozenset[Key] = frozenset()
    """Where they were written to in it."""


# --- the driver's side ---


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """The writer of ``frame.write``.

    :param options: As Spark has them.
    :param overwrite: Whether the save mode is overwrite, which a topic can't.
    :raises OptionError: An option can't be, or the mode is another one than append.
    :raises SchemaError: The frame has no column ``value``, or a column of a type that can't be written.
    """
    if overwrite:
        raise OptionError("mode", 'a topic can\'t be overwritten, rows are added to it: write mode("append")')
    reason = "a batch query has no id by which a repetition could be told from another query: write a stream"
    return BatchWriter(_checked(options, schema).without_transactions(reason))


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """The writer of ``frame.writeStream``.

    Spark builds it for each micro-batch, and once more in the process that commits it.

    :param options: As Spark has them.
    :param overwrite: Output mode complete, where each micro-batch has the whole result. Its rows are added, as Spark's
        own connector adds them.
    :raises OptionError: An option can't be.
    :raises SchemaError: The frame has no column ``value``, or a column of a type that can't be written.
    """
    return StreamWriter(_checked(options, schema), schema)


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of a frame."""

    def __init__(self, options: SinkOptions) -> None:
        """Options that were checked against the frame's schema."""
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """In a task: writes its rows, returns when they are acknowledged.

        :raises WriteError: Not all of them could be.
        """
        return _write(iterator, self._options)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver, when all tasks have ended: there is nothing left to do but to say so."""
        logger.info("%d rows written by %d tasks", _row_count(messages), len(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver, when a task has failed for good: what was written stays."""
        logger.warning("the write has failed; at least %d of its rows are in Kafka", _row_count(messages))


class StreamWriter(getattr(datasource, "DataSourceStreamArrowWriter", DataSourceStreamWriter)):  # type: ignore[misc]
    """Writes the micro-batches of a stream: as Arrow batches, with PySpark 4.0 as rows."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        """Options that were checked against the stream's schema."""
        self._options = options
        self._schema = schema
        self._turn: Turn | None = None

    def __getstate__(self) -> dict[str, Any]:
        """For the tasks of a micro-batch, and for nobody else, the driver pickles its writer: here the batch begins."""
        if self._options.transactional_id and self._turn is None:
            self._turn = exactly_once.begin(self._options)
        return dict(vars(self))

    def write(self, iterator: Iterator[Any]) -> Written:
        """In a task: writes its rows, returns when they are acknowledged.

        :raises WriteError: Not all of them could be.
        :raises ExactlyOnceError: They can't be written exactly once.
        """
        if not hasattr(datasource, "DataSourceStreamArrowWriter"):
            iterator = row_batches(iterator, self._schema)
        if self._turn is not None:
            return _write_once(iterator, self._options, self._turn)
        return _write(iterator, self._options)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """On the driver, when all tasks of a micro-batch have ended.

        Spark notes the batch as done after this. If it is killed before, the batch runs again with the same id, and its
        rows are written for the second time, unless they were written in a transaction, which is committed here.

        :raises ExactlyOnceError: It can't be.
        """
        written = [each for each in messages if isinstance(each, Written) and each.turn is not None and each.partitions]
        if written:
            assert written[0].turn is not None
            assert written[0].query is not None
            partitions = frozenset[Key]().union(*(each.partitions for each in written))
            exactly_once.commit(self._options, written[0].turn, written[0].query, batchId, partitions)
        logger.info("batch %d: %d rows written by %d tasks", batchId, _row_count(messages), len(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """On the driver, when a task has failed for good: the query ends, and what was written stays.

        When it is started again, the batch runs again with the same id. What was written in a transaction is aborted:
        here, if a task has ended well and so could tell which one it is, or else by that start.
        """
        turns = [each.turn for each in messages if isinstance(each, Written) and each.turn is not None]
        if self._options.transactional_id:
            logger.warning("batch %d has failed; nothing of it will be seen", batchId)
            if turns:
                exactly_once.abort(self._options, turns[0])
            return
        logger.warning("batch %d has failed; at least %d of its rows are in Kafka", batchId, _row_count(messages))


def _row_count(messages: Sequence[WriterCommitMessage | None]) -> int:
    return sum(each.rows for each in messages if isinstance(each, Written))


def _checked(options: Mapping[str, str], schema: StructType) -> SinkOptions:
    found = SinkOptions.parse(options)
    check_schema(schema, found)
    if found.transactional_id and "partition" not in schema.fieldNames():
        raise SchemaError(
            "there is no column partition: to write exactly once, each partition's rows have to be in one task; "
            "kafka_native.spark.by_partition(frame, partitions) makes it so"
        )
    return found


def check_schema(schema: StructType, options: SinkOptions) -> None:
    """Makes sure that a frame can be written: its columns, their types, and that each row has a topic.

    Columns of other names aren't looked at. Of several with the same name the first one counts.

    :raises SchemaError: It can't.
    """
    kinds: dict[str, str] = {}
    for field in schema.fields:
        kind = "string" if isinstance(field.dataType, StringType) else field.dataType.simpleString()
        kinds.setdefault(field.name, kind)
    if "value" not in kinds:
        there = ", ".join(kinds) or "none"
        raise SchemaError(f"there is no column value (there are: {there}): select what to write AS value")
    if "topic" not in kinds and options.topic is None:
        raise SchemaError("no row says where it goes: write option topic, or have a column topic")
    for name, allowed in _TYPES.items():
        found = kinds.get(name)
        if found is None or found in allowed or (name == "topic" and options.topic is not None):
            continue
        hint = "drop it" if found == "void" and name != "value" else f"CAST({name} AS {allowed[0]})"
        if name == "headers":
            hint = "make it by array(struct(name AS key, bytes AS value))"
        raise SchemaError(f"column {name} is {found}, but has to be {' or '.join(allowed)}: {hint}")


# --- a task's side ---


def _write(batches: Iterable[pa.RecordBatch], options: SinkOptions) -> Written:
    rows = write_rows(lent, batches, options)
    context = TaskContext.get()
    if context is None:
        return Written(rows)
    epoch = context.getLocalProperty(_BATCH_ID)  # Spark tells write() in no other way which micro-batch it is
    return Written(rows, context.partitionId(), context.attemptNumber(), None if epoch is None else int(epoch))


def _write_once(batches: Iterable[pa.RecordBatch], options: SinkOptions, turn: Turn) -> Written:
    """The same in the transaction of a micro-batch."""
    query, batch_id = exactly_once.batch_of_task()
    writing = exactly_once.writing(options, turn)
    done = turn.has_done(query, batch_id)
    if done:
        logger.info("batch %d is committed already: it is left out", batch_id)
    rows = 0 if done else write_rows(lent, batches, options, writing)
    return Written(rows, batch_id=batch_id, query=query, turn=turn, partitions=writing.written)


def write_rows(
    producer_of: _ProducerOf, batches: Iterable[pa.RecordBatch], options: SinkOptions, writing: Writing | None = None
) -> int:
    """Writes all rows of some Arrow batches, and returns when they are acknowledged.

    Columns are found by name: ``value``, and if they are there ``key``, ``topic``, ``partition`` and ``headers``.

    :param producer_of: Lends a producer; `kafka_native.spark.producers.lent`.
    :param options: The producer's configuration, and the topic if all rows have the same.
    :param writing: The transaction that the rows are to be part of; None: none.
    :return: How many rows there were.
    :raises WriteError: A row wasn't written. The rest isn't tried, and what is queued is given up.
    :raises ExactlyOnceError: The transaction is over, or somebody else writes to one of its partitions.
    """
    limit_s = patience_s(options)
    with producer_of(options) as producer, nullcontext() if writing is None else writing.joined(producer):
        outcome = _Outcome(producer.fatal_error, None if writing is None else partial(exactly_once.check, producer))
        for batch in batches:
            _check_rows(batch, options)
            if writing is not None:
                writing.claim(_targets(batch, options))
            _queue(producer, batch, options, outcome, limit_s)
        deadline = time.monotonic() + limit_s
        while producer.flush(_CHECK_INTERVAL_S) or len(producer):
            outcome.check()
            if time.monotonic() > deadline:
                raise WriteError(f"{len(producer)} of {outcome.queued} rows have no outcome after {limit_s:.0f} s")
        outcome.check()
    settle()
    return outcome.queued


class _Outcome:
    """What has become of a task's rows so far."""

    def __init__(self, fatal: Callable[[], KafkaError | None], look: Callable[[], None] | None = None) -> None:
        """``fatal``: why the producer has ended, if it has: rows that were queued only say that they were given up.

        ``look`` raises what no row's report tells: that nothing of the transaction can be seen any more.
        """
        self._fatal = fatal
        self._look = look
        self.queued = 0
        self.failed = 0
        self.first = ""

    def take(self, rows: pa.RecordBatch, topic: str | None, report: ArrowReport) -> None:
        """What became of some rows, which have all the same topic or a column that tells."""
        if report.error is None:
            return
        if not self.failed:
            index = report.failed[0][0]
            partitions = _column(rows, "partition")
            partition = None if partitions is None else partitions[index].as_py()
            where = f"topic {topic or rows.column('topic')[index].as_py()}"
            where += "" if partition is None else f", partition {partition}"
            self.first = f"{where}: {report.error.str()} ({report.error.name()})"
        self.failed += report.rows - report.delivered

    def check(self) -> None:
        """Raises what has gone wrong."""
        if self.failed:
            fatal = self._fatal()
            cause = "" if fatal is None else f"; the producer has ended: {fatal.str()}"
            raise WriteError(f"{self.failed} of {self.queued} rows weren't written; the first: {self.first}{cause}")
        if self._look is not None:
            self._look()


def _check_rows(batch: pa.RecordBatch, options: SinkOptions) -> None:
    """What can only be seen in the rows, and would be told less clearly by the producer."""
    if options.topic is None:
        nulls = _column(batch, "topic").null_count
        if nulls:
            raise WriteError(f"{nulls} rows have a null in column topic: write option topic, or filter them out")
    partitions = _column(batch, "partition")
    if options.transactional_id and partitions.null_count:
        raise WriteError(f"{partitions.null_count} rows have a null in column partition: exactly once needs a number")
    if partitions is not None and partitions.null_count < len(partitions):
        least = pc.min(partitions).as_py()
        if least < 0:
            raise WriteError(f"column partition has {least}: write null where the producer is to choose")


def _targets(batch: pa.RecordBatch, options: SinkOptions) -> list[Key]:
    """The partitions that a batch's rows go to."""
    partitions = _column(batch, "partition")
    if options.topic is not None:
        return [(options.topic, number) for number in pc.unique(partitions).to_pylist()]
    topics = _column(batch, "topic")
    found = pa.table({"topic": topics, "partition": partitions}).group_by(["topic", "partition"]).aggregate([])
    return [(row["topic"], row["partition"]) for row in found.to_pylist()]


def _column(batch: pa.RecordBatch, name: str) -> Any:
    """The first column of this name, or None."""
    return batch.column(batch.schema.names.index(name)) if name in batch.schema.names else None


def _queue(producer: Producer, batch: pa.RecordBatch, options: SinkOptions, outcome: _Outcome, limit_s: float) -> None:
    """Queues a batch's rows, those of a partition in their order; waits while the queue is full."""
    columns = {name: column for name in _TYPES if (column := _column(batch, name)) is not None}
    if options.topic is not None:
        columns.pop("topic", None)
    roles: dict[str, Any] = {"topic_column" if name == "topic" else name: name for name in columns}
    rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    deadline = time.monotonic() + limit_s
    while rows.num_rows:
        take = partial(outcome.take, rows, options.topic)
        try:
            count = producer.produce_arrow(options.topic, rows, **roles, on_delivery=take, timeout=_CHECK_INTERVAL_S)
        except BufferError as full:
            count = full.rows  # type: ignore[attr-defined]
        except (KafkaException, TypeError, ValueError) as error:
            raise WriteError(f"after {outcome.queued} rows of the task: {error}") from error
        outcome.queued += count
        rows = rows.slice(count)
        if count:
            deadline = time.monotonic() + limit_s
        elif time.monotonic() > deadline:
            raise WriteError(f"the producer's queue has been full for {limit_s:.0f} s")
        producer.poll(0)
        outcome.check()


def row_batches(rows: Iterator[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Arrow batches of Spark's rows, with the columns that are written: for PySpark 4.0, whose streams have no others.

    :param schema: The rows' columns; checked by `check_schema`.
    """
    places: dict[str, tuple[int, pa.DataType]] = {}
    for index, field in enumerate(schema.fields):
        kind = "string" if isinstance(field.dataType, StringType) else field.dataType.simpleString()
        if field.name in _TYPES and kind in _TYPES[field.name]:
            places.setdefault(field.name, (index, _ROW_TYPES[kind]))
    while chunk := list(itertools.islice(rows, _ROWS_AT_ONCE)):
        columns = [pa.array([row[index] for row in chunk], kind) for index, kind in places.values()]
        yield pa.RecordBatch.from_arrays(columns, names=list(places))
