"""Writes frames and streams to Kafka: the sinks of ``format("kafka_native")``.

Columns and options mean the same as in Spark's own connector. The driver checks the schema. Each
task takes Arrow batches from Spark, queues their rows in a pooled producer, and ends when all rows
are acknowledged. If a row can't be delivered, the task fails, and Spark runs it again from its
first row. So each row is written at least once.

With ``kafka.transactional.id`` a stream's rows are written exactly once (`exactly_once`). The
transaction of a micro-batch begins when the driver pickles the writer for the tasks. The tasks
write to it (`_write_once`). `StreamWriter.commit` ends it. Spark makes a new writer for that, so
the tasks' commit messages (`Written`) carry the facts that it needs.

With ``deadLetters`` a row that can't be written fails nothing: see `sink_dead_letters`.
"""

from __future__ import annotations

import itertools
import re
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import Row, StringType, StructType

from kafka_native import ArrowReport, KafkaError, KafkaException, Producer
from kafka_native.codecs import SchemaError as ColumnSchemaError
from kafka_native.spark import (
    column_types,
    exactly_once,
    kept_encodings,
    task_reports,
    typed_sink,
)
from kafka_native.spark.client_pool import freeze_imports
from kafka_native.spark.errors import OptionError
from kafka_native.spark.exactly_once import BatchTransaction, TaskAttempt
from kafka_native.spark.log import logger
from kafka_native.spark.offsets import UNKNOWN_PARTITION_ERRORS, Key
from kafka_native.spark.options import SinkOptions
from kafka_native.spark.producers import borrowed, delivery_timeout_s, wait_for_outcomes

if TYPE_CHECKING:
    from kafka_native.spark.sink_dead_letters import KeptLetters, RowLetters

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
    HEADERS_TYPE: column_types.HEADERS,
}
_ROWS_AT_ONCE: Final = 10_000
_CHECK_INTERVAL_S: Final = 0.5
"""Seconds that a task waits for room or acknowledgements between two checks for failed rows."""
_BATCH_ID: Final = "streaming.sql.batchId"

_ProducerOf = Callable[[SinkOptions], AbstractContextManager[Producer]]


class SchemaError(ValueError):
    """The frame can't be written. The text names the wrong column and says what to do."""


class WriteError(RuntimeError):
    """Rows of a task weren't written.

    The text has the first error, its topic and the number of failed rows. Rows before and after it
    may be in Kafka. The next attempt writes all rows of the task again.
    """


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """A task's result, sent to the driver."""

    rows: int
    """The number of acknowledged rows."""
    partition: int | None = None
    """The task's partition of the frame."""
    attempt: int | None = None
    """0 for the first attempt. Later ones may write rows again."""
    batch_id: int | None = None
    """The micro-batch's id; None for a batch query."""
    query: str | None = None
    """The stream's id, if it is written exactly once or has dead letters."""
    transaction: BatchTransaction | None = None
    """The transaction of the rows; None: there is none."""
    partitions: frozenset[Key] = frozenset()
    """The partitions that the task has written to in the transaction."""
    dead: int = 0
    """The number of rows that are dead letters."""
    letters: tuple[str, ...] = ()
    """The task's files of dead letters, which the driver publishes."""
    kept: bytes = field(default=b"", repr=False)
    """Its dead letters for a topic, which the driver writes in the transaction."""
    is_repeated: bool = False
    """Whether the micro-batch was committed already, so that the task wrote nothing."""


