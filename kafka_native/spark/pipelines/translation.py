"""Translates offsets of a source partition to offsets of its mirror, with files below a checkpoint.

A mirror writes each partition in order, so offsets grow on both sides, but not in step. Compaction
and transactions leave gaps in the source, and other producers may write to the target. A `Piece`
has the target's offsets of a run of records. One file has the pieces of one batch. From time to
time all files are merged to one.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from kafka_native.spark.folder import Folder

__all__ = [
    "PIECE_SCHEMA",
    "Piece",
    "Run",
    "Translations",
    "joined",
    "pieces_of",
    "thinned",
    "translate",
]

PIECE_SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("target_topic", pa.string(), nullable=False),
        pa.field("source_start", pa.int64(), nullable=False),
        pa.field("source_end", pa.int64(), nullable=False),
        pa.field("target_start", pa.int64(), nullable=False),
        pa.field("target_end", pa.int64(), nullable=False),
        pa.field("exact", pa.bool_(), nullable=False),
    ]
)
"""The columns of the files. A row is a `Piece`."""

COMPACT_AFTER: Final = 64
"""The number of files above which they are merged."""
PIECES_MAX: Final = 1000
"""The largest number of pieces of a partition in a batch. With more, translation is less exact."""
KEPT_MAX: Final = 32_000
"""The number of newest pieces of a partition that stay unchanged. Older ones are reduced to it."""
TRIES_MAX: Final = 5
_FILE_NAME: Final = re.compile(r"(batch|through)-([0-9]{20})\.parquet")

Key = tuple[str, int]


@dataclass(frozen=True, order=True)
class Piece:
    """The target's offsets for a run of the source's offsets. Ends are exclusive."""

    topic: str
    partition: int
    target_topic: str
    source_start: int
    source_end: int
    target_start: int
    target_end: int
    exact: bool = True
    """Both offsets grow by one with each record. Otherwise only the start and the end are known."""

    def at(self, offset: int) -> int:
        """The target's offset after all records before ``offset``, or an earlier one."""
        if offset >= self.source_end:
            return self.target_end
        return (
            self.target_start + max(0, offset - self.source_start)
            if self.exact
            else self.target_start
        )


class Run(NamedTuple):
    """Records with consecutive offsets, in the source or in the target."""

    row: int
    """The number of the first record in its range."""
    offset: int
    """The offset of the first record."""
    length: int


def pieces_of(
    place: tuple[str, int, str], runs: Sequence[Run], placed: Sequence[Run]
) -> list[Piece]:
    """The pieces of a range: the source's runs, cut where the target's offsets jump.

    :param place: Topic, partition and the target's topic.
    :param runs: All records of the range, in order; at least one run.
    :param placed: Their offsets in the target, as far as the broker has returned them.
    """
    stretches = _stretches(sorted(placed), runs[-1].row + runs[-1].length)
    found: list[Piece] = []
    at = 0
    for run in runs:
        row, end = run.row, run.row + run.length
        while row < end:
            while stretches[at].end <= row:
                at += 1
            stretch = stretches[at]
            upto = min(end, stretch.end)
            source = run.offset + row - run.row
            # If it isn't exact: the lowest possible offset, because each record takes one.
            target = stretch.offset + row - stretch.row
            target_end = stretch.end_offset if upto == stretch.end else target + upto - row
            found.append(
                Piece(*place, source, source + upto - row, target, target_end, stretch.exact)
            )
            row = upto
    return thinned(joined(found))


class _Stretch(NamedTuple):
    row: int
    end: int
    offset: int
    end_offset: int
    exact: bool


def _stretches(placed: Sequence[Run], rows: int) -> list[_Stretch]:
    """The target's offsets of rows. If a stretch isn't exact, its rows lie between its offsets."""
    found: list[_Stretch] = []
    row = offset = 0  # the next row, and its lowest possible offset
    for run in placed:
        if run.row > row:
            found.append(_Stretch(row, run.row, offset, run.offset, False))
        row, offset = run.row + run.length, run.offset + run.length
        found.append(_Stretch(run.row, row, run.offset, offset, True))
    if row < rows:
        found.append(_Stretch(row, rows, offset, offset, False))
    return found


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Join exact pieces that are consecutive on both sides."""
    found: list[Piece] = []
    for piece in pieces:
        before = found[-1] if found else None
        if (
            before is not None
            and (
                before.topic,
                before.partition,
                before.target_topic,
                before.source_end,
                before.target_end,
            )
            == (
                piece.topic,
                piece.partition,
                piece.target_topic,
                piece.source_start,
                piece.target_start,
            )
            and before.exact
            and piece.exact
        ):
            found[-1] = _spanning(before, piece, True)
        else:
            found.append(piece)
    return found


def thinned(pieces: list[Piece], pieces_max: int = PIECES_MAX) -> list[Piece]:
    """Reduce the pieces of one partition: join neighbours to one that isn't exact."""
    while len(pieces) > pieces_max:
        pairs = [pieces[at : at + 2] for at in range(0, len(pieces), 2)]
        pieces = [
            _spanning(pair[0], pair[-1], False) if len(pair) == 2 else pair[0] for pair in pairs
        ]
    return pieces


