"""Reads ranges of offsets in the executors' Python workers, with consumers of a `client_pool`.

A range gets a new consumer if the pooled one is in use, and after a fork.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Generic, Literal, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from kafka_native import Consumer, KafkaError, KafkaException, TopicPartition
from kafka_native._native.arrow_consumer import UnfitError
from kafka_native.arrow import ArrowBatch
from kafka_native.internal import (
    FetchedBatches,
    keep_batches,
    listed_topic_id,
    take_batches,
    topic_id,
)
from kafka_native.spark import task_reports, typed_columns
from kafka_native.spark.client_pool import Pool, admitted, freeze_imports
from kafka_native.spark.column_types import HEADERS, conform
from kafka_native.spark.columns import COLUMNS, RANGE_COLUMNS
from kafka_native.spark.errors import DataLossError, MalformedRecordError
from kafka_native.spark.log import logger
from kafka_native.spark.offsets import EARLIEST, GONE_ERRORS, LATEST
from kafka_native.spark.options import DeadLetterTarget, SourceOptions
from kafka_native.spark.ranges import OffsetRange
from kafka_native.spark.task_reports import TaskReport, attempt_and_batch
from kafka_native.spark.typed_columns import TypedColumns, codecs_of

if TYPE_CHECKING:
    from kafka_native.spark.dead_letters import DeadLetterWriter

BATCH_ROWS: Final = 10_000
"""The largest number of rows in a batch, unless ``batchRows`` is set."""
_BATCH_BYTES: Final = 16 << 20
"""The approximate largest size of a batch. A single record may be larger."""
_FIRST_ROWS: Final = 256
"""Rows of a range's first batch, read before the size of records is known."""
_WAIT_S: Final = 1.0
_TRANSIENT_ERRORS: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
    }
)


_ARROW_TYPES: Final[Mapping[str, pa.DataType]] = {
    "binary": pa.binary(),
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    COLUMNS["headers"]: HEADERS,
}

_ARROW_COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    "key": ("key", "binary"),
    "value": ("value", "binary"),
    "topic": ("topic", "string"),
    "partition": ("partition", "int32"),
    "offset": ("offset", "int64"),
    "timestamp": ("timestamp", "timestamp[us]"),
    "timestampType": ("timestamp_type", "int32"),
    "headers": ("headers", "list"),
}
"""The name and the type of each of Spark's columns in `Consumer.consume_arrow`."""

_VALUES_WITHOUT_TIMESTAMP: Final = {"timestamp": -1000, "timestampType": -1}
"""The values of a record without a timestamp, as in Spark's own connector: -1 ms, type -1.

They aren't Arrow scalars: making one imports pandas, which costs each process 0.3 s of CPU.
"""


OnSkip = Callable[[int, int, str], object]
"""Called for skipped offsets: the first one, the one after the last, and the reason."""
OnLeftOut = Callable[[int], object]
"""Called at a range's end with the number of records that don't decode and aren't in the result."""


def _release(consumer: Consumer) -> bool:
    """Unassign a consumer. Returns whether it can read another range."""
    if consumer.fatal_error() is not None:
        return False
    consumer.unassign()
    return True


def _batch_consumer(config: Mapping[str, object]) -> Consumer:
    consumer = Consumer(config)
    keep_batches(consumer)
    return consumer


def _close(consumer: Consumer, _timeout_s: float) -> None:
    consumer.close()


_consumers: Final = Pool(lambda config: admitted(Consumer(config)), _release, _close)
_batch_consumers: Final = Pool(lambda config: admitted(_batch_consumer(config)), _release, _close)


def close_idle() -> None:
    """Close the idle consumers and codecs."""
    typed_columns.close_idle()
    _consumers.close_idle()
    _batch_consumers.close_idle()


def arrow_schema(columns: Iterable[str]) -> pa.Schema:
    """The Arrow schema of columns of the source, exactly as PySpark needs it."""
    return pa.schema([(name, _ARROW_TYPES[COLUMNS[name]]) for name in columns])