# --- the driver's side ---


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """Make the writer of ``frame.write``.

    :param options: Spark's options.
    :param overwrite: Whether the save mode is overwrite. A topic can't be overwritten.
    :raises OptionError: An option is invalid, or the mode isn't append.
    :raises SchemaError: The frame has no column ``value``, or a column has a wrong type.
    """
    if overwrite:
        raise OptionError(
            "mode", 'a topic can\'t be overwritten, rows are added to it: write mode("append")'
        )
    reason = "a batch query has no id, so its repetition looks like another query: write a stream"
    checked = _checked(options, schema).without_transactions(reason)
    if checked.dead_letters is not None:
        _check_letters(checked)
    return BatchWriter(checked)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """Make the writer of ``frame.writeStream``.

    Spark calls this for each micro-batch, and again in the process that commits the micro-batch.

    :param options: Spark's options.
    :param overwrite: Whether the output mode is complete: each micro-batch has the whole result.
        The rows are appended, like in Spark's own connector.
    :raises OptionError: An option is invalid.
    :raises SchemaError: The frame has no column ``value``, or a column has a wrong type.
    """
    checked = _checked(options, schema, is_stream=True)
    if checked.encodings is not None and not hasattr(datasource, "DataSourceStreamArrowWriter"):
        raise OptionError("value.format", "streams of typed columns need PySpark 4.1 or newer")
    return StreamWriter(checked, schema)


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of a frame."""

    def __init__(self, options: SinkOptions) -> None:
        """Take options that were checked against the frame's schema."""
        self._options = options
        self._id = uuid.uuid4().hex
        """The name of the file of dead letters."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task, and return when they are acknowledged.

        :raises WriteError: Some rows weren't written.
        :raises DeadLetterError: Dead letters weren't written.
        """
        return _write(iterator, self._options, self._id)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish the dead letters and log the result, on the driver, when all tasks have ended."""
        _publish_letters(self._options, messages, self._id)
        logger.info("%s written by %d tasks", _counts(messages), len(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log the failure, on the driver, after a task's last failed attempt. Written rows stay."""
        _discard_letters(self._options, messages)
        logger.warning(
            "the write has failed; at least %d of its rows are in Kafka", _row_count(messages)
        )


