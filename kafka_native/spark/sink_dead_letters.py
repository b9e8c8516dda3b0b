"""Dead letters of sinks: rows that can't be written, in a topic or a folder (``deadLetters``).

A row is a dead letter if it can't become a message, or if the cluster refuses its message for a
reason that only this row has (`ROW_ERRORS`). The task collects such rows in `RowLetters`.

A topic gets them from the task, which ends when they are acknowledged. For a folder each task
writes files below ``_unfinished``. The driver makes one file of them when the write or the
micro-batch is committed (`publish`). Its name is that of the write or the micro-batch. So a
repeated micro-batch replaces its file, whatever its tasks are. Rows that don't encode are in files
of their own, because `replay` can't produce them.

If a stream is written exactly once, the driver publishes the files before it commits the
transaction, because afterwards the micro-batch isn't repeated. For a topic the tasks return their
letters (`KeptLetters`), and the driver produces them in the transaction: two tasks can't write to
one partition.
"""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_native import ArrowReport, KafkaError, KafkaException, Producer
from kafka_native.codecs import EncodeError
from kafka_native.spark import dead_letters, typed_sink
from kafka_native.spark.column_types import HEADERS
from kafka_native.spark.dead_letters import UNFINISHED, LetterFile, LetterProducer
from kafka_native.spark.errors import DeadLetterError
from kafka_native.spark.folder import Folder
from kafka_native.spark.offsets import Key
from kafka_native.spark.options import DeadLetterTarget, SinkOptions
from kafka_native.spark.producers import wait_for_outcomes

__all__ = [
    "ROW_ERRORS",
    "SCHEMA",
    "KeptLetters",
    "RowLetters",
    "check_target",
    "discard",
    "file_name",
    "publish",
]

SCHEMA: Final = pa.schema([*dead_letters.SCHEMA, ("row", pa.string())])
"""The columns of dead letters: those of sources, and the columns to encode as JSON.

A row has either bytes or JSON: see `RowLetters`.
"""

ROW_ERRORS: Final = {
    KafkaError.MSG_SIZE_TOO_LARGE: "",
    KafkaError.RECORD_LIST_TOO_LARGE: "",
    KafkaError.INVALID_RECORD: "",
    KafkaError.TOPIC_EXCEPTION: "topic",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "topic",
    KafkaError._UNKNOWN_TOPIC: "topic",
    KafkaError._UNKNOWN_PARTITION: "partition",
    KafkaError.INVALID_TIMESTAMP: "timestamp",
}
"""The errors of messages that are a row's own fault, by code.

The value is the column that has to name the place; empty: every row. If an option names the topic
of all rows, a missing topic isn't the fault of a row. Only a replay has timestamps of rows. All
other errors fail the task: they come from the cluster, the network or the permissions, and another
attempt may succeed.
"""

ROW_HEADER: Final = "__kafka_native.errors.content"
"""The header of a message whose value is the row as JSON. It has the value ``row``."""

_KINDS: Final = ("", "-rows")
"""The ends of names of files: of rows as bytes, and of rows as JSON."""
_ROWS_MAX: Final = 10_000
_BYTES_MAX: Final = 4 << 20
"""Dead letters that are written at once."""
_KEPT_BYTES_MAX: Final = 64 << 20
"""Dead letters that a task may return to the driver."""
_BATCH_DIGITS: Final = 10
_CHECK_S: Final = 30.0
_CHECK_RETRIES: Final = 3
_CHECK_INTERVAL_S: Final = 1.0
_MAGIC_BYTE: Final = 0
_checked: set[str] = set()


# --- on the driver ---


def check_target(options: SinkOptions) -> None:
    """Check the target on the driver, once in each process.

    :raises OptionError: The topic doesn't exist, or the folder can't be made.
    :raises KafkaException: The brokers don't answer, or reject the producer.
    """
    target = options.dead_letters
    if target is not None and str(target) not in _checked:
        dead_letters.check_place(target, _CHECK_S, _CHECK_RETRIES, _CHECK_INTERVAL_S)
        _checked.add(str(target))


def file_name(query: str, batch_id: int) -> str:
    """The name of a micro-batch's files, without suffix. A new checkpoint has another query."""
    return f"{query}-{batch_id:0{_BATCH_DIGITS}d}"


def publish(target: DeadLetterTarget, name: str, parts: Sequence[str]) -> None:
    """Make one file of the tasks' files, one of each kind. They replace those of an earlier run.

    :param name: The name of the files without suffix, as `RowLetters` has it.
    :param parts: The paths that the tasks have returned.
    """
    folder = Folder(target.folder)
    for kind in _KINDS:
        made = f"{name}{kind}"
        those = [each for each in parts if each.startswith(f"{UNFINISHED}/{made}.")]
        if those:
            whole = those[0] if len(those) == 1 else _joined(folder, made, those)
            folder.move(whole, f"{made}.parquet")
        elif folder.exists(f"{made}.parquet"):
            folder.delete(f"{made}.parquet")
        else:
            continue
        folder.sync("")
    for kind in _KINDS:
        for other in folder.names(UNFINISHED, ".parquet"):
            if other.startswith(f"{name}{kind}."):  # joined now, or of a killed attempt
                folder.delete(f"{UNFINISHED}/{other}")


