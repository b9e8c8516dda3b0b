"""Writes the records of one range as Parquet files, in a Python worker of an executor."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from kafka_native.spark.folder import Folder
from kafka_native.spark.pipelines.lake_schemas import NAMES, SCHEMA, schema_id
from kafka_native.spark.pipelines.manifests import NO_DATE, LakeFile, partition_folder
from kafka_native.spark.pipelines.session import PipelineError

__all__ = ["ParquetSettings", "RangeWriter"]

_DELTAS: Final = ("offset", "timestamp")
"""The columns that store differences."""
_NO_STATISTICS: Final = (
    *("timestamp_type", "key", "value"),
    *("headers.list.element.key", "headers.list.element.value"),
)
COMPRESSIONS: Final = ("zstd", "snappy", "lz4", "gzip", "none")
_DAY_US: Final = 86_400_000_000
_EPOCH: Final = datetime.date(1970, 1, 1)
_DAYS_MAX: Final = 16
"""The largest number of open files of a task. It limits the memory for scattered timestamps."""


@dataclass(frozen=True)
class ParquetSettings:
    """The settings of a lake's Parquet files."""

    compression: str = "zstd"
    """zstd, snappy, lz4, gzip or none."""
    level: int | None = None
    """The compression level; None: the codec's default."""
    row_group_rows: int = 1_000_000
    """The largest number of rows in a row group."""
    row_group_bytes: int = 64 << 20
    """The largest number of bytes in a row group, before encoding.

    A task has about twice that in memory.
    """
    file_bytes: int = 512 << 20
    """A file of this size is closed after its row group."""

    def __post_init__(self) -> None:
        """Check the values.

        :raises ValueError: A value is invalid.
        """
        if self.compression not in COMPRESSIONS:
            raise ValueError(
                f"compression {self.compression!r}: write one of {', '.join(COMPRESSIONS)}"
            )
        for name in ("row_group_rows", "row_group_bytes", "file_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: write at least 1")

    def writer_options(self, schema: pa.Schema) -> dict[str, Any]:
        """The arguments for ``pyarrow.parquet.ParquetWriter`` of a file with these columns."""
        leaves = [path for each in schema for path in _leaves(each.type, each.name)]
        options: dict[str, Any] = {
            "compression": self.compression,
            "compression_level": self.level,
            # Offsets and timestamps grow in small steps. Keys and values often repeat. If they
            # don't, pyarrow drops the dictionary within its first megabyte.
            "use_dictionary": [
                each for each in leaves if each not in (*_DELTAS, "headers.list.element.value")
            ],
            "column_encoding": dict.fromkeys(_DELTAS, "DELTA_BINARY_PACKED"),
            # Readers skip row groups by them. The bounds of raw keys and values are of no use.
            "write_statistics": [each for each in leaves if each not in _NO_STATISTICS],
        }
        if self.level is None or self.compression not in ("zstd", "gzip"):
            del options["compression_level"]
        return options