def _aged(pieces: list[Piece]) -> list[Piece]:
    """The pieces of a partition to keep: the newest unchanged, the older ones reduced."""
    return [*thinned(pieces[:-KEPT_MAX], KEPT_MAX), *pieces[-KEPT_MAX:]]


def _spanning(first: Piece, last: Piece, exact: bool) -> Piece:
    place = (first.topic, first.partition, first.target_topic)
    return Piece(
        *place, first.source_start, last.source_end, first.target_start, last.target_end, exact
    )


class Translations:
    """The translation files of a mirror, in a folder or a URI of pyarrow's (``hdfs:``, ``s3:``).

    Only the mirror's driver writes. Other processes may read at the same time.
    """

    def __init__(self, folder: str) -> None:
        """Read nothing yet.

        :param folder: The folder ``translation`` below the mirror's checkpoint.
        """
        home = Folder(folder)
        self._fs, self._path = home.fs, home.root

    def write(self, batch_id: int, pieces: Iterable[Piece]) -> None:
        """Store the pieces of a batch. A repeated batch replaces its first attempt.

        After a crash the file is complete or missing.
        """
        self._fs.create_dir(self._path, recursive=True)
        self._put(f"batch-{batch_id:020}.parquet", sorted(pieces))
        names = self._names()
        if len(names) > COMPACT_AFTER:
            self._compact(names)

    def _put(self, name: str, pieces: Sequence[Piece]) -> None:
        columns = {
            field.name: [getattr(piece, field.name) for piece in pieces] for field in PIECE_SCHEMA
        }
        unfinished = f"{self._path}/.{name}.{uuid4().hex}"
        with self._fs.open_output_stream(unfinished) as out:
            pq.write_table(pa.table(columns, schema=PIECE_SCHEMA), out)
        self._fs.move(unfinished, f"{self._path}/{name}")

    def _names(self) -> list[str]:
        """The valid files, oldest first. Files that were merged into a later one are left out."""
        selector = pafs.FileSelector(self._path, allow_not_found=True)
        matches = [
            match
            for each in self._fs.get_file_info(selector)
            if (match := _FILE_NAME.fullmatch(each.base_name))
        ]
        upto = max((int(match[2]) for match in matches if match[1] == "through"), default=-1)
        kept = [
            (int(match[2]), match[0])
            for match in matches
            if int(match[2]) > upto or (match[1] == "through" and int(match[2]) == upto)
        ]
        return [name for _, name in sorted(kept)]

    def _compact(self, names: list[str]) -> None:
        """Merge all files but the newest, whose batch may be repeated."""
        old = names[:-1]
        merged: dict[Key, list[Piece]] = {}
        for name in old:
            _merge(merged, self._read(name))
        number = _FILE_NAME.fullmatch(old[-1])
        assert number is not None
        everything = [piece for key in sorted(merged) for piece in _aged(merged[key])]
        self._put(f"through-{number[2]}.parquet", everything)
        selector = pafs.FileSelector(self._path, allow_not_found=True)
        keep = {f"through-{number[2]}.parquet", names[-1]}
        for info in self._fs.get_file_info(selector):
            match = _FILE_NAME.fullmatch(info.base_name)
            if match and info.base_name not in keep and int(match[2]) <= int(number[2]):
                self._fs.delete_file(info.path)

    def _read(self, name: str) -> list[Piece]:
        with self._fs.open_input_file(f"{self._path}/{name}") as source:
            rows: list[dict[str, Any]] = pq.read_table(source, schema=PIECE_SCHEMA).to_pylist()
        return [Piece(**row) for row in rows]

    def load(self) -> dict[Key, list[Piece]]:
        """Load all pieces by source partition, in order. Use it for many calls of `translate`.

        :raises OSError: The folder can't be read.
        """
        for tries_left in reversed(range(TRIES_MAX)):
            found: dict[Key, list[Piece]] = {}
            try:
                for name in self._names():
                    _merge(found, self._read(name))
            except FileNotFoundError:  # the mirror has just merged files
                if not tries_left:
                    raise
                continue
            break
        return found

    def translate(self, topic: str, partition: int, offset: int) -> int | None:
        """Translate a source offset to the offset where a reader of the target continues.

        The reader misses no record. The result is the record's own offset if that is known, or else
        an earlier one. A record that isn't mirrored yet follows the last mirrored one.

        :param topic: The source topic, with its ``partition`` and ``offset``.
        :return: An offset of the same partition of the target's topic; None: nothing was mirrored.
        """
        found = translate(self.load().get((topic, partition), []), offset)
        return None if found is None else found[1]


def translate(pieces: Sequence[Piece], offset: int) -> tuple[str, int] | None:
    """The target's topic and the offset where a reader continues; None without pieces."""
    if not pieces:
        return None
    at = bisect.bisect_right(pieces, offset, key=lambda piece: piece.source_start) - 1
    piece = pieces[max(0, at)]
    return piece.target_topic, piece.at(offset)


def _merge(into: dict[Key, list[Piece]], pieces: Iterable[Piece]) -> None:
    """Add the pieces of a later file. They replace older pieces for the same offsets."""
    for piece in pieces:
        kept = into.setdefault((piece.topic, piece.partition), [])
        while kept and kept[-1].source_start >= piece.source_start:
            kept.pop()
        kept.extend(joined([kept.pop(), piece] if kept else [piece]))