def _joined(folder: Folder, name: str, parts: Sequence[str]) -> str:
    """Write the rows of several files into one."""
    made = LetterFile(folder, f"{name}.", SCHEMA)
    try:
        for part in parts:
            with pq.ParquetFile(folder.fs.open_input_file(folder.full(part))) as file:
                for batch in file.iter_batches(_ROWS_MAX):
                    made.write(batch)
        return made.end()
    finally:
        made.abort()


def discard(target: DeadLetterTarget, parts: Sequence[str]) -> None:
    """Delete the tasks' files of a write that has failed."""
    folder = Folder(target.folder)
    for part in parts:
        folder.delete(part)


class KeptLetters:
    """The dead letters of a micro-batch that is written exactly once, for a topic."""

    def __init__(self, topic: str, kept: Sequence[bytes], limit_s: float) -> None:
        """``kept``: what the tasks have returned. ``limit_s``: the time for the acknowledgements.

        The topic gets the letters in the order of the tasks.
        """
        self.topic = topic
        self._kept = kept
        self._limit_s = limit_s
        self._error = ""

    def send(self, producer: Producer) -> None:
        """Produce them in the producer's transaction, and wait for the acknowledgements.

        :raises DeadLetterError: The topic doesn't take them.
        """
        roles = {name: name for name in ("key", "value", "headers", "timestamp")}
        for each in self._kept:
            for letters in pa.ipc.open_stream(each):
                messages = messages_of(letters)
                try:
                    producer.produce_arrow(
                        self.topic, messages, **roles, on_delivery=self._take, timeout=self._limit_s
                    )
                except (BufferError, KafkaException) as error:
                    raise DeadLetterError(f"topic {self.topic}: {error}") from error
        if not wait_for_outcomes(producer, self._limit_s, self._check):
            raise DeadLetterError(f"topic {self.topic}: dead letters have no outcome")

    def _take(self, report: ArrowReport) -> None:
        if report.error is not None and not self._error:
            self._error = report.error.str()

    def _check(self) -> None:
        if self._error:
            raise DeadLetterError(
                f"a dead letter wasn't written to topic {self.topic}: {self._error}"
            )


# --- in a task ---