class StreamWriter(getattr(datasource, "DataSourceStreamArrowWriter", DataSourceStreamWriter)):  # type: ignore[misc]
    """Writes the micro-batches of a stream, as Arrow batches; with PySpark 4.0 as rows."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        """Take options that were checked against the stream's schema."""
        self._options = options
        self._schema = schema
        self._transaction: BatchTransaction | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Begin the transaction of a micro-batch.

        The driver pickles its writer only for the tasks of a micro-batch.
        """
        if self._options.dead_letters is not None:
            _check_letters(self._options)
        if self._options.transactional_id and self._transaction is None:
            self._transaction = exactly_once.begin(self._options)
        return dict(vars(self))

    def write(self, iterator: Iterator[Any]) -> Written:
        """Write the rows of a task, and return when they are acknowledged.

        :raises WriteError: Some rows weren't written.
        :raises DeadLetterError: Dead letters weren't written.
        :raises ExactlyOnceError: They can't be written exactly once.
        """
        if not hasattr(datasource, "DataSourceStreamArrowWriter"):
            iterator = row_batches(iterator, self._schema)
        if self._transaction is not None:
            return _write_once(iterator, self._options, self._transaction)
        return _write(iterator, self._options)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Commit a micro-batch, on the driver, when all its tasks have ended.

        Spark records the batch as done afterwards. If Spark is killed before that, it runs the
        batch again with the same id. Without a transaction that writes the rows a second time. The
        file of dead letters is replaced then.

        :raises ExactlyOnceError: The transaction can't be committed.
        """
        tasks = [each for each in messages if isinstance(each, Written)]
        if self._options.dead_letters is not None and tasks and not tasks[0].is_repeated:
            assert tasks[0].query is not None
            _publish_letters(self._options, messages, _letters_name(tasks[0].query, batchId))
        if tasks and tasks[0].transaction is not None:
            assert tasks[0].query is not None
            partitions = frozenset[Key]().union(*(each.partitions for each in tasks))
            exactly_once.commit(
                self._options,
                tasks[0].transaction,
                tasks[0].query,
                batchId,
                partitions,
                _kept_letters(self._options, tasks),
            )
        logger.info("batch %d: %s written by %d tasks", batchId, _counts(messages), len(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Abort a micro-batch, on the driver, after a task's last failed attempt. The query ends.

        A restarted query runs the batch again with the same id. Rows without a transaction stay.
        A transaction is aborted here if a finished task has named it, otherwise by the restart.
        """
        _discard_letters(self._options, messages)
        transactions = [
            each.transaction
            for each in messages
            if isinstance(each, Written) and each.transaction is not None
        ]
        if self._options.transactional_id:
            logger.warning("batch %d has failed; nothing of it will be seen", batchId)
            if transactions:
                exactly_once.abort(self._options, transactions[0])
            return
        logger.warning(
            "batch %d has failed; at least %d of its rows are in Kafka",
            batchId,
            _row_count(messages),
        )


def _row_count(messages: Sequence[WriterCommitMessage | None]) -> int:
    return sum(each.rows for each in messages if isinstance(each, Written))


def _counts(messages: Sequence[WriterCommitMessage | None]) -> str:
    dead = sum(each.dead for each in messages if isinstance(each, Written))
    return f"{_row_count(messages)} rows" + (f" and {dead} dead letters" if dead else "")


# These functions import `sink_dead_letters` themselves, because most sinks have no dead letters.


def _check_letters(options: SinkOptions) -> None:
    from kafka_native.spark.sink_dead_letters import check_target

    check_target(options)


def _letters_name(query: str, batch_id: int) -> str:
    from kafka_native.spark.sink_dead_letters import file_name

    return file_name(query, batch_id)


def _publish_letters(
    options: SinkOptions, messages: Sequence[WriterCommitMessage | None], name: str
) -> None:
    if options.dead_letters is None or options.dead_letters.sink is not None:
        return
    from kafka_native.spark.sink_dead_letters import publish

    publish(options.dead_letters, name, _letter_files(messages))


def _kept_letters(options: SinkOptions, tasks: Sequence[Written]) -> KeptLetters | None:
    """The tasks' dead letters for a topic, in a transaction; None: there are none."""
    target = options.dead_letters
    if target is None or target.sink is None or not any(each.kept for each in tasks):
        return None
    from kafka_native.spark.sink_dead_letters import KeptLetters

    kept = [each.kept for each in tasks if each.kept]
    return KeptLetters(str(target.sink.topic), kept, delivery_timeout_s(options))


def _discard_letters(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    if options.dead_letters is None or options.dead_letters.sink is not None:
        return
    from kafka_native.spark.sink_dead_letters import discard

    discard(options.dead_letters, _letter_files(messages))


def _letter_files(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    return [path for each in messages if isinstance(each, Written) for path in each.letters]


def _checked(
    options: Mapping[str, str], schema: StructType, is_stream: bool = False
) -> SinkOptions:
    found = SinkOptions.parse(options)
    check_schema(schema, found)
    if found.typed is not None:
        encodings = (
            kept_encodings.stream_encodings(found, found.typed, schema, typed_sink.OTHERS)
            if is_stream
            else typed_sink.find_encodings(found.typed, found.topic, schema, typed_sink.OTHERS)
        )
        found = replace(found, encodings=encodings)
    if found.transactional_id and "partition" not in schema.fieldNames():
        raise SchemaError(
            "there is no column partition: to write exactly once, each partition's rows have to be "
            "in one task; kafka_native.spark.by_partition(frame, partitions) makes it so"
        )
    return found


def check_schema(schema: StructType, options: SinkOptions) -> None:
    """Check that a frame can be written: its columns, their types, a topic for each row.

    Columns with other names are ignored. Of several columns with one name the first counts.

    :raises SchemaError: The frame can't be written.
    """
    kinds: dict[str, str] = {}
    for each in schema.fields:
        kind = "string" if isinstance(each.dataType, StringType) else each.dataType.simpleString()
        kinds.setdefault(each.name, kind)
    encoded = () if options.typed is None else [each.name for each in options.typed.decodings]
    if "value" not in kinds and "value" not in encoded:
        there = ", ".join(kinds) or "none"
        raise SchemaError(
            f"there is no column value (there are: {there}): select what to write AS value"
        )
    if "topic" not in kinds and options.topic is None:
        raise SchemaError("no row says where it goes: write option topic, or have a column topic")
    for name, allowed in _TYPES.items():
        found = kinds.get(name)
        if (
            found is None
            or name in encoded
            or found in allowed
            or (name == "topic" and options.topic is not None)
        ):
            continue
        hint = "drop it" if found == "void" and name != "value" else f"CAST({name} AS {allowed[0]})"
        if name == "headers":
            hint = "make it by array(struct(name AS key, bytes AS value))"
        raise SchemaError(f"column {name} is {found}, but has to be {' or '.join(allowed)}: {hint}")


# --- in a task ---


def _write(
    batches: Iterable[pa.RecordBatch], options: SinkOptions, name: str | None = None
) -> Written:
    """Write rows without a transaction.

    :param name: The name of the file of dead letters; None: that of the micro-batch.
    """
    context = TaskContext.get()
    # Spark passes the micro-batch's id to write() only in this property.
    epoch = None if context is None else context.getLocalProperty(_BATCH_ID)
    query = None
    if options.dead_letters is not None and name is None:
        query, batch_id = exactly_once.batch_of_task()
        name = _letters_name(query, batch_id)
    with _opened_letters(options, name) as letters:
        rows = write_rows(borrowed, batches, options, letters=letters)
    return Written(
        rows,
        None if context is None else context.partitionId(),
        None if context is None else context.attemptNumber(),
        None if epoch is None else int(epoch),
        query,
        dead=0 if letters is None else letters.rows,
        letters=() if letters is None else letters.parts,
    )


def _opened_letters(
    options: SinkOptions, name: str | None
) -> AbstractContextManager[RowLetters | None]:
    if options.dead_letters is None:
        return nullcontext()
    from kafka_native.spark.sink_dead_letters import RowLetters

    return RowLetters(options, str(name))


def _write_once(
    batches: Iterable[pa.RecordBatch], options: SinkOptions, transaction: BatchTransaction
) -> Written:
    """Write rows in the transaction of a micro-batch."""
    query, batch_id = exactly_once.batch_of_task()
    attempt = exactly_once.current_attempt(options, transaction)
    if transaction.has_done(query, batch_id):
        logger.info("batch %d is committed already: it is left out", batch_id)
        return Written(0, batch_id=batch_id, query=query, transaction=transaction, is_repeated=True)
    name = _letters_name(query, batch_id) if options.dead_letters is not None else None
    with _opened_letters(options, name) as letters:
        rows = write_rows(borrowed, batches, options, attempt, letters)
    return Written(
        rows,
        batch_id=batch_id,
        query=query,
        transaction=transaction,
        partitions=attempt.written,
        dead=0 if letters is None else letters.rows,
        letters=() if letters is None else letters.parts,
        kept=b"" if letters is None else letters.kept,
    )


def write_rows(
    producer_of: _ProducerOf,
    batches: Iterable[pa.RecordBatch],
    options: SinkOptions,
    attempt: TaskAttempt | None = None,
    letters: RowLetters | None = None,
) -> int:
    """Write all rows of Arrow batches, and return when they are acknowledged.

    The columns are ``value`` and, optionally, ``key``, ``topic``, ``partition`` and ``headers``.

    :param producer_of: Borrows a producer, such as `kafka_native.spark.producers.borrowed`.
    :param options: The producer's configuration, and the topic if all rows go to one.
    :param attempt: The attempt in a transaction; None: no transaction.
    :param letters: Takes the rows that can't be written, and is ended; None: they are errors.
    :return: The number of rows that were written.
    :raises WriteError: A row wasn't written. Later rows aren't tried; queued rows are dropped.
    :raises ExactlyOnceError: The transaction is over, or another task writes to one of its
        partitions.
    """
    limit_s = delivery_timeout_s(options)
    size = 0
    began = time.monotonic()
    with (
        producer_of(options) as producer,
        nullcontext()
        if attempt is None
        else attempt.joined(producer, tolerant=letters is not None),
    ):
        outcome = _Outcome(
            producer.fatal_error,
            None if attempt is None else partial(exactly_once.check, producer),
            letters,
        )
        for batch in batches:
            size += batch.get_total_buffer_size()  # nbytes takes ten times as long
            rows = _without_invalid(batch, options, letters)
            if attempt is not None:
                rows = _claimed(rows, options, attempt, producer, letters)
            if letters is None:
                _queue(producer, rows, options, outcome, limit_s)
            else:
                _queue_fitting(producer, rows, options, outcome, limit_s, letters)
                letters.end_batch()
        if not wait_for_outcomes(producer, limit_s, outcome.check):
            raise WriteError(
                f"{len(producer)} of {outcome.queued} rows have no outcome after {limit_s:.0f} s"
            )
        written = outcome.queued - outcome.dead
    if letters is not None:
        _end_letters(letters, options)
    dead = 0 if letters is None else letters.rows
    task_reports.log_written(written, size, time.monotonic() - began, options, dead)
    freeze_imports()
    return written


def _end_letters(letters: RowLetters, options: SinkOptions) -> None:
    letters.end()
    if letters.rows:
        logger.warning(
            "%d rows are dead letters in %s; the first: %s",
            letters.rows,
            options.dead_letters,
            letters.first_reason,
        )


class _Outcome:
    """Counts the queued and the failed rows of a task."""

    def __init__(
        self,
        fatal: Callable[[], KafkaError | None],
        check_transaction: Callable[[], None] | None = None,
        letters: RowLetters | None = None,
    ) -> None:
        """Start at zero.

        ``fatal`` returns the producer's fatal error, if any: the reports of queued rows don't have
        its cause. ``check_transaction`` raises if the transaction is over. No row's report says
        that. ``letters`` takes the rows whose error is their own fault.
        """
        self._fatal = fatal
        self._check_transaction = check_transaction
        self._letters = letters
        self.queued = 0
        self.failed = 0
        self.dead = 0
        """The number of queued rows that are dead letters now."""
        self.first = ""

    def take(self, rows: pa.RecordBatch, topic: str | None, report: ArrowReport) -> None:
        """Take the delivery report of rows. They have one topic, or a column with the topic."""
        if report.error is None:
            return
        letters = self._letters
        refused: dict[int, str] = {}
        for index, error in report.failed:
            if letters is not None and letters.takes(error):
                refused[index] = _error_text(error)
                continue
            if not self.failed:
                partitions = _column(rows, "partition")
                partition = None if partitions is None else partitions[index].as_py()
                where = f"topic {topic or rows.column('topic')[index].as_py()}"
                where += "" if partition is None else f", partition {partition}"
                self.first = f"{where}: {_error_text(error)}"
            self.failed += 1
        if letters is not None and refused:
            letters.add_refused(rows.take(pa.array(list(refused))), list(refused.values()))
            self.dead += len(refused)

    def check(self) -> None:
        """Raise an error if a row has failed or the transaction is over."""
        if self.failed:
            fatal = self._fatal()
            cause = "" if fatal is None else f"; the producer has ended: {fatal.str()}"
            raise WriteError(
                f"{self.failed} of {self.queued} rows weren't written; the first: "
                f"{self.first}{cause}"
            )
        if self._check_transaction is not None:
            self._check_transaction()


def _error_text(error: KafkaError) -> str:
    """An error of a row. The producer itself refuses rows that are too large for any request."""
    limit = re.search(r"over message\.max\.bytes=([0-9]+)", error.str())
    if limit is None:
        return f"{error.str()} ({error.name()})"
    return (
        f"a row is larger than kafka.max.request.size={limit[1]} ({error.name()}): write a larger "
        "limit; that of the topic (max.message.bytes) may have to grow, too"
    )


def _without_invalid(
    batch: pa.RecordBatch, options: SinkOptions, letters: RowLetters | None
) -> pa.RecordBatch:
    """Leave out the rows without a place, as dead letters.

    They are checked here, because the producer's error would be less clear.

    :raises WriteError: There are such rows, and nothing takes them.
    """
    if options.topic is None and (nulls := _column(batch, "topic").null_count):
        if letters is None:
            raise WriteError(
                f"{nulls} rows have a null in column topic: write option topic, or filter them out"
            )
        is_bad = _column(batch, "topic").is_null()
        batch = _without(batch, is_bad, letters, "column topic is null")
    partitions = _column(batch, "partition")
    if options.transactional_id and partitions.null_count:
        if letters is None:
            raise WriteError(
                f"{partitions.null_count} rows have a null in column partition: exactly once "
                "needs a number"
            )
        text = "column partition is null: exactly once needs a number"
        batch = _without(batch, partitions.is_null(), letters, text)
        partitions = _column(batch, "partition")
    if partitions is not None and partitions.null_count < len(partitions):
        least = pc.min(partitions).as_py()
        if least < 0:
            text = f"column partition has {least}: write null where the producer is to choose"
            if letters is None:
                raise WriteError(text)
            is_bad = pc.fill_null(pc.less(partitions, 0), False)
            batch = _without(batch, is_bad, letters, text)
    return batch


def _without(
    batch: pa.RecordBatch, is_bad: pa.Array, letters: RowLetters, reason: str
) -> pa.RecordBatch:
    bad = batch.filter(is_bad)
    letters.add_refused(bad, [reason] * bad.num_rows)
    return batch.filter(pc.invert(is_bad))


def _claimed(
    rows: pa.RecordBatch,
    options: SinkOptions,
    attempt: TaskAttempt,
    producer: Producer,
    letters: RowLetters | None,
) -> pa.RecordBatch:
    """Claim the partitions of rows. Rows whose partition doesn't exist are dead letters.

    :raises ExactlyOnceError: Another task writes to one of the partitions.
    :raises KafkaException: A partition doesn't exist, and nothing takes its rows.
    """
    targets = _targets(rows, options)
    if letters is None:
        attempt.claim(targets)
        return rows
    dead = options.dead_letters
    if (
        dead is not None
        and dead.sink is not None
        and dead.sink.topic in {key[0] for key in targets}
    ):
        raise WriteError(f"rows name topic {dead.sink.topic}, which has the dead letters")
    if not attempt.written.issuperset(targets):
        letters.missing.update(_missing(producer, targets, letters.missing, options.propagation_s))
    for topic, partition in letters.missing.keys() & targets:
        error = letters.missing[topic, partition]
        if letters.takes(error):
            is_bad = pc.equal(_column(rows, "partition"), partition)
            if options.topic is None:
                is_bad = pc.and_(is_bad, pc.equal(_column(rows, "topic"), topic))
            rows = _without(rows, is_bad, letters, _error_text(error))
    attempt.claim(_targets(rows, options))
    return rows


def _missing(
    producer: Producer, targets: Collection[Key], known: Collection[Key], propagation_s: float
) -> dict[Key, KafkaError]:
    """The partitions that don't exist, with their errors. Some brokers learn of a topic later."""
    until = time.monotonic() + propagation_s
    left = set(targets).difference(known)
    while True:
        errors: dict[Key, KafkaError] = {}
        for topic in {key[0] for key in left}:
            found = producer.list_topics(topic, exactly_once.CALL_TIMEOUT_S).topics.get(topic)
            is_missing = found is None or (
                found.error is not None and found.error.code() in UNKNOWN_PARTITION_ERRORS
            )
            for key in (each for each in left if each[0] == topic):
                if is_missing:
                    text = f"topic {topic} doesn't exist"
                    errors[key] = KafkaError(KafkaError._UNKNOWN_TOPIC, text)
                elif found is not None and found.error is None and key[1] not in found.partitions:
                    text = f"partition {key[1]} of topic {topic} doesn't exist"
                    errors[key] = KafkaError(KafkaError._UNKNOWN_PARTITION, text)
        if not errors or time.monotonic() > until:
            return errors
        left = set(errors)
        time.sleep(_CHECK_INTERVAL_S)


def _targets(batch: pa.RecordBatch, options: SinkOptions) -> list[Key]:
    """The partitions of a batch's rows."""
    partitions = _column(batch, "partition")
    if options.topic is not None:
        return [(options.topic, number) for number in pc.unique(partitions).to_pylist()]
    topics = _column(batch, "topic")
    found = (
        pa.table({"topic": topics, "partition": partitions})
        .group_by(["topic", "partition"])
        .aggregate([])
    )
    return [(row["topic"], row["partition"]) for row in found.to_pylist()]


def _column(batch: pa.RecordBatch, name: str) -> Any:
    """The first column of this name, or None."""
    return batch.column(batch.schema.names.index(name)) if name in batch.schema.names else None


def _queue_fitting(
    producer: Producer,
    batch: pa.RecordBatch,
    options: SinkOptions,
    outcome: _Outcome,
    limit_s: float,
    letters: RowLetters,
) -> None:
    """Queue a batch's rows in order. Rows that can't become messages are dead letters.

    The encoder names the rows that don't encode. Otherwise halves of the batch are tried.
    """
    left = [batch]  # the last one is the next
    while left:
        part = left.pop()
        if not part.num_rows:
            continue
        before = outcome.queued
        try:
            part, encoded = _encoded(part, letters)
            _queue(producer, part, options, outcome, limit_s, encoded)
        except WriteError as error:
            cause = error.__cause__
            if not isinstance(cause, ValueError) or isinstance(cause, ColumnSchemaError):
                raise
            part = part.slice(outcome.queued - before)
            if part.num_rows > 1:
                half = part.num_rows // 2
                left += [part.slice(half), part.slice(0, half)]
            else:
                names = [] if options.encodings is None else options.encodings.columns
                path = names[0].name if len(names) == 1 else ""
                letters.add_unfit(part.take(pa.array([0])), [str(cause)], [path])


def _encoded(
    batch: pa.RecordBatch, letters: RowLetters
) -> tuple[pa.RecordBatch, dict[str, pa.Array]]:
    """Encode a batch, and leave out the rows that don't encode, as dead letters.

    :return: The other rows, and the bytes of their encoded columns.
    :raises WriteError: A number is out of range for its column's type.
    """
    try:
        encoded, errors = letters.encoded(batch)
    except ValueError as error:
        raise WriteError(str(error)) from error
    if not errors:
        return batch, encoded
    errors.sort(key=lambda each: each.row)
    bad = [each.row for each in errors]
    letters.add_unfit(
        batch.take(pa.array(bad)), [each.problem for each in errors], [each.path for each in errors]
    )
    good = _all_but(bad, batch.num_rows)
    return batch.filter(good), {name: array.filter(good) for name, array in encoded.items()}


def _all_but(rows: Iterable[int], count: int) -> pa.BooleanArray:
    """A mask for all rows but some. Python lists of all rows would take most of the time."""
    bits = bytearray(b"\xff" * ((count + 7) // 8))
    for row in rows:
        bits[row // 8] &= ~(1 << row % 8)
    return pa.BooleanArray.from_buffers(pa.bool_(), count, [None, pa.py_buffer(bits)])


def _queue(
    producer: Producer,
    batch: pa.RecordBatch,
    options: SinkOptions,
    outcome: _Outcome,
    limit_s: float,
    encoded: Mapping[str, pa.Array] | None = None,
) -> None:
    """Queue a batch's rows in order. Wait while the producer's queue is full.

    :param encoded: The bytes of the encoded columns; None: the producer encodes them.
    """
    columns = {name: column for name in _TYPES if (column := _column(batch, name)) is not None}
    if options.topic is not None:
        columns.pop("topic", None)
    roles: dict[str, Any] = {"topic_column" if name == "topic" else name: name for name in columns}
    if encoded is not None:
        columns |= encoded
        roles |= {name: name for name in encoded}
    elif options.encodings is not None:
        _add_encoded(batch, typed_sink.codecs_of(options.encodings), columns, roles, outcome)
    rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    deadline = time.monotonic() + limit_s
    while rows.num_rows:
        take = partial(outcome.take, batch, options.topic)
        try:
            count = producer.produce_arrow(
                options.topic, rows, **roles, on_delivery=take, timeout=_CHECK_INTERVAL_S
            )
        except BufferError as full:
            count = full.queued  # type: ignore[attr-defined]
        except (KafkaException, TypeError, ValueError) as error:
            raise WriteError(f"after {outcome.queued} rows of the task: {error}") from error
        outcome.queued += count
        rows, batch = rows.slice(count), batch.slice(count)
        if count:
            deadline = time.monotonic() + limit_s
        elif time.monotonic() > deadline:
            raise WriteError(f"the producer's queue has been full for {limit_s:.0f} s")
        producer.poll(0)
        outcome.check()


def _add_encoded(
    batch: pa.RecordBatch,
    codecs: Mapping[str, typed_sink.PinnedCodec],
    columns: dict[str, Any],
    roles: dict[str, Any],
    outcome: _Outcome,
) -> None:
    """Add the columns to encode, and their codecs as roles."""
    for name, codec in codecs.items():
        roles[name], roles[f"{name}_columns"] = codec, name
        try:
            if name not in columns:  # the fields of the value are columns of their own
                fields = typed_sink.record_columns(batch.schema.names, typed_sink.OTHERS)
                whole = [_column(batch, each) for each in fields]
                value = codec.column(pa.StructArray.from_arrays(whole, names=fields))
                columns |= {each: value.field(number) for number, each in enumerate(fields)}
                roles["value_columns"] = fields
            else:
                columns[name] = codec.column(columns[name])
        except ValueError as error:
            raise WriteError(
                f"after {outcome.queued} rows of the task: column {name}: {error}"
            ) from error


def row_batches(rows: Iterator[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Convert Spark's rows to Arrow batches, for streams of PySpark 4.0.

    :param schema: The rows' columns, after `check_schema`.
    """
    places: dict[str, tuple[int, pa.DataType]] = {}
    for index, each in enumerate(schema.fields):
        kind = "string" if isinstance(each.dataType, StringType) else each.dataType.simpleString()
        if each.name in _TYPES and kind in _TYPES[each.name]:
            places.setdefault(each.name, (index, _ROW_TYPES[kind]))
    while chunk := list(itertools.islice(rows, _ROWS_AT_ONCE)):
        columns = [pa.array([row[index] for row in chunk], kind) for index, kind in places.values()]
        yield pa.RecordBatch.from_arrays(columns, names=list(places))
