"""Offsets of a source partition as offsets of its mirror: pieces, and the files that keep them beside a checkpoint.

A mirror writes each partition in order, so offsets go up on both sides, but they needn't go up alike: compaction and
transactions leave gaps in the source, and others may write to the target. A `Piece` says where a run of records went.
One file holds the pieces of one batch; now and then all files are made one.
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

from kafka_native.spark.pipelines.folder import Folder

__all__ = ["PIECE_SCHEMA", "Piece", "Run", "Translations", "joined", "pieces_of", "thinned", "translate"]

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
"""The columns of the files, one row a `Piece`."""

COMPACT_AFTER: Final = 64
"""So many files are made one."""
PIECES_MAX: Final = 1000
"""So many pieces of one partition a batch may have; with more of them, translation gets coarser."""
KEPT_MAX: Final = 32_000
"""So many pieces of a partition are kept for good as they are, and as many for all that was before them."""
TRIES_MAX: Final = 5
_FILE_NAME: Final = re.compile(r"(batch|through)-([0-9]{20})\.parquet")

Key = tuple[str, int]


@dataclass(frozen=True, order=True)
class Piece:
    """Where the records of a partition from ``source_start`` to before ``source_end`` are in the target."""

    topic: str
    partition: int
    target_topic: str
    source_start: int
    source_end: int
    target_start: int
    target_end: int
    exact: bool = True
    """Both offsets go up by one with each record. Otherwise only the edges are known."""

    def at(self, offset: int) -> int:
        """The offset of the target behind everything that is before ``offset`` in the source; maybe further before."""
        if offset >= self.source_end:
            return self.target_end
        return self.target_start + max(0, offset - self.source_start) if self.exact else self.target_start


class Run(NamedTuple):
    """Records whose offsets, in the source or in the target, go up by one."""

    row: int
    """The number of the first, among the records of its range."""
    offset: int
    """Of the first."""
    length: int


def pieces_of(place: tuple[str, int, str], runs: Sequence[Run], placed: Sequence[Run]) -> list[Piece]:
    """The pieces of a range: runs of the source, cut where the offsets of the target jump.

    :param place: Topic, partition and the target's topic.
    :param runs: All records of the range, in order; there is one.
    :param placed: Where they are in the target, as far as the broker has told it.
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
            target = stretch.offset + row - stretch.row  # inexact: not before that, as each record takes an offset
            target_end = stretch.end_offset if upto == stretch.end else target + upto - row
            found.append(Piece(*place, source, source + upto - row, target, target_end, stretch.exact))
            row = upto
    return thinned(joined(found))


class _Stretch(NamedTuple):
    row: int
    end: int
    offset: int
    end_offset: int
    exact: bool


def _stretches(placed: Sequence[Run], rows: int) -> list[_Stretch]:
    """Where the records from ``row`` to before ``end`` went; inexact ones lie somewhere between their offsets."""
    found: list[_Stretch] = []
    row = offset = 0  # what comes next, and where it can be at the earliest
    for run in placed:
        if run.row > row:
            found.append(_Stretch(row, run.row, offset, run.offset, False))
        row, offset = run.row + run.length, run.offset + run.length
        found.append(_Stretch(run.row, row, run.offset, offset, True))
    if row < rows:
        found.append(_Stretch(row, rows, offset, offset, False))
    return found


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """The same with fewer pieces: exact ones that go on where the one before ends, on both sides, become one."""
    found: list[Piece] = []
    for piece in pieces:
        before = found[-1] if found else None
        if (
            before is not None
            and (before.topic, before.partition, before.target_topic, before.source_end, before.target_end)
            == (piece.topic, piece.partition, piece.target_topic, piece.source_start, piece.target_start)
            and before.exact
            and piece.exact
        ):
            found[-1] = _spanning(before, piece, True)
        else:
            found.append(piece)
    return found


def thinned(pieces: list[Piece], most: int = PIECES_MAX) -> list[Piece]:
    """At most so many pieces of one partition: neighbours become one that isn't exact."""
    while len(pieces) > most:
        pairs = [pieces[at : at + 2] for at in range(0, len(pieces), 2)]
        pieces = [_spanning(pair[0], pair[-1], False) if len(pair) == 2 else pair[0] for pair in pairs]
    return pieces


