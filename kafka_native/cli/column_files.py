"""Writes records as Arrow IPC streams and Parquet files, without making Python objects of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
        self._is_broken = False

    def write(self, batch: ArrowBatch, stops: dict[Key, int]) -> dict[Key, int]:
        """Take a batch without the rows at or after the stops.

        Returns the next offset of each partition whose rows a reader of the file can see already.
        That is none for a Parquet file, which can't be read before `close`.
        """
        import pyarrow

        table = pyarrow.table(batch)
        if any(position > stops.get(key, position) for key, position in batch.positions.items()):
            table = table.filter(_before(table, stops))
        self.failed += sum(
            len(table) - table[name].null_count
            for name in ERROR_COLUMNS
            if name in table.schema.names
        )
        self._waiting.append(table.drop_columns(self._unwanted(table)))
        # after the rows: a second Ctrl+C in between must not commit rows that the file lacks
        self._positions |= batch.positions
        self._rows += len(table)
        gathered = sum(len(each) for each in self._waiting)
        if self._writer is None or self._kind == "arrow" or gathered >= ROW_GROUP:
            with self._writing():
                self._flush()
        return self._taken_positions() if self._kind == "arrow" else {}

    def _unwanted(self, table: pyarrow.Table) -> list[str]:
        """The columns that only the stops need."""
        names = [name for name in POSITION_COLUMNS if name in table.schema.names]
        return [name for name in names if name not in self._wanted]

    @property
    def rows(self) -> int:
        """The number of rows taken."""
        return self._rows

    def _flush(self) -> None:
        """Write the gathered rows."""
        import pyarrow

        if self._waiting:
            table, self._waiting = pyarrow.concat_tables(self._waiting), []
            if self._writer is None:
                self._writer = _writer(self._target, self._kind, table.schema)
            if len(table):
                self._writer.write_table(table)

    def close(self) -> dict[Key, int]:
        """Write the gathered rows and the file's end. Without it no reader can open the file.

        Returns the next offset of each partition that `write` hasn't returned. It returns nothing
        after a write that failed, because the file may lack these rows.
        """
        import pyarrow

        if self._is_broken:
            with suppress(OSError, pyarrow.ArrowException):  # the first error is on its way
                self._end()
            return {}
        with self._writing():
            self._flush()
            self._end()
        return self._taken_positions()

    def _end(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._is_broken = True
            raise

    def _taken_positions(self) -> dict[Key, int]:
        found, self._positions = self._positions, {}
        return found


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
        try:
            yield made
        finally:
            made.close()
    except pyarrow.ArrowException as error:
        raise Failed(f"{path}: {error}") from error
