"""Lanes: the ordered sequences of records that a replay reads in parallel.

A lane is a source partition. Its records are in one or several Parquet files, and the lane returns
them in the order of their offsets. A file without offsets is a separate lane and keeps its order.
The position of a lane is one number: its next offset, or its next row.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from kafka_native.spark.folder import Folder
from kafka_native.spark.pipelines.lake import Lake
from kafka_native.spark.pipelines.manifests import LOG, LakeFile
from kafka_native.spark.pipelines.session import PipelineError

__all__ = ["Lane", "Piece", "lanes_of", "read_lane"]

BATCH_ROWS: Final = 50_000
_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_NEEDS_BYTES: Final = (
    "and not the bytes that a replay needs: archive the topic without formats into another folder, "
    'or write a frame of the files with format("kafka_native")'
)
_HIVE: Final = re.compile(r"(?:^|/)topic=([^/]+)(?=/)")


@dataclass(frozen=True, order=True)
class Piece:
    """A file, or the part of a file that belongs to a lane."""

    first: int
    """The lane's lowest offset in the file; 0 for files without offsets."""
    last: int
    path: str
    """The path below the source's folder."""
    rows: int
    """The number of rows of the file."""
    mixed: bool = False
    """Whether the file also has records of other lanes."""
    in_order: bool = True
    """Whether the records are sorted by offset. If not, the whole piece is read into memory."""


@dataclass(frozen=True, order=True)
class Lane:
    """A sequence of records that stay in order."""

    topic: str
    """Empty: each record has a column with its topic, or no topic is known."""
    partition: int
    """-1 for files without offsets."""
    pieces: tuple[Piece, ...]
    columns: tuple[str, ...]
    """The columns of the files that a replay uses."""

    @property
    def name(self) -> str:
        """A name that is unique in the source and valid in a file name."""
        if self.partition >= 0:
            return f"{_in_file_name(self.topic) or '_'}-{self.partition}"
        return "file-" + re.sub(
            r"[^A-Za-z0-9._=-]", lambda found: f"%{ord(found[0]):02x}", self.pieces[0].path
        )

    @property
    def by_offset(self) -> bool:
        """Whether the records are sorted by offset. Otherwise the order is the file's."""
        return self.partition >= 0

    @property
    def names_topics(self) -> bool:
        """Whether each record has a column with its topic, and there may be several topics."""
        return not self.topic and "topic" in self.columns

    @property
    def rows(self) -> int:
        """The number of records; with mixed files an upper limit."""
        return sum(each.rows for each in self.pieces)


def _in_file_name(topic: str) -> str:
    """A topic as part of a file name. Characters that could lead to another folder are escaped."""
    return "".join(
        each if each.isprintable() and each not in "/\\%" else quote(each, safe="")
        for each in topic
    )


def lanes_of(
    source: str | os.PathLike[str] | Folder, topics: Sequence[str] = (), dates: Sequence[str] = ()
) -> list[Lane]:
    """The lanes of a lake, or of a folder or file of Parquet files.

    :param source: The lake, folder or file.
    :param topics: Only these topics. A lane with several topics also has the others.
    :param dates: Only these dates; for lakes only.
    :raises PipelineError: There are no records, or a file isn't Parquet.
    """
    folder = source if isinstance(source, Folder) else Folder(source)
    if folder.exists(f"{LOG}/lake.json"):
        lanes = _lanes_of_lake(Lake(folder.root, filesystem=folder.fs), topics, dates)
    elif dates:
        raise PipelineError(f"{folder.uri} is no lake of archive: dates can't be chosen")
    else:
        lanes = [
            lane
            for lane in _lanes_of_files(folder)
            if not topics or lane.names_topics or lane.topic in topics
        ]
    if not lanes:
        raise PipelineError(f"{folder.uri} has no records to replay")
    return lanes


def _lanes_of_lake(lake: Lake, topics: Sequence[str], dates: Sequence[str]) -> list[Lane]:
    pieces: dict[tuple[str, int], list[Piece]] = {}
    files = lake.files(topics or None, dates or None)
    for each in {each.schema: each for each in files}.values():
        _check_bytes(lake, each)
    for each in files:
        piece = Piece(each.first_offset, each.last_offset, each.path, each.records)
        pieces.setdefault((each.topic, each.partition), []).append(piece)
    columns = tuple(name for name in _COLUMNS if name != "topic")
    return [
        Lane(topic, number, tuple(sorted(those)), columns)
        for (topic, number), those in sorted(pieces.items())
    ]


