"""Many manifests in one Parquet file, so that an old lake isn't slower than a new one.

A file has a row for each entry of its manifests, and a summary in its footer: the batches, the ends
of the partitions and the ids of the topics. A driver that starts reads only the summaries.

Files have levels. Single manifests become a file of level 0. `FILES_MAX` files of a level become
one of the next level. So a year of one batch a minute leaves some fifty files.
"""

from __future__ import annotations

import io
import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_native.spark.pipelines.manifests import (
    LakeFile,
    Manifest,
    Range,
    Skipped,
    check_file,
    check_path,
)
from kafka_native.spark.pipelines.session import PipelineError

FILES_MAX: Final = 16
"""So many files of a level are merged."""

SCHEMA: Final = pa.schema(
    [
        ("query", pa.string()),
        ("batch", pa.int64()),
        ("published_ms", pa.int64()),
        ("kind", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("date", pa.string()),
        ("text", pa.string()),
        ("records", pa.int64()),
        ("bytes", pa.int64()),
        ("row_groups", pa.int32()),
        ("schema", pa.string()),
    ]
)
"""The columns of a file. ``kind`` says what a row is:

- ``batch``: a manifest. ``records`` are the left-out ones, which are in none of the files.
- ``range``: offsets from ``start`` to ``end``, exclusive.
- ``file``: ``start`` and ``end`` are its first and last offset, ``text`` is its path.
- ``skipped``: skipped offsets, ``text`` is the reason.
- ``topic``: ``text`` is the topic's id.
- ``replaced``: ``text`` is the path of a file that the batch's files replace.
"""

_FILE_COLUMNS: Final = (
    *("topic", "partition", "start", "end", "date", "text"),
    *("records", "bytes", "row_groups", "schema"),
)
"""The columns of a ``file``, in the order of `LakeFile`."""

SUMMARY: Final = b"kafka_native.lake"
"""The summary's name in the metadata of the file."""

Row: TypeAlias = dict[str, Any]
Intervals: TypeAlias = list[tuple[int, int]]
"""Sorted pairs of a first and a last number."""


class Plan(NamedTuple):
    """Offsets of a batch that were read or skipped."""

    topic: str
    partition: int
    start: int
    end: int
    reason: str | None
    """The reason why they were skipped; None: they were read."""
    published_ms: int


@dataclass(frozen=True)
class Summary:
    """What a file holds, from its footer."""

    level: int
    batches: dict[str, Intervals]
    """The numbers of the batches, by query."""
    ends: dict[tuple[str, int], int]
    """The offset after the last one, by topic and partition."""
    topic_ids: dict[str, tuple[int, str]]
    """The last known id of each topic, after the time of its batch."""
    schemas: dict[str, set[str]]
    """The names of the columns of each topic's files. Replaced files count, too."""

    def __contains__(self, batch: tuple[str, int]) -> bool:
        """Whether the file has the manifest of a batch."""
        intervals = self.batches.get(batch[0], [])
        at = bisect_right(intervals, batch[1], key=lambda each: each[0]) - 1
        return at >= 0 and batch[1] <= intervals[at][1]

    def overlaps(self, other: Summary) -> bool:
        """Whether both files have the manifest of the same batch."""
        return any(
            first <= last_of_other and first_of_other <= last
            for query in self.batches.keys() & other.batches.keys()
            for first, last in self.batches[query]
            for first_of_other, last_of_other in other.batches[query]
        )

    @classmethod
    def of(cls, table: pa.Table, level: int) -> Summary:
        """Sum up the rows of a file."""
        numbers: dict[str, list[int]] = defaultdict(list)
        batches = _of_kind(table, "batch")
        for query, number in zip(
            batches["query"].to_pylist(), batches["batch"].to_pylist(), strict=True
        ):
            numbers[query].append(number)
        planned = table.filter(pc.is_in(table["kind"], pa.array(["range", "skipped"])))
        columns = [
            planned["topic"],
            planned["partition"],
            planned["end"],
        ]
        ends = pa.table(columns, ["topic", "partition", "end"])
        ends = ends.group_by(["topic", "partition"]).aggregate([("end", "max")])
        topics = _of_kind(table, "topic").sort_by("published_ms").to_pylist()
        return cls(
            level,
            {query: _intervals(found) for query, found in numbers.items()},
            {(row["topic"], row["partition"]): row["end_max"] for row in ends.to_pylist()},
            {row["topic"]: (row["published_ms"], row["text"]) for row in topics},
            _schemas(_of_kind(table, "file")),
        )

    def pack(self) -> bytes:
        """The summary as JSON."""
        return json.dumps(
            {
                "level": self.level,
                "batches": self.batches,
                "ends": [[*key, end] for key, end in self.ends.items()],
                "topic_ids": self.topic_ids,
                "schemas": {topic: sorted(names) for topic, names in self.schemas.items()},
            }
        ).encode()

    @classmethod
    def unpack(cls, data: bytes) -> Summary:
        """Parse `pack()`'s result. Raises ``ValueError``, ``TypeError`` or ``KeyError``."""
        content = json.loads(data)
        topics = {topic for topic, _, _ in content["ends"]}
        schemas = content.get("schemas", {topic: [""] for topic in topics})  # before layout 3
        return cls(
            int(content["level"]),
            {
                str(query): [(int(first), int(last)) for first, last in intervals]
                for query, intervals in content["batches"].items()
            },
            {(str(topic), int(number)): int(end) for topic, number, end in content["ends"]},
            {str(topic): (int(ms), str(id_)) for topic, (ms, id_) in content["topic_ids"].items()},
            {str(topic): {str(each) for each in names} for topic, names in schemas.items()},
        )


def pack(table: pa.Table, level: int) -> bytes:
    """A file with these rows and their summary."""
    sink = io.BytesIO()
    pq.write_table(
        table.replace_schema_metadata({SUMMARY: Summary.of(table, level).pack()}),
        sink,
        compression="zstd",
    )
    return sink.getvalue()


def summary_of(file: Any, name: str) -> Summary:
    """Read the summary of an open file.

    :raises PipelineError: The file is damaged.
    """
    try:
        return Summary.unpack(pq.read_schema(file).metadata[SUMMARY])
    except (KeyError, TypeError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
        raise PipelineError(f"{name} is damaged: {type(error).__name__} {error}") from error


def rows_of(manifests: Iterable[Manifest]) -> pa.Table:
    """The rows of manifests."""
    rows = [row for manifest in manifests for row in _rows(manifest)]
    return pa.Table.from_pylist(rows, SCHEMA)


def read_rows(file: Any, name: str, filters: pc.Expression | None = None) -> pa.Table:
    """Read the rows of an open file, all or those that a filter lets through.

    :raises PipelineError: The file is damaged.
    """
    try:
        found = pq.read_table(file, filters=filters)
        if "schema" not in found.column_names:  # before layout 3
            found = found.append_column("schema", pa.array([""] * found.num_rows, pa.string()))
        return found.replace_schema_metadata(None).cast(SCHEMA)
    except (TypeError, ValueError) as error:
        raise PipelineError(f"{name} is damaged: {type(error).__name__} {error}") from error


def without(table: pa.Table, summaries: Iterable[Summary]) -> pa.Table:
    """The rows of those batches that no other file has."""
    known = list(summaries)
    pairs = zip(table["query"].to_pylist(), table["batch"].to_pylist(), strict=True)
    keep = [not any(batch in each for each in known) for batch in pairs]
    return table.filter(pa.array(keep, pa.bool_()))


def without_rows(table: pa.Table, kind: str, texts: Iterable[str]) -> pa.Table:
    """The rows but those of a kind that have one of these texts."""
    named = pc.is_in(table["text"], pa.array(list(texts), pa.string()))
    return table.filter(pc.invert(pc.and_(pc.equal(table["kind"], kind), named)))


def manifests_in(table: pa.Table) -> list[Manifest]:
    """The manifests of the rows."""
    rows: dict[tuple[str, int, int], list[Row]] = defaultdict(list)
    for row in table.to_pylist():
        rows[row["query"], row["batch"], row["published_ms"]].append(row)
    return [_manifest(*key, found) for key, found in rows.items()]


def files_in(table: pa.Table, log: ReplacedFiles) -> list[LakeFile]:
    """The lake's files in the rows, without replaced ones.

    :raises PipelineError: A file is outside the lake.
    """
    table = _of_kind(table, "file")
    keys = zip(table["query"].to_pylist(), table["batch"].to_pylist(), strict=True)
    columns = [table[name].to_pylist() for name in _FILE_COLUMNS]
    found = [
        LakeFile(*values)
        for key, values in zip(keys, zip(*columns, strict=True), strict=True)
        if values[5] not in log.paths and key not in log.void
    ]
    for each in found:
        check_file(each)
    return found


@dataclass(frozen=True)
class Replacement:
    """The files that one batch replaces."""

    published_ms: int
    query: str
    batch: int
    paths: tuple[str, ...]

    @property
    def key(self) -> tuple[str, int]:
        """The query's id and the batch's number."""
        return self.query, self.batch


@dataclass(frozen=True)
class ReplacedFiles:
    """The files that later ones replace.

    If two batches replace the same file, because two processes have merged it, only the first one
    counts. The other one's files are no part of the lake.
    """

    paths: dict[str, int]
    """The paths of replaced files, with the time of their replacement."""
    void: set[tuple[str, int]]
    """The batches that don't count."""

    @classmethod
    def of(cls, replacements: Iterable[Replacement]) -> ReplacedFiles:
        """Decide which replacements count."""
        paths: dict[str, int] = {}
        void: set[tuple[str, int]] = set()
        key = attrgetter("published_ms", "query", "batch")
        for each in sorted(replacements, key=key):
            if any(path in paths for path in each.paths):
                void.add(each.key)
            else:
                paths.update(dict.fromkeys(each.paths, each.published_ms))
        return cls(paths, void)


def paths_in(table: pa.Table) -> set[str]:
    """The paths of the files in the rows, also of replaced ones."""
    return set(_of_kind(table, "file")["text"].to_pylist())


def replacements_in(table: pa.Table) -> list[Replacement]:
    """The replacements in the rows."""
    found: dict[tuple[int, str, int], list[str]] = defaultdict(list)
    for row in _of_kind(table, "replaced").to_pylist():
        check_path(row["text"])
        found[row["published_ms"], row["query"], row["batch"]].append(row["text"])
    return [Replacement(*key, tuple(paths)) for key, paths in found.items()]


def plans_in(table: pa.Table) -> list[Plan]:
    """The offsets that were read or skipped, in the rows of these two kinds."""
    skipped = pc.equal(table["kind"], "skipped")
    reasons = pc.if_else(skipped, pc.fill_null(table["text"], ""), None)
    columns = [table[name] for name in ("topic", "partition", "start", "end")]
    lists = [each.to_pylist() for each in (*columns, reasons, table["published_ms"])]
    return [Plan(*values) for values in zip(*lists, strict=True)]


def _rows(manifest: Manifest) -> list[Row]:
    head = {
        "query": manifest.query,
        "batch": manifest.batch,
        "published_ms": manifest.published_ms,
    }
    rows: list[Row] = [{**head, "kind": "batch", "records": manifest.left_out}]
    rows += [{**head, "kind": "range", **vars(each)} for each in manifest.ranges]
    rows += [
        {
            **head,
            **vars(each),
            "kind": "file",
            "start": each.first_offset,
            "end": each.last_offset,
            "text": each.path,
        }
        for each in manifest.files
    ]
    rows += [
        {**head, "kind": "skipped", **vars(each), "text": each.reason} for each in manifest.skipped
    ]
    rows += [
        {**head, "kind": "topic", "topic": topic, "text": id_}
        for topic, id_ in manifest.topic_ids.items()
    ]
    rows += [{**head, "kind": "replaced", "text": path} for path in manifest.replaced]
    return rows


def _manifest(query: str, batch: int, published_ms: int, rows: list[Row]) -> Manifest:
    def of(kind: str) -> list[Row]:
        return [row for row in rows if row["kind"] == kind]

    def offsets(row: Row) -> tuple[str, int, int, int]:
        return row["topic"], row["partition"], row["start"], row["end"]

    return Manifest(
        query,
        batch,
        published_ms,
        tuple(Range(*offsets(row)) for row in of("range")),
        tuple(LakeFile(*(row[name] for name in _FILE_COLUMNS)) for row in of("file")),
        tuple(Skipped(*offsets(row), row["text"]) for row in of("skipped")),
        {row["topic"]: row["text"] for row in of("topic")},
        tuple(row["text"] for row in of("replaced")),
        sum(row["records"] or 0 for row in of("batch")),
    )


def _of_kind(table: pa.Table, kind: str) -> pa.Table:
    return table.filter(pc.equal(table["kind"], kind))


def _schemas(files: pa.Table) -> dict[str, set[str]]:
    """The names of the columns of each topic's files."""
    found: dict[str, set[str]] = defaultdict(set)
    for row in files.group_by(["topic", "schema"]).aggregate([]).to_pylist():
        found[row["topic"]].add(row["schema"])
    return dict(found)


def _intervals(numbers: list[int]) -> Intervals:
    found: Intervals = []
    for number in sorted(numbers):
        if found and number <= found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
