"""Writes records as Arrow IPC streams and Parquet files, without making Python objects of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from kafka_native.arrow import ArrowBatch, plan_of
from kafka_native.cli.errors import Failed
from kafka_native.cli.offset_bounds import Key

if TYPE_CHECKING:
    import pyarrow.ipc
    import pyarrow.parquet

NEEDS = "Arrow and Parquet files need pyarrow: pip install 'kafka-native[cli,arrow]'"
DEFAULT = "topic:string,partition,offset,timestamp,timestamp_type,key,value,headers"
"""The topic is a string, because other readers of IPC files reject several dictionary batches."""
ROW_GROUP = 131_072
"""Rows of a Parquet row group. An IPC stream gets a batch as soon as rows arrive."""
STDOUT = "-"
POSITION_COLUMNS = ("partition", "offset")
ERROR_COLUMNS = ("key_error", "value_error")
"""The columns with the reasons why a key or value couldn't be decoded."""


def columns(
    _context: click.Context, _parameter: click.Parameter, text: str
) -> dict[str, str | None]:
    """Parse ``key:string,value`` to columns and their types."""
    pairs = [each.strip().partition(":") for each in text.split(",")]
    found = {name: kind or None for name, _, kind in pairs}
    try:
        if len(found) < len(pairs):
            raise ValueError("a column twice")
        plan_of(found)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return found


class ColumnFile:
    """An Arrow or Parquet file that batches are written to."""

    def __init__(self, path: str, kind: str, wanted: dict[str, str | None]) -> None:
        """``kind``: arrow or parquet; ``wanted``: the columns of the batches that are written."""
        self._target: BinaryIO | str = sys.stdout.buffer if path == STDOUT else str(Path(path))
        self._kind = kind
        self._wanted = wanted
        self._writer: pyarrow.ipc.RecordBatchStreamWriter | pyarrow.parquet.ParquetWriter | None = (
            None
        )
        self._waiting: list[pyarrow.Table] = []
        self._rows = 0
        self.failed = 0
        """The number of keys and values that couldn't be decoded."""
        self._positions: dict[Key, int] = {}

    def write(self, batch: ArrowBatch, stops: dict[Key, int]) -> dict[Key, int]:
        """Take a batch without the rows at or after the stops.

        Returns the next offset of each partition whose rows are already in the file.
        """
        import pyarrow

        table = pyarrow.table(batch)
        if any(position > stops.get(key, position) for key, position in batch.positions.items()):
            table = table.filter(_before(table, stops))
        self._positions |= batch.positions
        self.failed += sum(
            len(table) - table[name].null_count
            for name in ERROR_COLUMNS
            if name in table.schema.names
        )
        self._waiting.append(table.drop_columns(self._unwanted(table)))
        self._rows += len(table)
        gathered = sum(len(each) for each in self._waiting)
        if self._writer is not None and self._kind == "parquet" and gathered < ROW_GROUP:
            return {}
        return self.flush()

    def _unwanted(self, table: pyarrow.Table) -> list[str]:
        """The columns that only the stops need."""
        names = [name for name in POSITION_COLUMNS if name in table.schema.names]
        return [name for name in names if name not in self._wanted]

    @property
    def rows(self) -> int:
        """The number of rows taken."""
        return self._rows

    def flush(self) -> dict[Key, int]:
        """Write the gathered rows; return the next offset of each of their partitions."""
        import pyarrow

        written, self._positions = self._positions, {}
        if self._waiting:
            table, self._waiting = pyarrow.concat_tables(self._waiting), []
            if self._writer is None:
                self._writer = _writer(self._target, self._kind, table.schema)
            if len(table):
                self._writer.write_table(table)
        return written

    def close(self) -> None:
        """Write the file's end. Without it no reader can open the file."""
        if self._writer is not None:
            self._writer.close()


def _writer(
    target: BinaryIO | str, kind: str, schema: pyarrow.Schema
) -> pyarrow.ipc.RecordBatchStreamWriter | pyarrow.parquet.ParquetWriter:
    if kind == "parquet":
        import pyarrow.parquet

        return pyarrow.parquet.ParquetWriter(target, schema, compression="zstd")
    import pyarrow.ipc

    return pyarrow.ipc.new_stream(target, schema)


def _before(table: pyarrow.Table, stops: dict[Key, int]) -> pyarrow.ChunkedArray | None:
    """A mask of the rows before their partition's stop."""
    import pyarrow.compute as compute

    mask: pyarrow.ChunkedArray | None = None
    for (_topic, partition), stop in stops.items():  # all stops are of one topic
        here = compute.and_(
            compute.equal(table["partition"], partition), compute.less(table["offset"], stop)
        )
        mask = here if mask is None else compute.or_(mask, here)
    return mask


@contextmanager
def column_file(path: str, kind: str, wanted: dict[str, str | None]) -> Iterator[ColumnFile]:
    """Open a column file for the block. At the end all rows are written, even after an error.

    :raises Failed: pyarrow isn't installed.
    """
    try:
        import pyarrow
    except ModuleNotFoundError as missing:
        raise Failed(f"{NEEDS} ({missing.name} is missing)") from None
    made = ColumnFile(path, kind, wanted)
    try:
        yield made
    except pyarrow.ArrowException as error:
        raise Failed(f"{path}: {error}") from error
    finally:
        made.flush()
        made.close()
