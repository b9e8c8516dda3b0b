"""Dead letters: records that don't decode, written to a topic or a folder (``deadLetters``).

The task that reads a range takes these records out of the frame. A `DeadLetterWriter` stores them
with their place, their raw bytes, and the reason. It ends with the range: the folder's file appears
as a whole, and the topic's messages are acknowledged.
"""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_native import ArrowReport, KafkaException, Producer
from kafka_native.spark import column_types
from kafka_native.spark.client_pool import admitted
from kafka_native.spark.errors import DeadLetterError, OptionError
from kafka_native.spark.folder import Folder, checked_topic, shortened
from kafka_native.spark.options import DeadLetterTarget, SinkOptions, SourceOptions
from kafka_native.spark.producers import borrowed, delivery_timeout_s, wait_for_outcomes
from kafka_native.spark.ranges import OffsetRange

__all__ = [
    "HEADERS",
    "SCHEMA",
    "UNFINISHED",
    "DeadLetterWriter",
    "LetterFile",
    "LetterProducer",
    "add_headers",
    "check_place",
    "check_target",
    "file_name",
    "letters_of",
    "open_writer",
    "remove_stale",
    "topic_id_of",
    "with_headers",
]

UNFINISHED: Final = "_unfinished"
"""The subfolder of files that tasks write. Spark and pyarrow ignore names that begin with ``_``."""
_DIGITS: Final = 19
"""The digits of offsets in the names of files."""
_SAFE: Final = str.maketrans("+/", "-_")
"""For topic ids, which are base64, in file names."""
_NAME: Final = re.compile(
    rf"(?P<topic>.+)-(?P<partition>[0-9]+)-(?P<start>[0-9]{{{_DIGITS}}})-(?P<end>[0-9]{{{_DIGITS}}})"
    r"(?:-(?P<topic_id>.+))?\.parquet"
)
"""A name that `file_name` makes."""

SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestamp_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", column_types.HEADERS),
        ("field", pa.string()),
        ("schema_id", pa.int64()),
        ("schema_guid", pa.string()),
        ("path", pa.string()),
        ("position", pa.int64()),
        ("error", pa.string()),
    ]
)
"""The columns of dead letters. ``replay`` takes the columns up to ``headers``."""

_PENDING: Final = pa.schema(
    [
        SCHEMA.field(name)
        for name in SCHEMA.names
        if name not in ("topic", "partition", "schema_id", "schema_guid", "path", "position")
    ]
)
"""The columns of dead letters that aren't written yet. ``error`` has the whole reason."""

HEADERS: Final[Mapping[str, str]] = {
    "topic": "__connect.errors.topic",
    "partition": "__connect.errors.partition",
    "offset": "__connect.errors.offset",
    "field": "__connect.errors.stage",
    "error": "__connect.errors.exception.message",
    "timestamp": "__kafka_native.errors.timestamp",
    "schema_id": "__kafka_native.errors.schema.id",
    "schema_guid": "__kafka_native.errors.schema.guid",
    "path": "__kafka_native.errors.path",
    "position": "__kafka_native.errors.position",
}
"""The headers of a dead-letter topic by column. Kafka Connect's names where it has the header."""

_ROWS_MAX: Final = 10_000
_BYTES_MAX: Final = 4 << 20
"""Dead letters that are written at once."""
_STAGES: Final = {"key": "KEY_CONVERTER", "value": "VALUE_CONVERTER", None: "KAFKA_PRODUCE"}
"""Kafka Connect's names of the fields. Without a field, the cluster has refused the record."""

_REASON: Final = (
    r"(?s)^(?:schema (?:id (?P<schema_id>[0-9]+)|(?P<schema_guid>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}"
    r"-[0-9a-f]{12}))(?:, |: ))?(?:(?:field (?P<path>.+?), )?byte (?P<position>[0-9]+): )?"
    r"(?P<error>.*)$"
)
"""The parts of a reason. kn_schema_failure_text() in csrc/codecs/schema_decoders.c writes it."""