class RowLetters:
    """The dead letters of one task.

    - A row that the cluster has refused has the bytes of its key and value, also if they were
      encoded.
    - A row that doesn't encode has its encoded columns as JSON in ``row``. Other columns are bytes.
    """

    def __init__(self, options: SinkOptions, name: str, *, has_timestamps: bool = False) -> None:
        """Open nothing yet.

        :param name: The name of the files without suffix.
        :param has_timestamps: Whether the rows' column ``timestamp`` is that of their messages.
        """
        assert options.dead_letters is not None
        self._options = options
        self.name = name
        self._has_timestamps = has_timestamps
        target = options.dead_letters
        self._kept: list[pa.RecordBatch] | None = None
        self._producer = None
        if target.sink is not None and options.transactional_id:
            self._kept = []
        elif target.sink is not None:
            self._producer = LetterProducer(target.sink)
        self._kept_bytes = 0
        self._files = {}
        if target.sink is None:
            folder = Folder(target.folder)
            self._files = {kind: LetterFile(folder, f"{name}{kind}.", SCHEMA) for kind in _KINDS}
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        self.rows = 0
        """The number of dead letters so far."""
        self.missing: dict[Key, KafkaError] = {}
        """Partitions that rows name and that don't exist. A writer in a transaction looks first."""
        self.first_reason = ""
        """Why the first one is a dead letter."""
        self.parts: tuple[str, ...] = ()
        """The files for `publish`, after `end`."""
        self.kept = b""
        """The letters for `KeptLetters`, after `end`."""

    def __enter__(self) -> RowLetters:
        """Return itself. The block has to call `end`."""
        return self

    def __exit__(self, *_: object) -> None:
        """Drop what hasn't been ended."""
        for each in (self._producer, *self._files.values()):
            if each is not None:
                each.abort()

    def takes(self, error: KafkaError) -> bool:
        """Whether a message's error is its row's own fault, see `ROW_ERRORS`."""
        column = ROW_ERRORS.get(error.code())
        if column is None:
            return False
        if column == "timestamp":
            return self._has_timestamps
        return column != "topic" or self._options.topic is None

    def add_refused(self, rows: pa.RecordBatch, reasons: Sequence[str]) -> None:
        """Add rows that the cluster has refused, or that have no place.

        :param rows: The columns that Spark gave, without memory of other rows.
        :param reasons: The reason for each row.
        """
        try:
            content, errors = self.encoded(rows)
        except ValueError as error:  # of one of them
            texts = [f"{reason}. {error}" for reason in reasons]
            self.add_unfit(rows, texts, [""] * rows.num_rows)
            return
        unfit = {each.row: each for each in errors}
        kept = [row for row in range(rows.num_rows) if row not in unfit]
        if not unfit:
            self._add(rows, content, reasons, [""] * rows.num_rows)
            return
        if kept:
            self.add_refused(rows.take(pa.array(kept)), [reasons[row] for row in kept])
        texts = [f"{reasons[row]}. {unfit[row].problem}" for row in sorted(unfit)]
        paths = [unfit[row].path for row in sorted(unfit)]
        self.add_unfit(rows.take(pa.array(sorted(unfit))), texts, paths)

    def add_unfit(self, rows: pa.RecordBatch, reasons: Sequence[str], paths: Sequence[str]) -> None:
        """Add rows that can't become messages.

        :param rows: The columns that Spark gave, without memory of other rows.
        :param reasons: The reason for each row.
        :param paths: ``key`` or ``value`` and the field in it for each row, as `EncodeError` has
            them; empty: a column that isn't encoded.
        """
        content = {name: pa.nulls(rows.num_rows, pa.binary()) for name in self._encoded_names()}
        if content:
            names = [each for name in content for each in self._columns_of(rows, name)]
            whole = pa.StructArray.from_arrays([_column(rows, each) for each in names], names)
            content["row"] = pa.array(_json_texts(whole), pa.string())
        self._add(rows, content, reasons, paths)

    def encoded(self, rows: pa.RecordBatch) -> tuple[dict[str, pa.Array], list[EncodeError]]:
        """Encode the columns that are encoded. Rows that don't encode are nulls.

        :return: The bytes of the columns, and the first error of each row that doesn't encode.
        :raises ValueError: A number is out of range.
        """
        encodings = self._options.encodings
        if encodings is None:
            return {}, []
        found: dict[str, pa.Array] = {}
        errors: dict[int, EncodeError] = {}
        for name, codec in typed_sink.codecs_of(encodings).items():
            array = _column(rows, name)
            if array is None:
                names = self._columns_of(rows, name)
                array = pa.StructArray.from_arrays([_column(rows, each) for each in names], names)
            found[name], failed = codec.encoded(self._options.topic, name, array)
            for each in failed:
                errors.setdefault(each.row, each)
        return found, list(errors.values())

    def end_batch(self) -> None:
        """Write the letters if there are many.

        :raises DeadLetterError: The topic doesn't take them.
        """
        if self._pending_rows >= _ROWS_MAX or self._pending_bytes >= _BYTES_MAX:
            self._write_pending()

    def end(self) -> None:
        """Store all letters. A file isn't published yet.

        :raises DeadLetterError: The topic doesn't take them.
        """
        self._write_pending()
        if self._producer is not None:
            self._producer.end()
        if self._kept:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, SCHEMA) as stream:
                for letters in self._kept:
                    stream.write_batch(letters)
            self.kept = sink.getvalue().to_pybytes()
        self.parts = tuple(path for each in self._files.values() if (path := each.end()))

    def _write_pending(self) -> None:
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending, SCHEMA)
        self._pending = []
        self._pending_rows = self._pending_bytes = 0
        for letters in table.combine_chunks().to_batches():
            if self._producer is not None:
                self._producer.send(messages_of(letters))
                continue
            if self._kept is not None:
                self._keep(letters)
                continue
            is_row = letters.column("row").is_valid()
            for kind, those in zip(_KINDS, (pc.invert(is_row), is_row), strict=True):
                if (chosen := letters.filter(those)).num_rows:
                    self._files[kind].write(chosen)

    def _keep(self, letters: pa.RecordBatch) -> None:
        assert self._kept is not None
        self._kept.append(letters)
        self._kept_bytes += letters.nbytes
        if self._kept_bytes > _KEPT_BYTES_MAX:
            raise DeadLetterError(
                f"a task of a stream that is written exactly once has more than {_KEPT_BYTES_MAX} "
                "bytes of dead letters for a topic: write deadLetters to a folder"
            )

    def _add(
        self,
        rows: pa.RecordBatch,
        content: dict[str, pa.Array],
        reasons: Sequence[str],
        paths: Sequence[str],
    ) -> None:
        """Add rows. ``content`` has the bytes of encoded columns, or ``row``."""
        count = rows.num_rows
        self.first_reason = self.first_reason or reasons[0]
        places = [path.partition(".") for path in paths]
        topic = self._options.topic
        columns = {
            "topic": _column(rows, "topic") if topic is None else pa.repeat(topic, count),
            "partition": _column(rows, "partition"),
            "timestamp": self._timestamps(rows),
            "key": _column(rows, "key"),
            "value": _column(rows, "value"),
            "headers": _column(rows, "headers"),
            "field": pa.array([field or None for field, _, _ in places], pa.string()),
            "schema_id": pa.array(
                [self._schema_id(field or "value") for field, _, _ in places], pa.int64()
            ),
            "path": pa.array([below or None for _, _, below in places], pa.string()),
            "error": pa.array(reasons, pa.string()),
            **content,
        }
        arrays = []
        for each in SCHEMA:
            array = columns.get(each.name)
            arrays.append(pa.nulls(count, each.type) if array is None else array.cast(each.type))
        letters = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
        self._pending.append(letters)
        self._pending_rows += count
        self._pending_bytes += letters.nbytes
        self.rows += count

    def _timestamps(self, rows: pa.RecordBatch) -> pa.Array:
        """The messages' timestamps, or the current time for all rows."""
        found = _column(rows, "timestamp") if self._has_timestamps else None
        if found is None:
            return pa.array([time.time_ns() // 1000] * rows.num_rows, pa.int64())
        if pa.types.is_integer(found.type):
            found = found.cast(pa.int64()).cast(pa.timestamp("ms"))
        return found.cast(pa.timestamp("us", "UTC"), safe=False)

    def _encoded_names(self) -> list[str]:
        encodings = self._options.encodings
        return [] if encodings is None else [each.name for each in encodings.columns]

    def _columns_of(self, rows: pa.RecordBatch, name: str) -> list[str]:
        """The columns that are encoded as the key or the value."""
        names: list[str] = rows.schema.names
        return [name] if name in names else typed_sink.record_columns(names, typed_sink.OTHERS)

    def _schema_id(self, name: str) -> int | None:
        encodings = self._options.encodings
        for each in () if encodings is None else encodings.columns:
            if each.name == name and each.prefix[:1] == bytes([_MAGIC_BYTE]):
                return int.from_bytes(each.prefix[1:5], "big")
        return None


def _column(rows: pa.RecordBatch, name: str) -> Any:
    """The first column of this name, or None."""
    return rows.column(rows.schema.names.index(name)) if name in rows.schema.names else None


def messages_of(letters: pa.RecordBatch) -> pa.RecordBatch:
    """The messages of dead letters for a topic."""
    rows = letters.column("row")
    value = pc.coalesce(letters.column("value"), rows.cast(pa.binary()))
    content = pc.if_else(rows.is_valid(), "row", pa.scalar(None, pa.string()))
    headers = [
        # A null key made the row a dead letter. Kafka has no such header.
        [each for each in of_row or () if each["key"] is not None]
        for of_row in letters.column("headers").to_pylist()
    ]
    named = dead_letters.add_headers(pa.array(headers, HEADERS), {ROW_HEADER: content})
    columns = {name: letters.column(name) for name in letters.schema.names}
    made = pa.RecordBatch.from_pydict({**columns, "value": value, "headers": named})
    return dead_letters.with_headers(made)


def _json_texts(whole: pa.StructArray) -> list[str]:
    """Rows as JSON, as Spark's ``from_json`` reads them. No value of Spark's is refused."""
    if not any(_has_map(each.type) for each in whole.type):
        try:
            return [
                json.dumps(row, default=_json_leaf, allow_nan=False) for row in whole.to_pylist()
            ]
        except (ValueError, OverflowError):  # infinite, or beyond the years of Python
            pass
    return [json.dumps(_json_value(each)) for each in whole]


def _has_map(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    return any(_has_map(kind.field(number).type) for number in range(kind.num_fields))


def _json_leaf(value: object) -> object:
    """The form of a value that JSON doesn't have."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"no column can be {type(value).__name__}")


def _json_value(value: pa.Scalar) -> Any:
    """A value of any type."""
    if not value.is_valid:
        return None
    kind = value.type
    if pa.types.is_struct(kind):
        return {name: _json_value(value[name]) for name in value}
    if pa.types.is_map(kind):
        return {str(_json_value(each[0])): _json_value(each[1]) for each in value.values}
    if pa.types.is_list(kind):
        return [_json_value(each) for each in value]
    try:
        found = value.as_py()
    except (ValueError, OverflowError):  # a date or a timestamp beyond the years of Python
        return value.value
    if isinstance(found, float) and not math.isfinite(found):
        return "NaN" if math.isnan(found) else "Infinity" if found > 0 else "-Infinity"
    return found if found is None or isinstance(found, (str, int, float)) else _json_leaf(found)