def _check_bytes(lake: Lake, file: LakeFile) -> None:
    """Check that a file has the bytes of keys and values.

    :raises PipelineError: They are decoded.
    """
    schema = lake.schema_of(file.schema)
    for name in ("key", "value"):
        if name not in schema.names or schema.field(name).type != pa.binary():
            raise PipelineError(f"the lake has each {name} of {file.topic} decoded, {_NEEDS_BYTES}")


def _lanes_of_files(folder: Folder) -> list[Lane]:
    lanes: dict[tuple[str, int], list[Piece]] = {}
    columns: dict[tuple[str, int], tuple[str, ...]] = {}
    alone: list[Lane] = []
    for path in _parquet_files(folder):
        with _open(folder, path) as file:
            found = tuple(name for name in _COLUMNS if name in file.schema_arrow.names)
            if "value" not in found and "key" not in found:
                raise PipelineError(
                    f"{path} has neither a column value nor a column key: {file.schema_arrow.names}"
                )
            for name in {"key", "value"} & set(found):
                if pa.types.is_nested(file.schema_arrow.field(name).type):
                    raise PipelineError(f"{path} has each {name} decoded, {_NEEDS_BYTES}")
            hive = _HIVE.search(f"/{path}")
            topic = unquote(hive[1]) if hive and "topic" not in found else ""
            if not {"partition", "offset"} <= set(found):
                rows = file.metadata.num_rows
                alone.append(Lane(topic, -1, (Piece(0, rows - 1, path, rows),), found))
                continue
            for key, piece in _pieces(file, path, topic, found):
                if columns.setdefault(key, found) != found:
                    raise PipelineError(
                        f"{path} has other columns than the files before it: {', '.join(found)}"
                    )
                lanes.setdefault(key, []).append(piece)
    by_offset = [
        Lane(*key, tuple(sorted(those)), columns[key]) for key, those in sorted(lanes.items())
    ]
    return by_offset + sorted(alone)


def _pieces(
    file: pq.ParquetFile, path: str, topic: str, columns: tuple[str, ...]
) -> Iterator[tuple[tuple[str, int], Piece]]:
    """The partitions that a file has records of. Only these columns are read."""
    names = [name for name in ("topic", "partition", "offset") if name in columns]
    table = file.read(columns=names)
    if not table.num_rows:
        return
    if table.column("partition").null_count or table.column("offset").null_count:
        raise PipelineError(f"{path} has records without partition or offset: no order can be kept")
    keys = names[:-1]
    grouped = table.group_by(keys).aggregate([("offset", "min"), ("offset", "max")])
    for row in grouped.to_pylist():
        mine = table
        if grouped.num_rows > 1:
            for name in keys:
                mine = mine.filter(pc.equal(mine.column(name), row[name]))
        key = (str(row.get("topic") or topic), int(row["partition"]))
        in_order = _is_in_order(mine.column("offset").combine_chunks())
        yield (
            key,
            Piece(
                row["offset_min"],
                row["offset_max"],
                path,
                table.num_rows,
                grouped.num_rows > 1,
                in_order,
            ),
        )


def _parquet_files(folder: Folder) -> list[str]:
    """The Parquet files below a folder.

    Like in Spark, names with ``_`` or ``.`` first are ignored.
    """
    info = folder.fs.get_file_info(folder.root)
    if info.type == pyarrow.fs.FileType.NotFound:
        raise PipelineError(f"{folder.uri} doesn't exist")
    if info.type == pyarrow.fs.FileType.File:
        return [""]
    found = folder.fs.get_file_info(pyarrow.fs.FileSelector(folder.root, recursive=True))
    below = [
        each.path[len(folder.root) :].lstrip("/") for each in found if each.is_file and each.size
    ]
    return sorted(
        path
        for path in below
        if path.endswith(".parquet") and not any(part[0] in "_." for part in path.split("/"))
    )