class DeadLetterWriter(ABC):
    """Writes the dead letters of one range. The range is read again if its task is repeated.

    Dead letters are collected, because each conversion and each write has a cost of its own.
    """

    def __init__(self, range_: OffsetRange) -> None:
        """Open nothing yet."""
        self._range = range_
        self._pending: list[pa.RecordBatch] = []  # that don't decode, as they came
        self._unfit: list[pa.Table] = []
        self._pending_rows = self._pending_bytes = 0
        self.rows = 0
        """The number of dead letters so far."""

    def write(self, malformed: pa.RecordBatch) -> None:
        """Add records that don't decode, as `kafka_native.arrow.MalformedRecords` has them."""
        self._pending.append(malformed.select(_PENDING.names))
        # nbytes takes ten times as long. It differs for slices, which these records aren't.
        self._note(malformed.num_rows, malformed.get_total_buffer_size())

    def write_unfit(self, record: pa.RecordBatch, field: str, reason: str) -> None:
        """Add a record with a value that Spark's type can't have.

        :param record: One row with the source's columns, of which none is decoded.
        :param field: ``key`` or ``value``.
        """
        columns = {name: record.column(name) for name in ("offset", "key", "value", "headers")}
        columns["timestamp_type"] = record.column("timestampType")
        has_timestamp = columns["timestamp_type"][0].as_py() != -1
        columns["timestamp"] = record.column("timestamp") if has_timestamp else pa.nulls(1)
        columns |= {"field": pa.array([field]), "error": pa.array([reason])}
        made = pa.table({name: columns[name] for name in _PENDING.names}).cast(_PENDING)
        self._unfit.append(made)
        self._note(1, made.nbytes)

    def _note(self, rows: int, size_bytes: int) -> None:
        self._pending_rows += rows
        self._pending_bytes += size_bytes
        self.rows += rows

    def end_batch(self) -> None:
        """Note that later records have larger offsets. Many dead letters are written now.

        :raises DeadLetterError: The target doesn't take them.
        """
        if self._pending_rows >= _ROWS_MAX or self._pending_bytes >= _BYTES_MAX:
            self._write_pending()

    def commit(self) -> None:
        """End the range: store all dead letters.

        :raises DeadLetterError: The target doesn't take them.
        """
        if self._pending_rows:
            self._write_pending()
        self._end()

    def _write_pending(self) -> None:
        tables = self._unfit
        if self._pending:
            # One conversion of many batches costs little more than that of one.
            tables = [
                pa.Table.from_batches(self._pending).combine_chunks().cast(_PENDING),
                *tables,
            ]
        whole = pa.concat_tables(tables).combine_chunks()
        if self._unfit:
            # They come after those records of their batch that don't decode.
            whole = whole.sort_by("offset")
        for batch in whole.to_batches():
            self._write(letters_of(batch, self._range))
        self._pending, self._unfit = [], []
        self._pending_rows = self._pending_bytes = 0

    @abstractmethod
    def _write(self, letters: pa.RecordBatch) -> None:
        """Write dead letters with `SCHEMA`."""

    @abstractmethod
    def _end(self) -> None:
        """End the range."""

    @abstractmethod
    def abort(self) -> None:
        """Drop the dead letters, as far as the target allows. The range wasn't read to its end."""


@contextlib.contextmanager
def open_writer(target: DeadLetterTarget, range_: OffsetRange) -> Iterator[DeadLetterWriter]:
    """Make the writer of a range. The ``with`` block has to commit it; otherwise it is aborted."""
    writer: DeadLetterWriter = (
        _FolderWriter(Folder(target.folder), range_)
        if target.sink is None
        else _TopicWriter(target.sink, range_)
    )
    try:
        yield writer
    finally:
        writer.abort()


def check_target(options: SourceOptions) -> None:
    """Check the target on the driver: the first dead letter may come long after the start.

    :raises OptionError: The topic doesn't exist, or the folder can't be made.
    :raises KafkaException: The brokers don't answer, or reject the producer.
    """
    if options.dead_letters is not None:
        interval_s = options.retry_interval_s
        check_place(options.dead_letters, options.api_timeout_s, options.fetch_retries, interval_s)


def check_place(
    target: DeadLetterTarget, timeout_s: float, retries: int, interval_s: float
) -> None:
    """Check that the topic exists, or make the folder. The errors are those of `check_target`."""
    if target.sink is None:
        try:
            Folder(target.folder).make(UNFINISHED)
        except (OSError, ValueError) as error:
            raise OptionError("deadLetters", f"no folder {target}: {error}") from error
        return
    with admitted(Producer(dict(target.sink.producer))) as producer:
        for attempt in range(retries + 1):
            if attempt:
                time.sleep(interval_s)  # this broker may not know a new topic yet
            topics = producer.list_topics(target.sink.topic, timeout_s).topics
            found = topics.get(str(target.sink.topic))
            if found is not None and found.error is None:
                return
    raise OptionError("deadLetters", f"{target} doesn't exist: make it first")


