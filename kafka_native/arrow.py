"""Arrow columns: what `Consumer.consume_arrow` and `Consumer.arrow_stream` give, what `Producer.produce_arrow` reports.

Batches and streams speak the Arrow PyCapsule interface, so that pyarrow, polars, pandas, DuckDB and whatever else does
takes them without a copy, and without any of them being needed here. docs/guide/arrow.md shows how.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafka_native._native.arrow_consuming import (
    ColumnBatch,
    ColumnMemory,
    ColumnPlan,
    begin_waiting,
    descriptor,
    end_waiting,
    is_ready,
    stream_of,
)
from kafka_native._native.arrow_report import ArrowReport
from kafka_native._native.consuming import ConsumerCore
from kafka_native.types import TopicPartition

if TYPE_CHECKING:
    import asyncio

__all__ = ["COLUMNS", "ArrowBatch", "ArrowReport", "ArrowStream", "Columns"]

Columns = Sequence[str] | Mapping[str, str | None] | None

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
}
"""The columns there are, each with the types that it can have; the first is the default."""

DEFAULT_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")


def plan_of(columns: Columns) -> ColumnPlan:
    """The columns that were asked for, checked.

    :param columns: Names, or a mapping from names to types (None: the column's default); None for the usual ones.
    :raises TypeError: It is neither, or not of str.
    :raises ValueError: No column, one that there isn't, one twice, or a type that a column can't have.
    """
    if columns is None:
        columns = DEFAULT_COLUMNS
    if isinstance(columns, (str, bytes)) or not isinstance(columns, (Mapping, Sequence)):
        raise TypeError(f"columns: names, or a mapping from names to types, are expected, not {columns!r}")
    pairs = list(columns.items()) if isinstance(columns, Mapping) else [(name, None) for name in columns]
    if not pairs:
        raise ValueError("columns: at least one is needed")
    wanted = []
    for name, kind in pairs:
        if not isinstance(name, str) or not (kind is None or isinstance(kind, str)):
            raise TypeError(f"columns: names and types are str, not {name!r}: {kind!r}")
        if name not in COLUMNS:
            raise ValueError(f"columns: there is no {name!r}, only {', '.join(COLUMNS)}")
        chosen = COLUMNS[name][0] if kind is None else kind
        if chosen not in COLUMNS[name]:
            raise ValueError(f"columns: {name} can't be {chosen!r}, only {', '.join(COLUMNS[name])}")
        wanted.append((name, chosen))
    names = [name for name, _ in wanted]
    if len(set(names)) < len(names):
        raise ValueError(f"columns: one twice: {', '.join(names)}")
    return ColumnPlan(wanted)


def checked_records(max_records: int) -> int:
    """``max_records`` as an int in its range, 0 to 2,147,483,647."""
    most = operator.index(max_records)
    if not 0 <= most <= RECORDS_MAX:
        raise ValueError(f"max_records must be between 0 and {RECORDS_MAX}")
    return most


class ArrowBatch:
    """Records as Arrow columns: a record batch that any Arrow library takes, without a copy.

        batch = consumer.consume_arrow(100_000, timeout=1.0)
        table = pyarrow.table(batch)  # or polars.from_arrow(batch), or DuckDB on pyarrow.table(batch)
        consumer.commit(offsets=[TopicPartition(*key, offset) for key, offset in batch.positions.items()])

    It can be taken any number of times, by several at once, and outlives its consumer. All columns are nullable.
    """

    __slots__ = ("_columns", "ends")

    def __init__(self, columns: ColumnBatch) -> None:
        self._columns = columns
        self.ends: list[TopicPartition] = [
            TopicPartition(each.topic(), each.partition(), each.offset())  # type: ignore[arg-type]
            for each in columns.ends
        ]
        """The ends of partitions that were reached (``enable.partition.eof``), each with the offset of the end."""

    @property
    def positions(self) -> dict[tuple[str, int], int]:
        """The next offset to read of every partition that this batch has moved: what to commit, once it is used."""
        return self._columns.positions

    @property
    def num_rows(self) -> int:
        """The number of records in the batch."""
        return len(self._columns)

    @property
    def nbytes(self) -> int:
        """Bytes in the columns' buffers; with views also those of the responses that they keep."""
        return self._columns.nbytes

    @property
    def column_names(self) -> list[str]:
        """The columns, in the order asked for."""
        return list(self._columns.plan.names)

    def __len__(self) -> int:
        return len(self._columns)

    def __arrow_c_schema__(self) -> Any:
        """A PyCapsule with the ArrowSchema."""
        return self._columns.plan.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """PyCapsules with the ArrowSchema and the ArrowArray; types are asked for when consuming, not here."""
        return self._columns.__arrow_c_array__(requested_schema)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """A PyCapsule with an ArrowArrayStream of this one batch."""
        return self._columns.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<ArrowBatch {self.num_rows} rows: {', '.join(self.column_names)}>"


class ArrowStream:
    """A consumer's records, batch after batch, from `Consumer.arrow_stream`: to iterate over, or for any Arrow library.

        for batch in consumer.arrow_stream(timeout=5.0): ...
        async for batch in consumer.arrow_stream(): ...
        reader = pyarrow.RecordBatchReader.from_stream(consumer.arrow_stream(timeout=5.0))

    It ends when nothing has come for ``timeout``, when the consumer is closed, and after `Consumer.wakeup()`; then it
    can be taken up again. An error is raised as KafkaException, once, and the next batch goes on behind it.
    """

    def __init__(
        self,
        core: ConsumerCore,
        plan: ColumnPlan,
        memory: ColumnMemory,
        take: Callable[[float], ColumnBatch],
        timeout: float,
    ) -> None:
        """Made by `Consumer.arrow_stream`; ``take(timeout)`` makes each batch."""
        self._core = core
        self._plan = plan
        self._memory = memory
        self._take = take
        self._timeout = timeout
        self.error: BaseException | None = None
        """What has ended an Arrow library's last read; such a library knows its text alone."""

    @property
    def column_names(self) -> list[str]:
        """The columns, in the order asked for."""
        return list(self._plan.names)

    def _next_columns(self) -> ColumnBatch | None:
        columns = self._take(self._timeout)
        return columns if len(columns) or columns.ends else None

    def __iter__(self) -> ArrowStream:
        """Itself."""
        return self

    def __next__(self) -> ArrowBatch:
        """The next batch, of one record or one end of partition at least."""
        columns = self._next_columns()
        if columns is None:
            raise StopIteration
        return ArrowBatch(columns)

    def __aiter__(self) -> ArrowStream:
        """Itself."""
        return self

    async def __anext__(self) -> ArrowBatch:
        """What is queued, as soon as there is anything; other coroutines run meanwhile, and no thread is needed."""
        import asyncio  # here, because few need it and it takes long to import

        loop = asyncio.get_running_loop()
        deadline = None if self._timeout < 0 else loop.time() + self._timeout
        while True:
            columns = self._take(0.0)
            if len(columns) or columns.ends:
                return ArrowBatch(columns)
            left = None if deadline is None else deadline - loop.time()
            if columns.ended or (left is not None and left <= 0):
                raise StopAsyncIteration
            await self._readable(loop, left)

    async def _readable(self, loop: asyncio.AbstractEventLoop, timeout: float | None) -> None:
        """Waits until it makes sense to take again."""
        import asyncio

        ready = is_ready(self._core)
        if ready or ready is None:
            await asyncio.sleep(0 if ready else BUSY_S)
            return
        if self._memory.awaited:
            raise RuntimeError("another coroutine waits for this consumer's messages")
        there = asyncio.Event()
        number = descriptor(self._core)
        self._memory.awaited = True
        begin_waiting(self._core)
        loop.add_reader(number, there.set)
        try:
            await asyncio.wait_for(there.wait(), timeout)
        except asyncio.TimeoutError:
            return  # the caller looks once more, and then at the clock
        finally:
            loop.remove_reader(number)
            end_waiting(self._core)
            self._memory.awaited = False

    def __arrow_c_schema__(self) -> Any:
        """A PyCapsule with the ArrowSchema of each batch."""
        return self._plan.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """A PyCapsule with an ArrowArrayStream of the batches to come; an error in it is also kept in `error`."""
        return stream_of(self._plan, self._next_columns, self._failed)

    def _failed(self, error: BaseException) -> None:
        self.error = error


BUSY_S = 0.01
"""How often to look again while another thread of the application makes callbacks."""
