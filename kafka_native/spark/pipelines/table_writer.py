"""Writes the records of one range as data files of a table, in a Python worker of an executor.

A file is at its final place from the start, with a unique name. It belongs to the table when the
driver's commit lists it. So nothing is moved, and a file of a failed attempt is never visible.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_native.spark.folder import Folder
from kafka_native.spark.pipelines.lake_schemas import COLUMNS, SCHEMA
from kafka_native.spark.pipelines.manifests import LakeFile, checked_query
from kafka_native.spark.pipelines.parquet import ParquetSettings
from kafka_native.spark.pipelines.session import PipelineError

__all__ = ["TableFile", "TableLayout", "TableWriter"]

TimeUnit = Literal["day", "hour"]
UNIT_US: Final[Mapping[TimeUnit, int]] = {"day": 86_400_000_000, "hour": 3_600_000_000}
DATA: Final = "kafka_native"
"""The folder of our files, below the folder of the table's data."""
_OPEN_MAX: Final = 16
"""The largest number of open files of a task. It limits the memory for scattered timestamps."""
_SOURCE_NAMES: Final = dict(zip(SCHEMA.names, COLUMNS, strict=True))


@dataclass(frozen=True, order=True)
class TableFile(LakeFile):
    """A data file of a table, with records of one topic partition, sorted by offset."""

    time: int | None = None
    """The days or hours from 1970 to the records' timestamps; None: not partitioned, or null."""
    stats: Mapping[str, Mapping[str, int]] = field(default_factory=dict, compare=False)
    """``bytes``, ``values`` and, if known, ``nulls`` of flat columns.

    The partition, offset and timestamp also have ``min`` and ``max``. Timestamps are microseconds
    since 1970.
    """


@dataclass(frozen=True)
class TableLayout:
    """The form of a table's data files. The driver sends it to the tasks."""

    schema: pa.Schema
    """The files' columns. Columns that the source doesn't have are constants or null."""
    unit: TimeUnit | None = "day"
    """A file has the records of one day, or one hour, or of any time."""


def attempt_folder(query: str, batch: int, attempt: str = "") -> str:
    """The folder of an attempt's files, or of all of a batch, below the table's data."""
    folder = f"{DATA}/{checked_query(query)}/{batch:010d}"
    return f"{folder}/{attempt}" if attempt else folder