def read_rows(
    options: SourceOptions, range_: OffsetRange, on_skip: OnSkip = lambda start, end, reason: None
) -> Iterator[pa.RecordBatch]:
    """The rows of a source's task: the records of its range, or the range (``rows=ranges``).

    :param on_skip: See `read_range`.
    """
    if options.rows == "records":
        yield from read_range(options, range_, on_skip=on_skip)
    else:
        schema = pa.schema([(name, _ARROW_TYPES[kind]) for name, kind in RANGE_COLUMNS.items()])
        row: list[object] = [range_.topic, range_.partition, range_.start, range_.end]
        row += [range_.topic_id or None, range_.lost or None]
        arrays = [pa.array([each], field.type) for each, field in zip(row, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
    freeze_imports()


def read_range(
    options: SourceOptions,
    range_: OffsetRange,
    columns: Sequence[str] | None = None,
    on_skip: OnSkip = lambda start, end, reason: None,
    on_left_out: OnLeftOut = lambda count: None,
) -> Iterator[pa.RecordBatch]:
    """Read the records of one range in order, as Arrow batches.

    The range ends at an offset, not after a number of records: compaction and transactions leave
    offsets without a record.

    :param options: The source's options, such as ``failOnDataLoss`` and
        ``kafkaConsumer.pollTimeoutMs``.
    :param range_: The range to read.
    :param columns: Names of `COLUMNS`, none of them decoded; None: the options' columns.
    :param on_skip: Called for offsets that can't be read and are skipped
        (``failOnDataLoss=false``).
    :param on_left_out: Called once at the end, see `OnLeftOut`.
    :raises DataLossError: Records of the range are deleted (``failOnDataLoss=true``).
    :raises DeadLetterError: The dead letters can't be stored.
    :raises TimeoutError: No record arrived within ``kafkaConsumer.pollTimeoutMs``.
    :raises MalformedRecordError: A record doesn't decode (``mode=FAILFAST``).
    :raises SchemaLookupError: The schema registry doesn't answer.
    :raises KafkaException: The topic can't be read, or the brokers reject the consumer.
    """
    if range_.size <= 0:
        return
    if range_.lost:
        on_skip(range_.start, range_.end, range_.lost)
        return
    with _consumers.borrowed(options.consumer) as consumer:
        reader = _row_reader(consumer, options, range_, columns, on_skip)
        try:
            if isinstance(reader, _TypedRowReader) and options.dead_letters is not None:
                yield from _with_dead_letters(reader, options.dead_letters, range_)
            else:
                yield from reader
            on_left_out(reader.left_out)
        except GeneratorExit:
            return  # Spark needs no more rows, for example with LIMIT: keep the consumer


def _with_dead_letters(
    reader: _TypedRowReader, target: DeadLetterTarget, range_: OffsetRange
) -> Iterator[pa.RecordBatch]:
    """Read a range, and store its dead letters at the end."""
    from kafka_native.spark.dead_letters import open_writer  # it imports pyarrow.fs

    rows = 0
    with open_writer(target, range_) as writer:
        reader.dead_letters = writer
        for batch in reader:
            rows += batch.num_rows
            yield batch
        writer.commit()
    if writer.rows:
        logger.warning(
            "%s: %d rows, and %d dead letters in %s; the first: %s",
            range_,
            rows,
            writer.rows,
            target,
            reader.first_reason,
        )


def read_batches(
    options: SourceOptions, range_: OffsetRange, on_skip: OnSkip = lambda start, end, reason: None
) -> Iterator[tuple[int, FetchedBatches]]:
    """Read the record batches of one range in order. Each item has the batches of one fetch.

    The item's offset is the first that counts. Batches may also have records before it and after
    the range: ignore them. The rest is as in `read_range`.
    """
    if range_.size <= 0:
        return
    if range_.lost:
        on_skip(range_.start, range_.end, range_.lost)
        return
    with _batch_consumers.borrowed(options.consumer) as consumer:
        yield from _BatchReader(consumer, options, range_, on_skip)


# --- one range ---


class _Fetched(Protocol):
    """The result of one call of a consumer."""

    @property
    def positions(self) -> Mapping[tuple[str, int], int]: ...


T = TypeVar("T", bound=_Fetched)


class _PositionReader(ABC, Generic[T]):
    """Reads one range by position. Each subclass reads another form."""

    def __init__(
        self, consumer: Consumer, options: SourceOptions, range_: OffsetRange, on_skip: OnSkip
    ) -> None:
        self._consumer = consumer
        self._options = options
        self._range = range_
        self._on_skip = on_skip
        self._topic_id = range_.topic_id
        self._position = range_.start
        self._last_error: KafkaError | None = None
        self._missing: tuple[KafkaError, float] | None = None  # its error, and since when

    @abstractmethod
    def _fetch(self) -> T:
        """Fetch the next records. It raises the errors of `Consumer.consume_arrow`."""

    @abstractmethod
    def _ends_in(self, taken: T) -> Iterable[tuple[str, int, int | None]]:
        """The partition ends in the result: topic, partition and offset of each."""

    def steps(self) -> Iterator[tuple[int, T]]:
        """Yield results, each with the first offset that counts. A result may have no records."""
        self._start_at(self._position)
        waited_since = time.monotonic()
        while self._position < self._range.end:
            before = self._position
            try:
                taken = self._fetch()
            except KafkaException as error:
                self._on_error(error.args[0])
            else:
                if self._range.key not in taken.positions or self._is_right_topic():
                    self._position = max(before, taken.positions.get(self._range.key, before))
                    yield before, taken
                    for topic, partition, offset in self._ends_in(taken):
                        if (topic, partition) == self._range.key:
                            self._on_end(offset)
            if self._position > before:
                waited_since = time.monotonic()
                self._missing = None
            elif (
                self._missing is not None
                and time.monotonic() - self._missing[1] >= self._options.propagation_s
            ):
                self._check_missing(self._missing[0])
            elif time.monotonic() - waited_since >= self._options.poll_timeout_s:
                self._time_out()

    def _is_right_topic(self) -> bool:
        """Whether the records are of the range's topic, not of a recreated one with the same name.

        A range without an id belongs to the topic of its first records.
        """
        known = topic_id(self._consumer, self._range.topic)
        self._topic_id = self._topic_id or known
        if known in ("", self._topic_id):
            return True
        if not self._is_lost():
            # The consumer has the metadata of the range's topic again.
            self._start_at(self._position)
        return False

    def _is_lost(self) -> bool:
        """Whether the range's topic was deleted, though one with its name exists. Then it is lost.

        Brokers with old metadata still return the old id. So one answer with another id is enough.
        """
        for attempt in range(self._options.fetch_retries + 1):
            if attempt:
                time.sleep(self._options.retry_interval_s)
            described = self._consumer.list_topics(self._range.topic, self._options.api_timeout_s)
            found = described.topics.get(self._range.topic)
            found_id = "" if found is None else listed_topic_id(found)
            if "" not in (found_id, self._topic_id) and found_id != self._topic_id:
                self._lose(self._range.end, "the topic was deleted and recreated")
                return True
        return False

    def _start_at(self, offset: int) -> None:
        self._position = offset
        self._consumer.assign([TopicPartition(self._range.topic, self._range.partition, offset)])

    def _on_error(self, error: KafkaError) -> None:
        code = error.code()
        if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._on_out_of_range()
        elif code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            # A broker may not know the topic yet.
            self._missing = self._missing or (error, time.monotonic())
        elif code in GONE_ERRORS:
            self._lose_all(error)
        elif error.fatal() or not (code in _TRANSIENT_ERRORS or error.retriable()):
            raise KafkaException(
                KafkaError(code, f"reading {self._range} at {self._position}: {error.str()}")
            )
        else:
            # The client retries by itself, until the timeout of this reader.
            self._last_error = error

    def _check_missing(self, error: KafkaError) -> None:
        """Check again whether a topic exists that was missing for ``propagation_s``."""
        self._missing = None
        topics = self._consumer.list_topics(self._range.topic, self._options.api_timeout_s).topics
        found = topics.get(self._range.topic)
        if (
            found is None
            or found.error is not None
            or self._range.partition not in found.partitions
        ):
            self._lose_all(error)
        else:
            self._start_at(self._position)

    def _lose_all(self, error: KafkaError) -> None:
        self._lose(
            self._range.end, f"the topic or partition doesn't exist any more ({error.str()})"
        )

    def _on_end(self, offset: int | None) -> None:
        """Note the current end of the partition.

        After a range's last records only gaps may follow.
        """
        if offset is None or offset < self._position:
            return
        self._position = offset
        if offset < self._range.end:
            self._recheck_end()

    def _on_out_of_range(self) -> None:
        known = topic_id(self._consumer, self._range.topic)
        if known not in ("", self._topic_id) and self._topic_id and self._is_lost():
            return
        first = self._offset_at(EARLIEST)
        if first > self._position:
            lost = min(first, self._range.end)
            self._lose(lost, f"the partition begins at offset {first} by now")
        else:
            self._recheck_end()
            if self._position < self._range.end:
                self._start_at(self._position)

    def _recheck_end(self) -> None:
        """The partition seems to end before the range. Request its end again.

        A new leader may not have the current end yet.
        """
        for attempt in range(self._options.fetch_retries + 1):
            if attempt:
                time.sleep(self._options.retry_interval_s)
            end = self._offset_at(LATEST)
            if end >= self._range.end:
                return
        self._lose(
            self._range.end,
            f"the partition ends at offset {end}: it was truncated, or the topic was deleted "
            "and recreated",
        )

    def _lose(self, until: int, why: str) -> None:
        """Skip the offsets up to this one, or raise `DataLossError`."""
        where = f"{self._range.topic} [{self._range.partition}]"
        text = f"offsets {self._position} to {until} of {where} can't be read: {why}"
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{text}. Write failOnDataLoss=false to go on without them")
        logger.warning("%s; going on without them (failOnDataLoss=false)", text)
        self._on_skip(self._position, until, why)
        if until < self._range.end:
            self._start_at(until)
        else:
            self._position = self._range.end

    def _offset_at(self, when: int) -> int:
        wanted = [TopicPartition(self._range.topic, self._range.partition, when)]
        [found] = self._consumer.offsets_for_times(wanted, self._options.api_timeout_s)
        return found.offset

    def _time_out(self) -> None:
        cause = "" if self._last_error is None else f"; last error: {self._last_error.str()}"
        raise TimeoutError(
            f"no record of {self._range} came for {self._options.poll_timeout_s:g} s "
            f"at offset {self._position}"
            f"{cause}. See kafkaConsumer.pollTimeoutMs"
        )


class _BatchReader(_PositionReader[FetchedBatches]):
    """Reads record batches without decoding them."""

    def __iter__(self) -> Iterator[tuple[int, FetchedBatches]]:
        return ((before, taken) for before, taken in self.steps() if taken)

    def _fetch(self) -> FetchedBatches:
        return take_batches(self._consumer, _WAIT_S)

    def _ends_in(self, taken: FetchedBatches) -> Iterable[tuple[str, int, int | None]]:
        return taken.ends


class _RowReader(_PositionReader[ArrowBatch]):
    """Reads Arrow columns."""

    def __init__(
        self,
        consumer: Consumer,
        options: SourceOptions,
        range_: OffsetRange,
        columns: Sequence[str],
        on_skip: OnSkip,
    ) -> None:
        super().__init__(consumer, options, range_, on_skip)
        self._columns = tuple(columns)
        # The offsets show which rows are outside the range.
        wanted = dict.fromkeys([*columns, "offset"])
        self._arrow_columns: dict[str, str | None] = {
            _ARROW_COLUMNS[name][0]: _ARROW_COLUMNS[name][1] for name in wanted
        }
        self._rows_max = options.batch_rows or BATCH_ROWS
        self._rows = min(_FIRST_ROWS, self._rows_max)
        self.left_out = 0
        """The number of records that aren't in the result, at its end."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        started = time.monotonic()
        records = rows = size = 0
        for before, taken in self.steps():
            has_malformed = taken.malformed is not None and taken.malformed.num_rows > 0
            if has_malformed:
                malformed = self._in_range(pa.record_batch(taken.malformed), before)
                records += malformed.num_rows
                self._take_malformed(malformed)
            elif not taken.num_rows:
                continue
            batch = self._in_range(pa.record_batch(taken), before)
            found = self._spark_batch(batch)
            records += batch.num_rows
            if found.num_rows:
                rows += found.num_rows
                size += found.get_total_buffer_size()  # nbytes takes ten times as long
                yield found
        self.left_out = records - rows
        self._report(rows, size, self.left_out, time.monotonic() - started)

    def _take_malformed(self, malformed: pa.RecordBatch) -> None:
        """Take the records of a batch that don't decode, before its other records."""
        raise AssertionError("no column is decoded")

    def _report(self, rows: int, size: int, malformed: int, seconds: float) -> None:
        attempt, batch_id = attempt_and_batch()
        place = *self._range.key, self._range.start, self._range.end
        report = TaskReport(
            *place, rows, size, malformed, seconds, attempt, self._range.split, batch_id
        )
        task_reports.send(report, self._options)

    def _fetch(self) -> ArrowBatch:
        # Not more than the range needs: the call waits for this number, or for the partition's end.
        rows_max = min(self._rows, self._range.end - self._position)
        try:
            taken = self._consume(rows_max)
        except UnfitError as error:  # its text suggests types that Spark doesn't have
            raise ValueError(
                f"{error.problem}; select other columns, or read from the next offset on"
            ) from None
        records, size = taken.num_rows, taken.nbytes
        if taken.malformed is not None:
            records += taken.malformed.num_rows
            size += taken.malformed.nbytes
        if records:
            self._rows = min(self._rows_max, max(1, _BATCH_BYTES * records // max(1, size)))
        return taken

    def _consume(self, rows_max: int) -> ArrowBatch:
        return self._consumer.consume_arrow(rows_max, _WAIT_S, columns=self._arrow_columns)

    def _ends_in(self, taken: ArrowBatch) -> Iterable[tuple[str, int, int | None]]:
        return ((end.topic, end.partition, end.offset) for end in taken.ends)

    def _in_range(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """The records of the range, from an offset on."""
        offsets = batch.column(batch.schema.get_field_index("offset"))
        if not batch.num_rows:
            return batch
        if offsets[0].as_py() < first or offsets[-1].as_py() >= self._range.end:
            wanted = pc.and_(pc.greater_equal(offsets, first), pc.less(offsets, self._range.end))
            batch = batch.filter(wanted)
        return batch

    def _spark_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of the source."""
        arrays = [_spark_column(batch, name) for name in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(self._columns))


class _SecondReader(_RowReader):
    """Reads records again that a task has read before."""

    def _report(self, rows: int, size: int, malformed: int, seconds: float) -> None:
        """Report nothing: the task counts these records already."""


class _TypedRowReader(_RowReader):
    """Reads Arrow columns of which some are decoded."""

    def __init__(
        self,
        consumer: Consumer,
        options: SourceOptions,
        range_: OffsetRange,
        decoded: TypedColumns,
        on_skip: OnSkip,
    ) -> None:
        fields = decoded.decoded_fields(options.columns)
        plain = [name for name in options.columns if name in COLUMNS and name not in fields]
        super().__init__(consumer, options, range_, plain, on_skip)
        self._arrow_columns |= dict.fromkeys(fields)
        codecs = codecs_of(decoded)
        self._codecs = {name: codecs[name] for name in fields}
        self._decoded = decoded
        self._output = decoded.output(options.columns)
        self._on_malformed: Literal["column", "bytes", "split"] = "split"
        if decoded.options.mode == "PERMISSIVE":
            self._on_malformed = "bytes" if decoded.keeps_bytes(options.columns) else "column"
        self._dropped = 0
        self.first_reason = ""
        """Why the first record doesn't decode; empty: all of them decode."""
        self.dead_letters: DeadLetterWriter | None = None
        """Takes the records that don't decode; None: they are left out or raise an error."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from super().__iter__()
        if self._dropped:
            logger.warning(
                "%s: %d records don't decode and are left out (mode=DROPMALFORMED); the first: %s",
                self._range,
                self._dropped,
                self.first_reason,
            )

    def _consume(self, rows_max: int) -> ArrowBatch:
        return self._consumer.consume_arrow(
            rows_max,
            _WAIT_S,
            columns=self._arrow_columns,
            value=self._codecs.get("value"),
            key=self._codecs.get("key"),
            on_error=self._on_malformed,
        )

    def _spark_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.dead_letters is None:
            return self._conformed(batch)
        try:
            return self._conformed(batch)
        except pa.ArrowInvalid as error:
            return self._conformed(self._without_unfit(batch, self.dead_letters, error))
        finally:
            self.dead_letters.end_batch()

    def _conformed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of the frame. A value that Spark's type can't have is pa.ArrowInvalid."""
        arrays: list[pa.Array] = []
        for name in self._options.columns:
            error = self._decoded.options.error_columns.get(name)
            if error is not None:
                arrays.append(batch.column(batch.schema.get_field_index("_".join(error))))
            elif name not in self._codecs:
                arrays.append(_spark_column(batch, name))
            else:
                column = batch.column(batch.schema.get_field_index(name))
                made = conform(column, self._decoded.column(name).arrow)
                arrays += made.flatten() if self._decoded.options.is_flat else [made]
        schema = pa.schema([(name, kind.arrow) for name, kind in self._output])
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _take_malformed(self, malformed: pa.RecordBatch) -> None:
        """Count them, make them dead letters, or raise the first one's error."""
        if not malformed.num_rows:
            return
        if not self.first_reason:
            offset, field, error = (
                malformed.column(name)[0].as_py() for name in ("offset", "field", "error")
            )
            place = f"{self._range.topic} [{self._range.partition}] at offset {offset}"
            self.first_reason = f"{place}: its {field} doesn't decode: {error}"
        if self._decoded.options.mode == "FAILFAST":
            raise MalformedRecordError(
                f"{self.first_reason}. Write mode=PERMISSIVE for a null and a column with the "
                "record, or mode=DROPMALFORMED to leave such records out"
            )
        if self.dead_letters is None:
            self._dropped += malformed.num_rows
        else:
            self.dead_letters.write(malformed)

    def _without_unfit(
        self, batch: pa.RecordBatch, letters: DeadLetterWriter, error: pa.ArrowInvalid
    ) -> pa.RecordBatch:
        """Leave out records with a value that Spark's type can't have. They are rare.

        So their bytes aren't kept, and another consumer reads them again.
        """
        offsets = batch.column(batch.schema.get_field_index("offset"))
        unfit = {
            offsets[row].as_py(): (field, reason) for row, field, reason in self._unfit(batch, 0)
        }
        if not unfit:
            raise error
        place = f"{self._range.topic} [{self._range.partition}]"
        first, (field, reason) = next(iter(unfit.items()))
        text = f"{place} at offset {first}: its {field} doesn't fit: {reason}"
        self.first_reason = self.first_reason or text
        again = replace(self._range, start=first, end=max(unfit) + 1)
        wanted = ("offset", "timestamp", "timestampType", "key", "value", "headers")
        with _consumers.borrowed(self._options.consumer) as consumer:
            for raw in _SecondReader(consumer, self._options, again, wanted, self._on_skip):
                for row, offset in enumerate(raw.column("offset").to_pylist()):
                    if offset in unfit:
                        letters.write_unfit(raw.slice(row, 1), *unfit[offset])
        return batch.filter(pc.invert(pc.is_in(offsets, pa.array(list(unfit), pa.int64()))))

    def _unfit(self, batch: pa.RecordBatch, first: int) -> Iterator[tuple[int, str, str]]:
        """Yield the row of each record that doesn't fit, ``key`` or ``value``, and the reason."""
        for name in self._codecs:
            column = batch.column(batch.schema.get_field_index(name))
            try:
                conform(column, self._decoded.column(name).arrow)
            except pa.ArrowInvalid as error:
                if batch.num_rows == 1:
                    yield first, name, str(error)
                    return
                half = batch.num_rows // 2
                yield from self._unfit(batch.slice(0, half), first)
                yield from self._unfit(batch.slice(half), first + half)
                return


def _row_reader(
    consumer: Consumer,
    options: SourceOptions,
    range_: OffsetRange,
    columns: Sequence[str] | None,
    on_skip: OnSkip,
) -> _RowReader:
    decoded = options.decoded
    if columns is None and decoded is not None and decoded.decoded_fields(options.columns):
        return _TypedRowReader(consumer, options, range_, decoded, on_skip)
    return _RowReader(consumer, options, range_, columns or options.columns, on_skip)


def _spark_column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """One of Spark's columns, made from the result of `Consumer.consume_arrow`."""
    array = batch.column(batch.schema.get_field_index(_ARROW_COLUMNS[name][0]))
    if name == "headers":
        return array.cast(_ARROW_TYPES[COLUMNS["headers"]])  # in Spark header keys are nullable
    if array.null_count and name in _VALUES_WITHOUT_TIMESTAMP:
        return array.fill_null(_VALUES_WITHOUT_TIMESTAMP[name])
    return array
