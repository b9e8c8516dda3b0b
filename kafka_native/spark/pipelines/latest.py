"""Tasks of the snapshot: find the newest record of each key in a range, and merge such results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_native.spark.column_types import HEADERS
from kafka_native.spark.folder import Folder, checked_topic, shortened
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.range_reader import read_range
from kafka_native.spark.ranges import OffsetRange

__all__ = [
    "Form",
    "Latest",
    "NullKeyError",
    "final_path",
    "merge_task",
    "part_path",
    "part_task",
    "write_final",
]

Parts = Mapping[tuple[str, int], Sequence[str]]

STEP_ROWS: Final = 250_000
STEP_BYTES: Final = 64 << 20
"""Rows or bytes to gather before superseded rows are dropped; more if there are more keys."""
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
# Lengths have 64 bits: the keys and values of a partition may exceed 2 GiB.
GATHERED: Final = pa.schema(
    [
        pa.field("key", pa.large_binary(), nullable=False),
        pa.field("value", pa.large_binary()),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", TIMESTAMP),
    ]
)


class NullKeyError(ValueError):
    """A record without a key has no place in a table of newest values."""


@dataclass(frozen=True)
class Form:
    """The columns and types of the files, and the handling of null keys."""

    null_keys: str = "error"
    """``error``, or ``skip`` such records."""
    headers: bool = False
    """Whether the files have a column of headers."""
    key_type: str = "binary"
    """``binary`` or ``string``."""
    value_type: str = "binary"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the tasks read."""
        return (
            "key",
            "value",
            "partition",
            "offset",
            "timestamp",
            *(["headers"] if self.headers else []),
        )

    @property
    def gathered(self) -> pa.Schema:
        """The columns of the tasks' intermediate results."""
        return GATHERED.append(pa.field("headers", HEADERS)) if self.headers else GATHERED

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table's files."""
        kinds = {"binary": pa.large_binary(), "string": pa.large_string()}
        fields = [
            field.with_type(kinds[getattr(self, f"{field.name}_type")])
            if field.name in ("key", "value")
            else field
            for field in self.gathered
        ]
        return pa.schema(fields)


class Latest:
    """The newest row of each key, including tombstones.

    It holds about twice the memory of its result: superseded rows are dropped when there
    are as many new rows as kept ones.
    """

    def __init__(self, form: Form) -> None:
        """Start without rows."""
        self._form = form
        self._kept: pa.Table = form.gathered.empty_table()
        self._pending: list[pa.Table] = []
        self._rows = self._bytes = 0
        self.records = 0
        """The number of records with a key."""
        self.without_key = 0
        self.tombstones = 0

    def add(self, rows: pa.RecordBatch | pa.Table, where: str = "") -> None:
        """Add rows in the order of offsets.

        :param where: The partition, for errors.
        :raises NullKeyError: A row has no key, and such rows aren't skipped.
        """
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        nulls = table["key"].null_count
        if nulls:
            if self._form.null_keys == "error":
                raise NullKeyError(_null_key_text(table, where))
            table = table.filter(pc.is_valid(table["key"]))
            self.without_key += nulls
        if not table.num_rows:
            return
        self.records += table.num_rows
        self.tombstones += table["value"].null_count
        self._pending.append(table.select(self._form.gathered.names).cast(self._form.gathered))
        self._rows += table.num_rows
        self._bytes += table.nbytes  # the buffers of a slice would count as a whole
        if self._rows >= max(STEP_ROWS, self._kept.num_rows) or self._bytes >= max(
            STEP_BYTES, self._kept.nbytes
        ):
            self._reduce()

    def table(self, *, tombstones: bool) -> pa.Table:
        """One row for each key, in the order of offsets.

        :param tombstones: Whether to include rows without a value, which delete older ones.
        """
        self._reduce()
        return self._kept if tombstones else self._kept.filter(pc.is_valid(self._kept["value"]))

    def _reduce(self) -> None:
        if not self._pending:
            return
        rows = pa.concat_tables([self._kept, *self._pending])
        self._pending = []
        self._rows = self._bytes = 0
        numbers = pc.subtract(
            pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)), 1
        )
        groups = pa.table({"key": rows["key"], "row": numbers}).group_by("key", use_threads=False)
        newest = groups.aggregate([("row", "max")])["row_max"].combine_chunks()
        self._kept = rows.take(newest.take(pc.array_sort_indices(newest))).combine_chunks()