class TableWriter:
    """Writes one range's records: one or more files for each day or hour.

    :param folder: The folder of the table's data.
    :param below: The attempt's folder, below ``folder``.
    :param layout: The form of the files.
    :param topic: The records' topic.
    :param partition: The records' partition.
    :param settings: The settings of the files.
    """

    def __init__(
        self,
        folder: Folder,
        below: str,
        layout: TableLayout,
        topic: str,
        partition: int,
        settings: ParquetSettings,
    ) -> None:
        """Open nothing yet."""
        self._folder = folder
        self._below = below
        self._layout = layout
        self._topic = topic
        self._partition = partition
        self._settings = settings
        self._open: dict[int | None, OpenFile] = {}  # the least recently used one first
        self._files: list[LakeFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Add records, with the source's columns, in the order of their offsets."""
        for time, part in _by_time(
            _as_columns(batch, self._layout.schema, self._topic), self._unit
        ):
            file = self._open.pop(time, None) or self._new()
            self._open[time] = file
            file.write(part)
            if file.is_full:
                self._end(time)
        while (
            sum(each.pending_bytes for each in self._open.values())
            > 2 * self._settings.row_group_bytes
        ):
            max(self._open.values(), key=lambda each: each.pending_bytes).flush()

    def close(self) -> list[LakeFile]:
        """Finish all files and sync them to the disk."""
        for time in list(self._open):
            self._end(time)
        return self._files

    def abort(self) -> None:
        """Close the open files. A later sweep removes them."""
        for file in self._open.values():
            file.abort()
        self._open.clear()

    @property
    def _unit(self) -> int:
        return 0 if self._layout.unit is None else UNIT_US[self._layout.unit]

    def _new(self) -> OpenFile:
        while len(self._open) >= _OPEN_MAX:
            self._end(next(iter(self._open)))
        return OpenFile(self._folder, self._below, self._layout.schema, self._settings)

    def _end(self, time: int | None) -> None:
        self._files.append(self._open.pop(time).close(self._topic, self._partition, time))


class OpenFile:
    """A data file that is being written.

    :param folder: The folder of the table's data.
    :param below: The file's folder, below ``folder``.
    :param schema: The file's columns, with ``partition`` and ``offset``.
    :param settings: The settings of the file.
    """

    def __init__(
        self, folder: Folder, below: str, schema: pa.Schema, settings: ParquetSettings
    ) -> None:
        """Open nothing yet: the first record's offset is in the name."""
        self._folder = folder
        self._below = below
        self._schema = schema
        self._settings = settings
        self._offset_at = schema.get_field_index("offset")
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self.pending_bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self._sink: Any = None
        self._metadata: list[pq.FileMetaData] = []
        self._path = ""
        self._first = self._last = -1
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the file has reached its size."""
        return self._bytes >= self._settings.file_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        """Add records. A full row group is written."""
        room = self._settings.row_group_rows
        offsets = batch.column(self._offset_at)
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
            partition = table.column("partition")[0].as_py()
            self._path = f"{self._below}/part-{partition:05d}-{self._first:019d}.parquet"
            self._folder.make(self._below)
            self._sink = self._folder.fs.open_output_stream(self._folder.full(self._path))
            options = self._settings.writer_options(self._schema)
            self._writer = pq.ParquetWriter(
                self._sink, self._schema, metadata_collector=self._metadata, **options
            )
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._bytes = self._sink.tell()
        self._pending.clear()
        self._pending_rows = self.pending_bytes = 0

    def close(self, topic: str, partition: int, time: int | None) -> TableFile:
        """Finish the file, and sync it to the disk."""
        self.flush()
        assert self._writer is not None
        self._writer.close()
        self._bytes = self._sink.tell()
        self._sink.close()
        self._folder.sync_file(self._path)
        [metadata] = self._metadata
        return TableFile(
            topic,
            partition,
            self._first,
            self._last,
            "",
            self._path,
            metadata.num_rows,
            self._bytes,
            metadata.num_row_groups,
            time=time,
            stats=_stats(metadata),
        )

    def abort(self) -> None:
        """Close the unfinished file."""
        self._pending.clear()
        if self._sink is not None and self._writer is not None:
            # The error that has led here is the one to report.
            with contextlib.suppress(OSError, pa.ArrowException):
                self._writer.close()
                self._sink.close()


def _as_columns(batch: pa.RecordBatch, schema: pa.Schema, topic: str) -> pa.RecordBatch:
    """The source's batch with a table's columns."""
    columns = []
    for wanted in schema:
        at = batch.schema.get_field_index(_SOURCE_NAMES.get(wanted.name, wanted.name))
        if at >= 0:
            column = batch.column(at)
            columns.append(column if column.type == wanted.type else column.cast(wanted.type))
        elif wanted.name == "topic":
            columns.append(pa.repeat(pa.scalar(topic, wanted.type), batch.num_rows))
        else:
            raise PipelineError(
                f"the source gave the columns {batch.schema.names}, without {wanted.name}"
            )
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _by_time(batch: pa.RecordBatch, unit_us: int) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    """Split a batch by the days or hours of its timestamps. Each part keeps the order.

    ``unit_us`` is 0 if the batch isn't to be split.
    """
    if not batch.num_rows:
        return
    if not unit_us:
        yield None, batch
        return
    micros = batch.column("timestamp").view(pa.int64())
    ends = pc.min_max(micros).as_py()
    low, high = ends["min"], ends["max"]
    if low is None:
        yield None, batch
        return
    if not micros.null_count and low // unit_us == high // unit_us:
        yield low // unit_us, batch
        return
    # Integer division rounds towards zero: go one down where that was up.
    units = pc.divide(micros, unit_us)
    above = pc.greater(pc.multiply(units, unit_us), micros)
    units = pc.subtract(units, above.cast(pa.int64()))
    for each in pc.unique(units).to_pylist():
        yield each, batch.filter(pc.is_null(units) if each is None else pc.equal(units, each))


def _stats(metadata: pq.FileMetaData) -> dict[str, dict[str, int]]:
    """The statistics of a file's flat columns, as `TableFile.stats` has them."""
    found: dict[str, dict[str, int]] = {}
    for at in range(metadata.num_columns):
        groups = [metadata.row_group(each).column(at) for each in range(metadata.num_row_groups)]
        name = groups[0].path_in_schema
        if "." in name:
            continue
        found[name] = {
            "bytes": sum(each.total_compressed_size for each in groups),
            "values": sum(each.num_values for each in groups),
        }
        known = [each.statistics for each in groups]
        if any(each is None or not each.has_null_count for each in known):
            continue
        found[name]["nulls"] = sum(each.null_count for each in known)
        pairs = [(each.min_raw, each.max_raw) for each in known if each.has_min_max]
        # A row group without values has no limits. Limits of other columns may be of any type.
        if pairs and name in SCHEMA.names and groups[0].physical_type in ("INT32", "INT64"):
            found[name]["min"] = min(low for low, _ in pairs)
            found[name]["max"] = max(high for _, high in pairs)
    return found