def _aged(pieces: list[Piece]) -> list[Piece]:
    """What is kept of a partition for good: the newest pieces as they are, the oldest coarser where there are many."""
    return [*thinned(pieces[:-KEPT_MAX], KEPT_MAX), *pieces[-KEPT_MAX:]]


def _spanning(first: Piece, last: Piece, exact: bool) -> Piece:
    place = (first.topic, first.partition, first.target_topic)
    return Piece(*place, first.source_start, last.source_end, first.target_start, last.target_end, exact)


class Translations:
    """The files of a mirror, in a folder: of a local disk, or of a URI that pyarrow knows (``hdfs:``, ``s3:``).

    One process writes, the driver of the mirror; any may read at the same time.
    """

    def __init__(self, folder: str) -> None:
        """Reads nothing yet.

        :param folder: ``translation`` in the folder of the mirror's checkpoint.
        """
        home = Folder(folder)
        self._fs, self._path = home.fs, home.root

    def write(self, batch_id: int, pieces: Iterable[Piece]) -> None:
        """Keeps the pieces of a batch; a batch that is done once more takes the place of its first try.

        A crash leaves the file whole or not at all.
        """
        self._fs.create_dir(self._path, recursive=True)
        self._put(f"batch-{batch_id:020}.parquet", sorted(pieces))
        names = self._names()
        if len(names) > COMPACT_AFTER:
            self._compact(names)

    def _put(self, name: str, pieces: Sequence[Piece]) -> None:
        columns = {field.name: [getattr(piece, field.name) for piece in pieces] for field in PIECE_SCHEMA}
        unfinished = f"{self._path}/.{name}.{uuid4().hex}"
        with self._fs.open_output_stream(unfinished) as out:
            pq.write_table(pa.table(columns, schema=PIECE_SCHEMA), out)
        self._fs.move(unfinished, f"{self._path}/{name}")

    def _names(self) -> list[str]:
        """The files that count, oldest first: what a later file has taken in is left out."""
        selector = pafs.FileSelector(self._path, allow_not_found=True)
        matches = [
            match for each in self._fs.get_file_info(selector) if (match := _FILE_NAME.fullmatch(each.base_name))
        ]
        upto = max((int(match[2]) for match in matches if match[1] == "through"), default=-1)
        kept = [
            (int(match[2]), match[0])
            for match in matches
            if int(match[2]) > upto or (match[1] == "through" and int(match[2]) == upto)
        ]
        return [name for _, name in sorted(kept)]

    def _compact(self, names: list[str]) -> None:
        """All files but the newest, whose batch may be done again, become one."""
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
        """All pieces by partition of the source, in order; for many look-ups with `translate()`.

        :raises OSError: The folder can't be read.
        """
        for tries_left in reversed(range(TRIES_MAX)):
            found: dict[Key, list[Piece]] = {}
            try:
                for name in self._names():
                    _merge(found, self._read(name))
            except FileNotFoundError:  # the mirror has just made one file of several
                if not tries_left:
                    raise
                continue
            break
        return found

    def translate(self, topic: str, partition: int, offset: int) -> int | None:
        """Where a reader of the target goes on that would go on at ``offset`` in the source; it misses nothing.

        It is the record's own place where that is known, and else one a little before it. What hasn't been mirrored
        yet is behind the last record that has.

        :param topic: Of the source, and ``partition`` and ``offset``, too.
        :return: An offset of the same partition of the target's topic; None: nothing of it was mirrored.
        """
        found = translate(self.load().get((topic, partition), []), offset)
        return None if found is None else found[1]


def translate(pieces: Sequence[Piece], offset: int) -> tuple[str, int] | None:
    """The target's topic and the offset where a reader goes on; None without any piece."""
    if not pieces:
        return None
    at = bisect.bisect_right(pieces, offset, key=lambda piece: piece.source_start) - 1
    piece = pieces[max(0, at)]
    return piece.target_topic, piece.at(offset)


def _merge(into: dict[Key, list[Piece]], pieces: Iterable[Piece]) -> None:
    """Adds what a later file says; where both know an offset, the later one is right."""
    for piece in pieces:
        kept = into.setdefault((piece.topic, piece.partition), [])
        while kept and kept[-1].source_start >= piece.source_start:
            kept.pop()
        kept.extend(joined([kept.pop(), piece] if kept else [piece]))
