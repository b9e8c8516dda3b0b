"""Writes the records of one range as data files of a table, in a Python worker of an executor.

A file is at its final place from the start, with a unique name. It belongs to the table when the
driver's commit lists it. So nothing is moved, and a file of a failed attempt is never visible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_native.spark.folder import Folder
from kafka_native.spark.pipelines.lake_schemas import COLUMNS, SCHEMA
from kafka_native.spark.pipelines.manifests import LakeFile, checked_query
from kafka_native.spark.pipelines.parquet import (
    OpenFile,
    ParquetSettings,
    PartedWriter,
    WrittenFile,
)
from kafka_native.spark.pipelines.session import PipelineError

__all__ = ["TableFile", "TableLayout", "TableWriter"]

TimeUnit = Literal["day", "hour"]
UNIT_US: Final[Mapping[TimeUnit, int]] = {"day": 86_400_000_000, "hour": 3_600_000_000}
DATA: Final = "kafka_native"
"""The folder of our files, below the folder of the table's data."""
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


class TableWriter(PartedWriter[int | None]):
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
        super().__init__(settings)
        self._folder = folder
        self._below = below
        self._layout = layout
        self._topic = topic
        self._partition = partition

    def _parts(self, batch: pa.RecordBatch) -> Iterator[tuple[int | None, pa.RecordBatch]]:
        unit_us = 0 if self._layout.unit is None else UNIT_US[self._layout.unit]
        return _by_time(_as_columns(batch, self._layout.schema, self._topic), unit_us)

    def _new(self, part: int | None) -> OpenFile:
        path_of = partial(data_path, self._below)
        return OpenFile(self._folder, path_of, self._layout.schema, self._settings)

    def _listed(self, part: int | None, file: WrittenFile) -> TableFile:
        return data_file(self._topic, self._partition, part, file)


def data_path(below: str, partition: int, first_offset: int) -> str:
    """The path of a new data file in an attempt's folder."""
    return f"{below}/part-{partition:05d}-{first_offset:019d}.parquet"


def data_file(topic: str, partition: int, time: int | None, file: WrittenFile) -> TableFile:
    """What a table's commit lists of a file."""
    return TableFile(
        topic,
        partition,
        file.first_offset,
        file.last_offset,
        "",
        file.path,
        file.metadata.num_rows,
        file.bytes,
        file.metadata.num_row_groups,
        time=time,
        stats=_stats(file.metadata),
    )


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
