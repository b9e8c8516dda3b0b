"""Arrow columns: the results of consumers' ``consume_arrow()`` and ``arrow_stream()``.

Batches and streams implement the Arrow PyCapsule interface. Arrow libraries (pyarrow, polars,
pandas, DuckDB) take them without a copy. This package needs none of these libraries.
docs/guide/arrow.md is the guide. `ArrowReport` is the report of `Producer.produce_arrow`.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from kafka_native._native.arrow_consumer import (
    ColumnBatch,
    ColumnMemory,
    ColumnPlan,
    begin_waiting,
    descriptor,
    end_waiting,
    is_ready,
    stream_of,
)
from kafka_native._native.arrow_decoding import DecodedType
from kafka_native._native.arrow_report import ArrowReport
from kafka_native._native.consumer_core import ConsumerCore
from kafka_native._native.share_core import column_values
from kafka_native.types import TopicPartition

if TYPE_CHECKING:
    import asyncio

    from kafka_native.codecs.codec import Codec

__all__ = [
    "COLUMNS",
    "ArrowBatch",
    "ArrowReport",
    "ArrowStream",
    "Columns",
    "MalformedRecords",
    "ShareArrowBatch",
]

Columns = Sequence[str] | Mapping[str, str | None] | None
OnError = Literal["raise", "null", "column", "bytes", "split"]
"""How to treat a record that can't be decoded: see `Consumer.consume_arrow`."""

NULL = 0xFF  # in the result of values_of()
RECORDS_MAX = 2_147_483_647

_BYTES = ("binary", "string", "large_binary", "large_string", "binary_view", "string_view")

COLUMNS: dict[str, tuple[str, ...]] = {
    "topic": ("dictionary", "string", "large_string", "string_view"),
    "partition": ("int32",),
    "offset": ("int64",),
    "timestamp": ("timestamp[ms]", "timestamp[us]", "timestamp[ns]"),
    "timestamp_type": ("int32", "int8"),
    "key": _BYTES,
    "value": _BYTES,
    "headers": ("list",),
    "leader_epoch": ("int32",),
    "delivery_count": ("int32",),
}
"""The possible columns with their possible types. The first type is the default."""

DEFAULT_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")


class Decode:
    """Which columns are decoded, and how: the arguments of `Consumer.consume_arrow`."""

    def __init__(
        self,
        value: Codec | None = None,
        key: Codec | None = None,
        on_error: OnError = "raise",
        flatten: bool = False,
    ) -> None:
        """Checks and stores the arguments."""
        self.value = value
        self.key = key
        self.on_error: OnError = on_error
        self.flatten = flatten
        if self.codecs:
            self._check_codecs()
        if self.on_error not in get_args(OnError):
            wanted = '"raise", "null", "column", "bytes" or "split"'
            raise ValueError(f"on_error must be {wanted}, not {self.on_error!r}")
        if not self.codecs and (self.flatten or self.on_error != "raise"):
            raise ValueError("on_error= and flatten= need a codec, such as value=Avro(registry)")

    def _check_codecs(self) -> None:
        # not at the top: most programs decode no columns, and codecs take a while to import
        from kafka_native.codecs.codec import Codec

        for name, codec in self.codecs.items():
            if not isinstance(codec, Codec):
                raise TypeError(
                    f"{name} must be a codec such as kafka_native.codecs.Avro, not {codec!r}"
                )

    @property
    def codecs(self) -> dict[str, Codec]:
        """The codecs by column."""
        found = {"key": self.key, "value": self.value}
        return {name: codec for name, codec in found.items() if codec is not None}


class ColumnRequest:
    """The columns that a call asks for. Without codecs the plan is known at once."""

    def __init__(self, columns: Columns, decode: Decode) -> None:
        """The arguments and errors are those of `Consumer.consume_arrow`."""
        self._columns = checked_columns(columns)
        self._decode = decode
        types = dict(self._columns)
        for name in decode.codecs:
            if name not in types:
                raise ValueError(
                    f"{name}= decodes the column {name!r}, which columns= doesn't name"
                )
            if isinstance(columns, Mapping) and columns[name] is not None:
                raise ValueError(f"columns: {name} is decoded, so it can't be {types[name]!r}")

    @property
    def is_decoded(self) -> bool:
        """Whether a column is decoded."""
        return bool(self._decode.codecs)

    def plan(self, topics: Callable[[], Collection[str]]) -> ColumnPlan:
        """Return the plan. It may ask the schema registry.

        :param topics: Returns the topics that the consumer reads.
        """
        decode = self._decode
        wanted: list[tuple[str, str | DecodedType]] = [*self._columns]
        for number, (name, _) in enumerate(self._columns):
            codec = decode.codecs.get(name)
            if codec is not None:
                wanted[number] = (
                    name,
                    DecodedType(
                        codec.reader(name, topics),
                        name,
                        skips_errors=decode.on_error != "raise",
                        has_reasons=decode.on_error in ("column", "bytes"),
                        keeps_bytes=decode.on_error == "bytes",
                        is_flat=decode.flatten,
                    ),
                )
        plan = ColumnPlan(wanted, splits=decode.on_error == "split")
        twice = sorted(name for name, count in Counter(plan.names).items() if count > 1)
        if twice:
            raise ValueError(
                f"columns: two columns are named {', '.join(twice)}: leave one out by "
                "columns= or by the codec's fields=, or don't flatten"
            )
        return plan


