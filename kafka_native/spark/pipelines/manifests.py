"""The manifests of a lake's batches: their entries, their names, and their form in JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Protocol

from kafka_native.spark.folder import checked_topic, loaded
from kafka_native.spark.pipelines.session import PipelineError

__all__ = ["LakeFile", "Manifest", "Range", "Skipped", "schema_path"]

LOG: Final = "_kafka_native"
NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"
"""Hive's name for the date of records without a timestamp. Readers return it as null."""


_QUERY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SCHEMA_ID: Final = re.compile(r"|[0-9a-f]{16}")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|" + NO_DATE)


Batch = tuple[str, int]
"""A query's id and the number of its batch."""


@dataclass(frozen=True, order=True)
class LakeFile:
    """A Parquet file with the records of one partition and one date, sorted by offset."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    date: str
    """The date of the records' timestamps, in UTC."""
    path: str
    """The path below the lake's folder, separated by ``/``."""
    records: int
    bytes: int
    row_groups: int = 0
    schema: str = field(default="", compare=False)
    """The name of the columns, for `Lake.schema_of`; empty: keys and values aren't decoded."""
    staged: str = field(default="", compare=False)
    """The path in staging, below the lake's folder; empty if it isn't known any more."""


@dataclass(frozen=True, order=True)
class Range:
    """Offsets that were read; ``end`` is exclusive. There may be fewer records."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, order=True)
class Skipped:
    """Offsets that were skipped (``failOnDataLoss=false``); ``end`` is exclusive."""

    topic: str
    partition: int
    start: int
    end: int
    reason: str = field(default="", compare=False)


@dataclass(frozen=True)
class Manifest:
    """The list of files of one published batch."""

    query: str
    batch: int
    published_ms: int
    ranges: tuple[Range, ...]
    """The offsets that were read."""
    files: tuple[LakeFile, ...]
    skipped: tuple[Skipped, ...] = ()
    """The offsets that no longer existed."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """The ids of the topics, if brokers send them. A recreated topic has another id."""
    replaced: tuple[str, ...] = ()
    """The paths of files that this batch's files replace: `maintain` has merged them."""
    left_out: int = 0
    """Records that don't decode and are in none of the files (``DROPMALFORMED``, dead letters)."""

    @property
    def key(self) -> Batch:
        """The query's id and the batch's number."""
        return self.query, self.batch

    @property
    def records(self) -> int:
        """The number of records in the batch."""
        return sum(each.records for each in self.files)

    @property
    def bytes(self) -> int:
        """The number of bytes of the batch's files."""
        return sum(each.bytes for each in self.files)

    @property
    def planned(self) -> list[Range | Skipped]:
        """All offsets of the batch: read or skipped."""
        return [*self.ranges, *self.skipped]

    @property
    def skipped_offsets(self) -> int:
        """The number of skipped offsets. There may have been fewer records."""
        return sum(each.end - each.start for each in self.skipped)


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of offsets in order. Those that overlap or follow each other are one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


class Offsets(Protocol):
    """Anything with offsets of one partition; ``end`` is exclusive."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


def overlaps(offsets: Offsets, ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those of the ranges that overlap with offsets."""
    return [(start, end) for start, end in ranges if start < offsets.end and offsets.start < end]


def missing(offsets: Offsets, ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The parts of offsets that are in none of the `joined` ranges."""
    found = []
    start = offsets.start
    for first, end in overlaps(offsets, ranges):
        found.append((start, first))
        start = end
    found.append((start, offsets.end))
    return [(start, end) for start, end in found if start < end]


# --- names ---


def staging_of(query: str) -> str:
    """The staging folder of a query, below the lake's folder."""
    return f"{LOG}/staging/{checked_query(query)}"


def partition_folder(topic: str, date: str) -> str:
    """The folder for a topic and a date, below the lake's folder."""
    if not _DATE.fullmatch(date):
        raise PipelineError(f"date {date!r}: no folder can be named so")
    return f"topic={checked_topic(topic)}/date={date}"


def checked_query(query: str) -> str:
    """Check that a query's id is safe as a part of a path.

    :raises PipelineError: It has other characters than letters, digits, dots, dashes, underscores.
    """
    if not _QUERY.fullmatch(query):
        raise PipelineError(f"query {query!r}: letters, digits, dots, dashes and underscores only")
    return query


def manifest_name(query: str, batch: int) -> str:
    """The file name of a batch's manifest, and of its intent."""
    return f"{checked_query(query)}-{batch:010d}.json"


def check_path(path: str) -> None:
    """Check the path of a replaced file: a manifest must not delete files outside of the lake."""
    parts = path.split("/")
    inside = len(parts) > 2 and parts[0].startswith("topic=") and parts[1].startswith("date=")
    if not inside or ".." in parts or not path.endswith(".parquet"):
        raise PipelineError(f"file {path!r} isn't where files of the lake are")


def check_file(file: LakeFile) -> None:
    """Check the paths of a file: a manifest must not move files out of the lake."""
    inside = file.path.startswith(f"{partition_folder(file.topic, file.date)}/")
    staged = not file.staged or file.staged.startswith(f"{LOG}/staging/")
    if not inside or not staged or ".." in file.path.split("/") or ".." in file.staged.split("/"):
        raise PipelineError(
            f"file {file.path!r}, staged as {file.staged!r}, isn't where files of the lake are"
        )
    schema_path(file.schema)


def schema_path(schema: str) -> str:
    """The path of a file with columns, below the lake's folder.

    :raises PipelineError: The name leads elsewhere.
    """
    if not _SCHEMA_ID.fullmatch(schema):
        raise PipelineError(f"schema {schema!r} isn't the name of columns")
    return f"{LOG}/schemas/{schema}.json"


# --- manifests as JSON ---


def manifest_of(data: bytes, name: str) -> Manifest:
    """Parse a manifest's file.

    :raises PipelineError: It is damaged, or one of its files is outside the lake.
    """
    content = loaded(data, name)
    try:
        manifest = Manifest(
            str(content["query"]),
            int(content["batch"]),
            int(content["published_ms"]),
            tuple(Range(**each) for each in content["ranges"]),
            tuple(_known(each) for each in content["files"]),
            tuple(Skipped(**each) for each in content.get("skipped", ())),
            dict(content.get("topic_ids", {})),
            tuple(str(path) for path in content.get("replaced", ())),
            int(content.get("left_out", 0)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise PipelineError(f"{name} is damaged: {type(error).__name__} {error}") from error
    for each in manifest.files:
        check_file(each)
    for path in manifest.replaced:
        check_path(path)
    return manifest


def _known(entry: dict[str, Any]) -> LakeFile:
    """Parse a file of a manifest. Fields of later versions are ignored."""
    names = {each.name for each in fields(LakeFile)}
    return LakeFile(**{name: value for name, value in entry.items() if name in names})