def letters_of(batch: pa.RecordBatch, range_: OffsetRange) -> pa.RecordBatch:
    """Make dead letters with `SCHEMA`.

    :param batch: The columns that `DeadLetterWriter` collects, in the order of the offsets.
    """
    count = batch.num_rows
    reasons = batch.column("error").dictionary_encode()  # many have the same
    parts = pc.extract_regex(reasons.dictionary, _REASON).take(reasons.indices)
    columns = {name: batch.column(name) for name in batch.schema.names}
    columns["topic"] = pa.repeat(range_.topic, count)
    columns["partition"] = pa.repeat(range_.partition, count)
    columns["error"] = parts.field("error")
    for name in ("schema_id", "schema_guid", "path", "position"):
        text = parts.field(name)
        columns[name] = pc.if_else(pc.equal(text, ""), pa.nulls(count, pa.string()), text)
    return pa.RecordBatch.from_arrays(
        [columns[each.name].cast(each.type) for each in SCHEMA], schema=SCHEMA
    )


# --- a folder ---


def file_name(range_: OffsetRange) -> str:
    """The name of a range's file. A repeated task writes the same file again."""
    checked_topic(range_.topic)
    offsets = f"{range_.start:0{_DIGITS}d}-{range_.end:0{_DIGITS}d}"
    topic_id = range_.topic_id.translate(_SAFE)
    name = f"{shortened(range_.topic)}-{range_.partition}-{offsets}"
    return f"{name}-{topic_id}.parquet" if topic_id else f"{name}.parquet"


def topic_id_of(name: str, topic: str, partition: int) -> str:
    """The id of the topic in a name that `file_name` made; empty: there is none."""
    offsets = name.removesuffix(".parquet").removeprefix(f"{shortened(topic)}-{partition}-")
    return offsets[2 * _DIGITS + 2 :]


def remove_stale(options: SourceOptions, ranges: Sequence[OffsetRange]) -> None:
    """Remove the files that an earlier run of a micro-batch has written with other ranges.

    A driver that was killed runs its last micro-batch again, perhaps split into other tasks. Their
    files have other names, so they wouldn't replace the earlier ones. The driver calls this before
    the tasks of the first micro-batch. Files of other micro-batches have other offsets. If it is
    killed meanwhile, the micro-batch runs again.

    :param options: The query's options.
    :param ranges: The ranges of all tasks of the micro-batch.
    """
    if options.dead_letters is None or options.dead_letters.sink is not None:
        return
    whole: dict[tuple[str, int, str], tuple[int, int]] = {}
    for each in ranges:
        place = (shortened(each.topic), each.partition, each.topic_id.translate(_SAFE))
        start, end = whole.get(place, (each.start, each.end))
        whole[place] = min(start, each.start), max(end, each.end)
    kept = {file_name(each) for each in ranges}
    folder = Folder(options.dead_letters.folder)
    for name in folder.names("", ".parquet") - kept:
        found = _NAME.fullmatch(name)
        if found is None:
            continue
        place = (found["topic"], int(found["partition"]), found["topic_id"] or "")
        start, end = whole.get(place, (0, 0))
        if start <= int(found["start"]) and int(found["end"]) <= end:
            folder.delete(name)