def share_request(columns: Columns, decode: Decode) -> ColumnRequest:
    """Return the request of a share consumer.

    :raises TypeError, ValueError: As of `ColumnRequest`; or malformed records would be no rows, so
        nobody could acknowledge them.
    """
    if decode.on_error == "split":
        raise ValueError(
            'on_error="split" isn\'t for share groups, whose rows are acknowledged: use "bytes"'
        )
    return ColumnRequest(columns, decode)


def plan_of(columns: Columns) -> ColumnPlan:
    """Return a plan with the requested columns, of which none is decoded.

    :raises TypeError, ValueError: As of `checked_columns`.
    """
    return ColumnPlan(checked_columns(columns))


def checked_columns(columns: Columns) -> list[tuple[str, str]]:
    """Return the names and types of the requested columns.

    :param columns: Names, or a mapping from names to types (None means the column's default type).
        None means the default columns.
    :raises TypeError: ``columns`` has another type, or a name or type is not a str.
    :raises ValueError: There is no column, a column is unknown or occurs twice, or a column doesn't
        support the type.
    """
    if columns is None:
        columns = DEFAULT_COLUMNS
    if isinstance(columns, (str, bytes)) or not isinstance(columns, (Mapping, Sequence)):
        raise TypeError(f"columns must be names or a mapping from names to types, not {columns!r}")
    pairs = (
        list(columns.items())
        if isinstance(columns, Mapping)
        else [(name, None) for name in columns]
    )
    if not pairs:
        raise ValueError("columns must name at least one column")
    wanted = []
    for name, kind in pairs:
        if not isinstance(name, str) or not (kind is None or isinstance(kind, str)):
            raise TypeError(f"columns: names and types are str, not {name!r}: {kind!r}")
        if name not in COLUMNS:
            raise ValueError(f"columns: there is no {name!r}, only {', '.join(COLUMNS)}")
        chosen = COLUMNS[name][0] if kind is None else kind
        if chosen not in COLUMNS[name]:
            raise ValueError(
                f"columns: {name} can't be {chosen!r}, only {', '.join(COLUMNS[name])}"
            )
        wanted.append((name, chosen))
    names = [name for name, _ in wanted]
    if len(set(names)) < len(names):
        raise ValueError(f"columns: a column occurs twice: {', '.join(names)}")
    return wanted


def checked_records(max_records: int) -> int:
    """Return ``max_records`` as an int. Raise ValueError if it is not from 0 to 2,147,483,647."""
    count = operator.index(max_records)
    if not 0 <= count <= RECORDS_MAX:
        raise ValueError(f"max_records must be between 0 and {RECORDS_MAX}")
    return count


def values_of(column: Any) -> tuple[bool, bytes]:
    """Return whether a column has booleans, and one byte for each value: NULL for null.

    A number that is no byte, or NULL itself, becomes 254.

    :param column: An object with Arrow's PyCapsule interface, or an iterable.
    :raises TypeError: It is none, or has other values.
    """
    if hasattr(column, "__arrow_c_array__") or hasattr(column, "__arrow_c_stream__"):
        return column_values(column)
    if isinstance(column, (str, bytes)) or not hasattr(column, "__iter__"):
        raise TypeError(f"a column or a sequence is needed, not {type(column).__name__}")
    values = column.tolist() if hasattr(column, "tolist") else list(column)
    known = [each for each in values if each is not None]
    is_mask = bool(known) and all(isinstance(each, bool) for each in known)
    return is_mask, bytes(NULL if each is None else _byte_of(each) for each in values)


def _byte_of(value: object) -> int:
    number = operator.index(value)  # type: ignore[arg-type]
    return number if 0 <= number < NULL - 1 else NULL - 1