def _open(folder: Folder, path: str) -> pq.ParquetFile:
    name = folder.full(path).rstrip("/")
    try:
        return pq.ParquetFile(folder.fs.open_input_file(name), pre_buffer=False)
    except pa.ArrowInvalid as error:
        raise PipelineError(f"{name} is no Parquet file: {error}") from error


# --- reading ---


def read_lane(
    folder: Folder, lane: Lane, position: int = 0
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Read a lane's records in order. Yields batches, each with the position after it.

    :param folder: The source.
    :param lane: One of the source's lanes.
    :param position: The first offset (or row) to read.
    """
    if not lane.by_offset:
        yield from _rows_from(folder, lane, position)
        return
    for group in _groups(lane.pieces):
        wanted = [each for each in group if each.last >= position]
        for batch in _merged([_by_offset(folder, lane, each, position) for each in wanted]):
            yield batch.column("offset")[-1].as_py() + 1, batch


def _rows_from(folder: Folder, lane: Lane, position: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    [piece] = lane.pieces
    row = 0
    with _open(folder, piece.path) as file:
        for batch in file.iter_batches(BATCH_ROWS, columns=list(lane.columns)):
            start, row = row, row + batch.num_rows
            if row > position:
                yield row, batch.slice(max(0, position - start))


def _groups(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Yield pieces in order. Pieces with overlapping offsets are in one group."""
    group: list[Piece] = []
    end = -1
    for piece in sorted(pieces):
        if group and piece.first > end:
            yield group
            group = []
        group.append(piece)
        end = max(end, piece.last)
    if group:
        yield group


def _by_offset(folder: Folder, lane: Lane, piece: Piece, position: int) -> Iterator[pa.RecordBatch]:
    """Read a piece from an offset on. Statistics show which row groups can be skipped."""
    with _open(folder, piece.path) as file:
        # A nested column before it has several leaves, so its index is searched by name.
        leaf = next(
            number
            for number in range(len(file.schema))
            if file.schema.column(number).path == "offset"
        )
        held: list[pa.RecordBatch] = []
        wanted = [
            number
            for number in range(file.num_row_groups)
            if not _is_before(file.metadata.row_group(number).column(leaf).statistics, position)
        ]
        for batch in file.iter_batches(BATCH_ROWS, row_groups=wanted, columns=list(lane.columns)):
            kept = batch
            if piece.first < position:
                kept = kept.filter(pc.greater_equal(kept.column("offset"), position))
            if piece.mixed:
                kept = kept.filter(_of_lane(kept, lane))
            if not piece.in_order:
                held.append(kept)
            elif kept.num_rows:
                yield kept
        if held:
            yield from pa.Table.from_batches(held).sort_by("offset").to_batches(BATCH_ROWS)


def _is_before(statistics: Any, position: int) -> bool:
    return statistics is not None and statistics.has_min_max and statistics.max < position


def _of_lane(batch: pa.RecordBatch, lane: Lane) -> pa.Array:
    mask = pc.equal(batch.column("partition"), lane.partition)
    return (
        pc.and_(mask, pc.equal(batch.column("topic"), lane.topic))
        if "topic" in lane.columns
        else mask
    )


def _is_in_order(offsets: pa.Array) -> bool:
    count = len(offsets)
    return count < 2 or not pc.any(pc.less(offsets.slice(1), offsets.slice(0, count - 1))).as_py()


def _merged(sources: list[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Merge several sources that are sorted by offset."""
    if len(sources) == 1:
        yield from sources[0]
        return
    heads = [(batch, source) for source in sources if (batch := next(source, None)) is not None]
    while heads:
        # Later batches are above the lowest last offset. So rows up to it are complete.
        bound = min(batch.column("offset")[-1].as_py() for batch, _source in heads)
        parts, left = [], []
        for batch, source in heads:
            count = pc.sum(pc.less_equal(batch.column("offset"), bound)).as_py() or 0
            parts.append(batch.slice(0, count))
            rest = batch.slice(count) if count < batch.num_rows else next(source, None)
            if rest is not None:
                left.append((rest, source))
        table = pa.Table.from_batches(parts).combine_chunks()
        for batch in table.sort_by("offset").combine_chunks().to_batches():
            if batch.num_rows:
                yield batch
        heads = left