def part_task(
    source: SourceOptions, form: Form, home: Folder, folder: str, range_: OffsetRange
) -> dict[str, Any]:
    """Reduce a range to its newest rows, including tombstones, as a task of `map_ranges`.

    :param home: The table's folder.
    :param folder: The folder for the result's file, below it. The driver makes and removes it.
    :return: The file's path below ``home``, and counts.
    """
    latest = Latest(form)
    size = 0
    for batch in read_range(source, range_, form.columns):
        latest.add(batch, f"{range_.topic} [{range_.partition}]")
        size += batch.get_total_buffer_size()  # nbytes takes ten times as long
    file = part_path(folder, range_)
    _write(home, file, latest.table(tombstones=True))
    return {
        "topic": range_.topic,
        "partition": range_.partition,
        "start": range_.start,
        "path": file,
        "records": latest.records + latest.without_key,
        "bytes": size,
        "without_key": latest.without_key,
        "tombstones": latest.tombstones,
    }


def merge_task(
    form: Form, home: Folder, folder: str, parts: Parts, range_: OffsetRange
) -> dict[str, Any]:
    """Make the file of a partition from its parts, as a task of `map_ranges`.

    :param home: The table's folder.
    :param folder: The folder for the file, below it.
    :param parts: The parts' paths by topic and partition, in the order of offsets.
    """
    key = range_.topic, range_.partition
    latest = Latest(form)
    for part in parts[key]:
        for table in _tables(home, part, form):
            latest.add(table)
    file = final_path(folder, *key)
    count = write_final(home, file, latest.table(tombstones=False), form, key)
    return {"topic": key[0], "partition": key[1], "keys": count, "path": file}


def part_path(folder: str, range_: OffsetRange) -> str:
    """The path of a range's newest rows, which `merge_task` reads."""
    topic = shortened(checked_topic(range_.topic))
    return f"{folder}/part-{topic}-{range_.partition}-{range_.start}.parquet"


def final_path(folder: str, topic: str, partition: int) -> str:
    """The path of a partition's new file. The driver moves it to its place."""
    return f"{folder}/final-{shortened(checked_topic(topic))}-{partition}.parquet"


def _tables(home: Folder, path: str, form: Form) -> Iterator[pa.Table]:
    """Read a file in steps of `STEP_ROWS` rows."""
    with home.fs.open_input_file(home.full(path)) as source:
        for batch in pq.ParquetFile(source).iter_batches(batch_size=STEP_ROWS):
            yield pa.Table.from_batches([batch]).select(form.gathered.names).cast(form.gathered)


def write_final(home: Folder, path: str, table: pa.Table, form: Form, key: tuple[str, int]) -> int:
    """Write the file of a partition with the form's types, and sync it to the disk.

    :return: Its number of rows.
    :raises ValueError: A key or value isn't UTF-8, but its type is string.
    """
    try:
        typed = table.cast(form.schema)
    except pa.ArrowInvalid:
        raise ValueError(
            f"{key[0]} [{key[1]}]: a key or value isn't UTF-8; write it as binary rather "
            "than as string"
        ) from None
    _write(home, path, typed)
    home.sync_file(path)
    count: int = typed.num_rows
    return count


def _write(home: Folder, path: str, table: pa.Table) -> None:
    with home.fs.open_output_stream(home.full(path)) as out:
        # Without Arrow's schema, other readers such as Spark see plain binary and string columns.
        pq.write_table(table, out, compression="zstd", store_schema=False)


def _null_key_text(table: pa.Table, where: str) -> str:
    offset = table["offset"].filter(pc.is_null(table["key"]))[0].as_py()
    return (
        f"{where} has a record without a key at offset {offset}: compaction knows none; skip "
        "them, if so wanted"
    )