class LetterFile:
    """A Parquet file of dead letters, in `UNFINISHED` until it is moved to its place."""

    def __init__(self, folder: Folder, prefix: str, schema: pa.Schema) -> None:
        """``prefix``: the beginning of its name. The first letter makes the file."""
        self._folder = folder
        self._schema = schema
        self._path = f"{UNFINISHED}/{prefix}{uuid.uuid4().hex}.parquet"
        self._writer: Any = None

    def write(self, letters: pa.RecordBatch) -> None:
        """Write dead letters with the schema."""
        if self._writer is None:
            import pyarrow.parquet as pq  # most tasks have no dead letters

            self._folder.make(UNFINISHED)
            self._writer = pq.ParquetWriter(
                self._folder.full(self._path),
                self._schema,
                filesystem=self._folder.fs,
                compression="zstd",
                # With these, a small file takes three quarters of the time.
                use_dictionary=["topic", "field", "error"],
                write_statistics=["partition", "offset"],
            )
        self._writer.write_batch(letters)

    def end(self) -> str:
        """End the file. Return its path in the folder; empty: there are no letters."""
        if self._writer is None:
            return ""
        self._writer.close()
        self._writer = None
        self._folder.sync_file(self._path)
        return self._path

    def abort(self) -> None:
        """Delete the file, unless it has been ended."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self._folder.delete(self._path)


class _FolderWriter(DeadLetterWriter):
    """Writes one Parquet file for a range, if it has dead letters."""

    def __init__(self, folder: Folder, range_: OffsetRange) -> None:
        super().__init__(range_)
        self._folder = folder
        self._name = file_name(range_)
        self._prefix = self._name.removesuffix("parquet")
        self._file = LetterFile(folder, self._prefix, SCHEMA)

    def _write(self, letters: pa.RecordBatch) -> None:
        self._file.write(letters)

    def _end(self) -> None:
        path = self._file.end()
        if not path:
            if self._folder.exists(self._name):  # of an earlier attempt, when records didn't decode
                self._folder.delete(self._name)
            return
        self._folder.move(path, self._name)
        self._folder.sync("")
        for name in self._folder.names(UNFINISHED, ".parquet"):
            if name.startswith(self._prefix):  # of a killed attempt
                self._folder.delete(f"{UNFINISHED}/{name}")

    def abort(self) -> None:
        self._file.abort()


# --- a topic ---


class LetterProducer:
    """Produces a message for each dead letter, with a producer that the first one borrows."""

    def __init__(self, sink: SinkOptions) -> None:
        """``sink``: the topic, and the producer's options."""
        self._sink = sink
        self._limit_s = delivery_timeout_s(sink)
        self._borrowed = contextlib.ExitStack()
        self._producer: Any = None
        self._error = ""

    def send(self, messages: pa.RecordBatch) -> None:
        """Queue messages, as `with_headers` makes them.

        :raises DeadLetterError: The topic doesn't take them.
        """
        if self._producer is None:
            self._producer = self._borrowed.enter_context(borrowed(self._sink))
        try:
            self._producer.produce_arrow(
                self._sink.topic,
                messages,
                value="value",
                key="key",
                headers="headers",
                timestamp="timestamp",
                on_delivery=self._take,
                timeout=self._limit_s,
            )
        except (BufferError, KafkaException) as error:
            raise DeadLetterError(f"topic {self._sink.topic}: {error}") from error
        self._producer.poll(0)
        self._check()

    def end(self) -> None:
        """Wait until all messages are acknowledged.

        :raises DeadLetterError: The topic doesn't take them.
        """
        if self._producer is None:
            return
        if not wait_for_outcomes(self._producer, self._limit_s, self._check):
            raise DeadLetterError(
                f"topic {self._sink.topic}: {len(self._producer)} messages have no outcome "
                f"after {self._limit_s:.0f} s"
            )
        self._producer = None
        self._borrowed.close()

    def abort(self) -> None:
        """Drop the messages that are queued."""
        self._borrowed.close()

    def _take(self, report: ArrowReport) -> None:
        if report.error is not None and not self._error:
            self._error = report.error.str()

    def _check(self) -> None:
        if self._error:
            raise DeadLetterError(
                f"a dead letter wasn't written to topic {self._sink.topic}: {self._error}"
            )


class _TopicWriter(DeadLetterWriter):
    """Produces a message for each dead letter, with the context in headers."""

    def __init__(self, sink: SinkOptions, range_: OffsetRange) -> None:
        super().__init__(range_)
        self._producer = LetterProducer(sink)

    def _write(self, letters: pa.RecordBatch) -> None:
        self._producer.send(with_headers(letters))

    def _end(self) -> None:
        self._producer.end()

    def abort(self) -> None:
        self._producer.abort()


def with_headers(letters: pa.RecordBatch) -> pa.RecordBatch:
    """The messages of dead letters: key, value, timestamp, and the headers with the context."""
    texts = {HEADERS[name]: letters.column(name) for name in HEADERS}
    timestamps = letters.column("timestamp").cast(pa.timestamp("ms", tz="UTC"), safe=False)
    texts[HEADERS["timestamp"]] = timestamps.view(pa.int64())
    stages = [_STAGES[each] for each in letters.column("field").to_pylist()]
    texts[HEADERS["field"]] = pa.array(stages, pa.string())
    headers = add_headers(letters.column("headers"), texts)
    columns = [letters.column(name) for name in ("key", "value", "timestamp")]
    return pa.RecordBatch.from_arrays(
        [*columns, headers], names=["key", "value", "timestamp", "headers"]
    )


def add_headers(headers: pa.ListArray, added: Mapping[str, pa.Array]) -> pa.ListArray:
    """Add headers to each record, after its own ones.

    :param added: The columns of values, as numbers or strings, by the name of the header. A record
        doesn't get a header whose value is null.
    """
    count = len(headers)
    given = headers.flatten()
    columns = [
        pa.StructArray.from_arrays(
            [pa.array([name] * count, pa.string()), values.cast(pa.string()).cast(pa.binary())],
            fields=list(column_types.HEADERS.value_type),
        )
        for name, values in added.items()
    ]
    is_there = [values.is_valid().to_pylist() for values in added.values()]
    places: list[int] = []
    offsets = [0]
    first = 0
    for row, length in enumerate(pc.list_value_length(headers).to_pylist()):
        last = first + (length or 0)
        places += range(first, last)
        places += [
            len(given) + count * number + row for number, valid in enumerate(is_there) if valid[row]
        ]
        offsets.append(len(places))
        first = last
    made = pa.concat_arrays([given, *columns]).take(pa.array(places, pa.int64()))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), made)