class ArrowRows:
    """Records as Arrow columns: the common part of `ArrowBatch` and `ShareArrowBatch`."""

    __slots__ = ("_columns",)

    def __init__(self, columns: ColumnBatch) -> None:
        self._columns = columns

    @property
    def num_rows(self) -> int:
        """The number of records in the batch."""
        return len(self._columns)

    @property
    def nbytes(self) -> int:
        """Bytes in the columns' buffers.

        With views, it includes the responses that the views keep alive.
        """
        return self._columns.nbytes

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in the requested order."""
        return list(self._columns.plan.names)

    def __len__(self) -> int:
        return len(self._columns)

    def __arrow_c_schema__(self) -> object:
        """Return a PyCapsule with the ArrowSchema."""
        return self._columns.plan.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return PyCapsules with the ArrowSchema and the ArrowArray.

        Request types when you consume. This method doesn't convert.
        """
        return self._columns.__arrow_c_array__(requested_schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a PyCapsule with an ArrowArrayStream that contains only this batch."""
        return self._columns.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.num_rows} rows: {', '.join(self.column_names)}>"


class ArrowBatch(ArrowRows):
    """Records as Arrow columns: a record batch that every Arrow library takes without a copy.

        batch = consumer.consume_arrow(100_000, timeout=1.0)
        table = pyarrow.table(batch)  # or polars.from_arrow(batch); DuckDB takes the table
        ends = [TopicPartition(*key, offset) for key, offset in batch.positions.items()]
        consumer.commit(offsets=ends)

    Several libraries may take the batch, at the same time and more than once. The batch outlives
    its consumer. All columns are nullable.
    """

    __slots__ = ("ends", "malformed")

    def __init__(self, columns: ColumnBatch) -> None:
        super().__init__(columns)
        self.malformed: MalformedRecords | None = (
            None if columns.malformed is None else MalformedRecords(columns.malformed)
        )
        """The records that don't decode, with ``on_error="split"``; else None."""
        self.ends: list[TopicPartition] = [
            TopicPartition(each.topic(), each.partition(), each.offset())  # type: ignore[arg-type]
            for each in columns.ends
        ]
        """The ends of partitions that the batch reached, with the offset of each end.

        They need ``enable.partition.eof``.
        """

    @property
    def positions(self) -> dict[tuple[str, int], int]:
        """The next offset of every partition in this batch.

        Commit these offsets after processing.
        """
        return self._columns.positions


class MalformedRecords(ArrowRows):
    """Records that don't decode, as Arrow columns, from `ArrowBatch.malformed`.

        batch = consumer.consume_arrow(value=Avro(registry), on_error="split")
        for record in pyarrow.record_batch(batch.malformed).to_pylist():
            print(record["offset"], record["field"], record["error"], record["value"])

    The columns are topic, partition, offset, timestamp, timestamp_type, key, value and headers, as
    they came, then ``field`` (``"value"`` or ``"key"``) and ``error``, the reason. If neither the
    value nor the key decodes, they are about the value.
    """

    __slots__ = ()


class ShareArrowBatch(ArrowRows):
    """Records of a share group as Arrow columns, from `ShareConsumer.consume_arrow`.

        batch = consumer.consume_arrow(timeout=1.0, columns={"value": "string"})
        column = pyarrow.record_batch(batch)["value"]
        consumer.acknowledge_arrow(batch)
        consumer.acknowledge_arrow(batch, AcknowledgeType.REJECT, mask=pc.equal(column, ""))

    Any Arrow library takes it, as an `ArrowBatch`. It outlives its consumer.
    """

    __slots__ = ("_ranges",)

    def __init__(self, columns: ColumnBatch, ranges: Sequence[Any]) -> None:
        """``ranges``: the acquired records of the rows, for the share consumer."""
        super().__init__(columns)
        self._ranges = ranges


class ArrowStream:
    """The records of a consumer as a stream of batches, from `Consumer.arrow_stream`.

    You can iterate over it or pass it to any Arrow library.

        for batch in consumer.arrow_stream(timeout=5.0): ...
        async for batch in consumer.arrow_stream(): ...
        reader = pyarrow.RecordBatchReader.from_stream(consumer.arrow_stream(timeout=5.0))

    The stream ends in three cases: no record came for ``timeout`` seconds, the consumer was closed,
    or `Consumer.wakeup()` was called. After an end you can iterate again. An error is raised once,
    as KafkaException; the next batch continues after it.
    """

    def __init__(
        self,
        core: ConsumerCore,
        make_plan: Callable[[], ColumnPlan],
        is_closed: Callable[[], bool],
        memory: ColumnMemory,
        take: Callable[[ColumnPlan, float, bool], ColumnBatch],
        timeout: float,
    ) -> None:
        """`Consumer.arrow_stream` makes the stream.

        ``is_closed()``: whether the consumer is closed. ``take(plan, timeout, defer_lookups)``
        makes each batch.
        """
        self._core = core
        self._make_plan = make_plan
        self._is_closed = is_closed
        self._made_plan: ColumnPlan | None = None
        self._memory = memory
        self._take = take
        self._timeout = timeout
        self.error: BaseException | None = None
        """The exception that ended the last read of an Arrow library.

        The library itself only gets its text.
        """

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in the requested order."""
        return list(self._plan.names)

    @property
    def _plan(self) -> ColumnPlan:
        """The plan. The first use may ask the schema registry."""
        if self._made_plan is None:
            self._made_plan = self._make_plan()
        return self._made_plan

    def _is_over(self) -> bool:
        """Return whether the consumer was closed before the first read. No plan is needed then."""
        return self._made_plan is None and self._is_closed()

    def _next_columns(self) -> ColumnBatch | None:
        if self._is_over():
            return None
        columns = self._take(self._plan, self._timeout, False)
        return columns if columns.record_count or columns.ends else None

    def __iter__(self) -> ArrowStream:
        """Return the object itself."""
        return self

    def __next__(self) -> ArrowBatch:
        """Return the next batch, with at least one record or one end of a partition."""
        columns = self._next_columns()
        if columns is None:
            raise StopIteration
        return ArrowBatch(columns)

    def __aiter__(self) -> ArrowStream:
        """Return the object itself."""
        return self

    async def __anext__(self) -> ArrowBatch:
        """Return the queued records as soon as there are any.

        Other coroutines run while this one waits. It needs no thread.
        """
        import asyncio  # Here, because only coroutines need it and its import is slow

        loop = asyncio.get_running_loop()
        deadline = None if self._timeout < 0 else loop.time() + self._timeout
        if self._is_over():
            raise StopAsyncIteration
        if self._made_plan is None:
            await self._look_up(lambda: self._plan)
        while True:
            columns = self._take(self._plan, 0.0, True)
            if columns.missing is not None:
                await self._look_up(columns.missing.look_up)
                continue
            if columns.record_count or columns.ends:
                return ArrowBatch(columns)
            left = None if deadline is None else deadline - loop.time()
            if columns.ended or (left is not None and left <= 0):
                raise StopAsyncIteration
            await self._readable(loop, left)

    async def _look_up(self, look_up: Callable[[], object]) -> None:
        """Ask the schema registry in a thread. Meanwhile other coroutines run."""
        import asyncio

        begin_waiting(self._core)
        try:
            await asyncio.to_thread(look_up)
        finally:
            end_waiting(self._core)

    async def _readable(self, loop: asyncio.AbstractEventLoop, timeout: float | None) -> None:
        """Wait until records may be available."""
        import asyncio

        ready = is_ready(self._core)
        if ready or ready is None:
            await asyncio.sleep(0 if ready else CALLBACKS_CHECK_INTERVAL_S)
            return
        if self._memory.awaited:
            raise RuntimeError("another coroutine waits for this consumer's messages")
        readable = asyncio.Event()
        number = descriptor(self._core)
        self._memory.awaited = True
        engine = begin_waiting(self._core)
        loop.add_reader(number, readable.set)
        try:
            await asyncio.wait_for(readable.wait(), timeout)
        except asyncio.TimeoutError:
            return  # The caller checks for records, then checks the deadline
        finally:
            loop.remove_reader(number)
            end_waiting(self._core)
            del engine  # the descriptor may be closed now
            self._memory.awaited = False

    def __arrow_c_schema__(self) -> object:
        """Return a PyCapsule with the ArrowSchema of each batch."""
        return self._plan.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a PyCapsule with an ArrowArrayStream of the next batches.

        `error` keeps its error. ValueError: the stream has ``on_error="split"``, so a library would
        lose the records that don't decode.
        """
        if self._plan.malformed is not None:
            raise ValueError(
                'a library that reads a stream with on_error="split" loses the records that '
                'don\'t decode: iterate over the stream, or use on_error="bytes"'
            )
        return stream_of(self._plan, self._read_columns, self._failed)

    def _read_columns(self) -> ColumnBatch | None:
        self.error = None
        return self._next_columns()

    def _failed(self, error: BaseException) -> None:
        self.error = error


CALLBACKS_CHECK_INTERVAL_S = 0.01
"""How often to check again while another thread of the application makes callbacks."""