class RangeWriter:
    """Writes one range's records to an attempt's staging folder: one or more files for each date.

    :param lake: The lake's folder.
    :param staging: The attempt's folder, below the lake's.
    :param tag: A part of the file names that makes them unique, from the query and its batch.
    :param topic: The records' topic.
    :param partition: The records' partition.
    :param settings: The settings of the files.
    :param schema: The columns of the files. They begin with partition, offset and timestamp.
    """

    def __init__(
        self,
        lake: Folder,
        staging: str,
        tag: str,
        topic: str,
        partition: int,
        settings: ParquetSettings,
        schema: pa.Schema = SCHEMA,
    ) -> None:
        """Open nothing yet."""
        self._lake = lake
        self._staging = staging
        self._tag = tag
        self._topic = topic
        self._partition = partition
        self._settings = settings
        self._schema = schema
        self._days: dict[str, DayWriter] = {}  # the least recently used one first
        self._files: list[LakeFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch with the source's names of the columns, in the order of offsets."""
        found = _as_lake_columns(batch, self._schema)
        for date, part in by_date(found):
            day = self._days.pop(date, None) or self._open(date)
            self._days[date] = day
            day.write(part)
            if day.is_full:
                self._end(date)
        while (
            sum(each.pending_bytes for each in self._days.values())
            > 2 * self._settings.row_group_bytes
        ):
            max(self._days.values(), key=lambda each: each.pending_bytes).flush()

    def close(self) -> list[LakeFile]:
        """Finish all files and sync them to the disk."""
        for date in list(self._days):
            self._end(date)
        return self._files

    def abort(self) -> None:
        """Close the open files. A later sweep removes them."""
        for day in self._days.values():
            day.abort()
        self._days.clear()

    def _open(self, date: str) -> DayWriter:
        while len(self._days) >= _DAYS_MAX:
            self._end(next(iter(self._days)))
        folder = partition_folder(self._topic, date)
        return DayWriter(self._lake, self._staging, folder, self._tag, self._settings, self._schema)

    def _end(self, date: str) -> None:
        day = self._days.pop(date)
        self._files.append(day.close(self._topic, self._partition, date))


class DayWriter:
    """An open file in staging, with records of one partition and one date."""

    def __init__(
        self,
        lake: Folder,
        staging: str,
        folder: str,
        tag: str,
        settings: ParquetSettings,
        schema: pa.Schema = SCHEMA,
    ) -> None:
        self._lake = lake
        self._staging = staging
        self._folder = folder
        self._tag = tag
        self._settings = settings
        self._schema = schema
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self.pending_bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self._sink: Any = None
        self._path = self._staged = ""
        self._first = self._last = -1
        self._records = 0
        self._row_groups = 0
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the file has reached its size."""
        return self._bytes >= self._settings.file_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        """Add records. A full row group is written."""
        room = self._settings.row_group_rows
        offsets = batch.column(1)
        if self._first < 0:
            self._first = offsets[0].as_py()
        self._last = offsets[-1].as_py()
        for start in range(0, batch.num_rows, room):
            part = batch.slice(start, room) if batch.num_rows > room else batch
            if self._pending_rows + part.num_rows > room:
                self.flush()
            self._pending.append(part)
            self._pending_rows += part.num_rows
            self.pending_bytes += part.nbytes
            if self._pending_rows >= room or self.pending_bytes >= self._settings.row_group_bytes:
                self.flush()

    def flush(self) -> None:
        """Write the pending records as a row group."""
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending, self._schema)
        if self._writer is None:
            name = f"part-{table.column(0)[0].as_py():05d}-{self._first:019d}-{self._tag}.parquet"
            self._path = f"{self._folder}/{name}"
            self._staged = f"{self._staging}/{self._folder}/{name}.staged"
            self._lake.fs.create_dir(
                f"{self._lake.root}/{self._staging}/{self._folder}", recursive=True
            )
            self._sink = self._lake.fs.open_output_stream(f"{self._lake.root}/{self._staged}")
            options = self._settings.writer_options(self._schema)
            self._writer = pq.ParquetWriter(self._sink, self._schema, **options)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._records += table.num_rows
        self._row_groups += 1
        self._bytes = self._sink.tell()
        self._pending.clear()
        self._pending_rows = self.pending_bytes = 0

    def close(self, topic: str, partition: int, date: str) -> LakeFile:
        """Finish the file, and sync it to the disk."""
        self.flush()
        assert self._writer is not None
        self._writer.close()
        self._bytes = self._sink.tell()
        self._sink.close()
        self._lake.sync_file(self._staged)
        return LakeFile(
            topic,
            partition,
            self._first,
            self._last,
            date,
            self._path,
            self._records,
            self._bytes,
            self._row_groups,
            schema_id(self._schema),
            self._staged,
        )

    def abort(self) -> None:
        """Close the unfinished file."""
        self._pending.clear()
        if self._sink is not None and self._writer is not None:
            # The error that has led here is the one to report.
            with contextlib.suppress(OSError, pa.ArrowException):
                self._writer.close()
                self._sink.close()


def by_date(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Split a batch by the date of the timestamps, in UTC. Each date keeps the order."""
    if not batch.num_rows:
        return
    stamps = batch.column(2)
    ends = pc.min_max(stamps.view(pa.int64())).as_py()
    low, high = ends["min"], ends["max"]
    if not stamps.null_count and low >= 0 and low // _DAY_US == high // _DAY_US:
        yield date_of(low // _DAY_US), batch
        return
    micros = pc.fill_null(stamps.view(pa.int64()), -1)
    # A missing timestamp is -1. Integer division rounds towards zero, so handle negatives first.
    days = pc.if_else(pc.less(micros, 0), -1, pc.divide(micros, _DAY_US))
    names: dict[str, list[int]] = {}
    for day in pc.unique(days).to_pylist():
        names.setdefault(date_of(day), []).append(day)
    for name, those in names.items():
        yield name, batch.filter(pc.is_in(days, pa.array(those, pa.int64())))


def date_of(day: int) -> str:
    """The folder name of a day since 1970. Days before 1970 or after the year 9999 have no date."""
    try:
        return NO_DATE if day < 0 else (_EPOCH + datetime.timedelta(days=day)).isoformat()
    except OverflowError:
        return NO_DATE


def _as_lake_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    names = [NAMES.get(name, name) for name in batch.schema.names]
    if names != schema.names:
        raise PipelineError(f"the source gave the columns {names}, not {schema.names}")
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _leaves(kind: pa.DataType, path: str) -> Iterator[str]:
    """The paths of a column's leaves in a Parquet file."""
    if pa.types.is_struct(kind):
        for each in kind:
            yield from _leaves(each.type, f"{path}.{each.name}")
    elif pa.types.is_map(kind):
        yield from _leaves(kind.key_type, f"{path}.key_value.key")
        yield from _leaves(kind.item_type, f"{path}.key_value.value")
    elif pa.types.is_list(kind):
        yield from _leaves(kind.value_type, f"{path}.list.element")
    else:
        yield path
