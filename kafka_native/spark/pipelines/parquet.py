"""Writes the records of one range as Parquet files, in a Python worker of an executor."""

from __future__ import annotations

import contextlib
import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Final, Generic, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from kafka_native.spark.folder import Folder
from kafka_native.spark.pipelines.lake_schemas import NAMES, SCHEMA, schema_id
from kafka_native.spark.pipelines.manifests import NO_DATE, LakeFile, partition_folder
from kafka_native.spark.pipelines.session import PipelineError

__all__ = [
    "OpenFile",
    "ParquetSettings",
    "PartedWriter",
    "RangeWriter",
    "WrittenFile",
    "staged_file",
    "staged_path",
]

_DELTAS: Final = ("offset", "timestamp")
"""The columns that store differences."""
_NO_STATISTICS: Final = (
    *("timestamp_type", "key", "value"),
    *("headers.list.element.key", "headers.list.element.value"),
)
COMPRESSIONS: Final = ("zstd", "snappy", "lz4", "gzip", "none")
_DAY_US: Final = 86_400_000_000
_EPOCH: Final = datetime.date(1970, 1, 1)
_STAGED: Final = ".staged"
"""The end of a staged file's name: listings of Parquet files don't find it."""
_OPEN_MAX: Final = 16
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


class WrittenFile(NamedTuple):
    """A Parquet file with records of one partition, on the disk."""

    path: str
    first_offset: int
    last_offset: int
    bytes: int
    metadata: pq.FileMetaData


class OpenFile:
    """A Parquet file that is being written, with records of one partition.

    :param folder: The folder that the path belongs to.
    :param path_of: Returns the path from the partition and the first offset.
    :param schema: The file's columns, with ``partition`` and ``offset``.
    :param settings: The settings of the file.
    """

    def __init__(
        self,
        folder: Folder,
        path_of: Callable[[int, int], str],
        schema: pa.Schema,
        settings: ParquetSettings,
    ) -> None:
        """Open nothing yet: the first record's offset is in the name."""
        self._folder = folder
        self._path_of = path_of
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
        """Add records, in the order of their offsets. A full row group is written."""
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
            self.pending_bytes += part.nbytes  # the buffers of a slice would count as a whole
            if self._pending_rows >= room or self.pending_bytes >= self._settings.row_group_bytes:
                self.flush()

    def flush(self) -> None:
        """Write the pending records as a row group."""
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending, self._schema)
        if self._writer is None:
            self._path = self._path_of(table.column("partition")[0].as_py(), self._first)
            self._folder.make(str(PurePosixPath(self._path).parent))
            self._sink = self._folder.fs.open_output_stream(self._folder.full(self._path))
            options = self._settings.writer_options(self._schema)
            self._writer = pq.ParquetWriter(
                self._sink, self._schema, metadata_collector=self._metadata, **options
            )
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._bytes = self._sink.tell()
        self._pending.clear()
        self._pending_rows = self.pending_bytes = 0

    def close(self) -> WrittenFile:
        """Finish the file, and sync it to the disk. It has at least one record."""
        self.flush()
        assert self._writer is not None
        self._writer.close()
        self._bytes = self._sink.tell()
        self._sink.close()
        self._folder.sync_file(self._path)
        [metadata] = self._metadata
        return WrittenFile(self._path, self._first, self._last, self._bytes, metadata)

    def abort(self) -> None:
        """Close the unfinished file."""
        self._pending.clear()
        if self._sink is not None and self._writer is not None:
            # The error that has led here is the one to report.
            with contextlib.suppress(OSError, pa.ArrowException):
                self._writer.close()
                self._sink.close()


Part = TypeVar("Part")


class PartedWriter(ABC, Generic[Part]):
    """Writes one range's records: one or more files for each part, such as a date.

    :param settings: The settings of the files.
    """

    def __init__(self, settings: ParquetSettings) -> None:
        """Open nothing yet."""
        self._settings = settings
        self._open: dict[Part, OpenFile] = {}  # the least recently used one first
        self._files: list[LakeFile] = []

    @abstractmethod
    def _parts(self, batch: pa.RecordBatch) -> Iterable[tuple[Part, pa.RecordBatch]]:
        """Split a batch of the source. Each part keeps the order, and has the files' columns."""

    @abstractmethod
    def _new(self, part: Part) -> OpenFile:
        """Return a new file."""

    @abstractmethod
    def _listed(self, part: Part, file: WrittenFile) -> LakeFile:
        """Return what the batch lists of a finished file."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch with the source's names of the columns, in the order of offsets."""
        for part, rows in self._parts(batch):
            file = self._open.pop(part, None) or self._opened(part)
            self._open[part] = file
            file.write(rows)
            if file.is_full:
                self._end(part)
        while (
            sum(each.pending_bytes for each in self._open.values())
            > 2 * self._settings.row_group_bytes
        ):
            max(self._open.values(), key=lambda each: each.pending_bytes).flush()

    def close(self) -> list[LakeFile]:
        """Finish all files and sync them to the disk."""
        for part in list(self._open):
            self._end(part)
        return self._files

    def abort(self) -> None:
        """Close the open files. A later sweep removes them."""
        for file in self._open.values():
            file.abort()
        self._open.clear()

    def _opened(self, part: Part) -> OpenFile:
        while len(self._open) >= _OPEN_MAX:
            self._end(next(iter(self._open)))
        return self._new(part)

    def _end(self, part: Part) -> None:
        self._files.append(self._listed(part, self._open.pop(part).close()))


class RangeWriter(PartedWriter[str]):
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
        super().__init__(settings)
        self._lake = lake
        self._staging = staging
        self._tag = tag
        self._topic = topic
        self._partition = partition
        self._schema = schema

    def _parts(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        return by_date(_as_lake_columns(batch, self._schema))

    def _new(self, part: str) -> OpenFile:
        path_of = partial(staged_path, self._staging, self._tag, self._topic, part)
        return OpenFile(self._lake, path_of, self._schema, self._settings)

    def _listed(self, part: str, file: WrittenFile) -> LakeFile:
        place = self._topic, self._partition, part
        return staged_file(self._staging, *place, file, self._schema)


def staged_path(
    staging: str, tag: str, topic: str, date: str, partition: int, first_offset: int
) -> str:
    """The path of a lake's new file, in an attempt's staging folder."""
    name = f"part-{partition:05d}-{first_offset:019d}-{tag}.parquet"
    return f"{staging}/{partition_folder(topic, date)}/{name}{_STAGED}"


def staged_file(
    staging: str, topic: str, partition: int, date: str, file: WrittenFile, schema: pa.Schema
) -> LakeFile:
    """What a lake's manifest lists of a file with a `staged_path`."""
    return LakeFile(
        topic,
        partition,
        file.first_offset,
        file.last_offset,
        date,
        file.path.removeprefix(f"{staging}/").removesuffix(_STAGED),
        file.metadata.num_rows,
        file.bytes,
        file.metadata.num_row_groups,
        schema_id(schema),
        file.path,
    )


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
