"""A Parquet lake with a log of its own: what a manifest lists is in it, exactly once, and nothing else.

Below the lake's folder::

    topic=NAME/date=2026-11-21/part-...parquet     the records, as Hive-style partitions
    _kafka_native/lake.json                        which layout this is
    _kafka_native/staging/QUERY/BATCH/ATTEMPT/...  what tasks are writing, or have written for nothing
    _kafka_native/intents/QUERY-BATCH.json         a batch that has been decided and is being moved into place
    _kafka_native/manifests/QUERY-BATCH.json       a batch that is published

A task writes under ``staging``, where each attempt has a folder to itself. The driver then publishes a batch: it writes
the intent (from here on the batch is decided: a restart finishes it and never reads it again), moves the files, and
renames the intent to the manifest. So a batch is in the lake whole or not at all for those who go by manifests, and
those who just list folders never see a file that another attempt replaces.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kafka_native.spark.pipelines.folder import Folder, checked_topic, loaded
from kafka_native.spark.pipelines.session import PipelineError, now_ms

if TYPE_CHECKING:
    import pyarrow.dataset

__all__ = ["Gap", "Lake", "LakeFile", "Manifest", "Range", "Skipped"]

LOG: Final = "_kafka_native"
LAYOUT: Final = 1
NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The date of records without a timestamp, as Hive calls it: readers make null of it."""

_QUERY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|" + NO_DATE)

Key = tuple[str, int]


@dataclass(frozen=True, order=True)
class LakeFile:
    """A Parquet file: the records of one partition and one date, in the order of their offsets."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    date: str
    """Of the records' timestamps, UTC."""
    path: str
    """Below the lake's folder, with ``/`` between the parts."""
    records: int
    bytes: int
    row_groups: int = 0
    staged: str = field(default="", compare=False)
    """Where the task wrote it, below the lake's folder."""


@dataclass(frozen=True, order=True)
class Range:
    """Offsets that were read, ``end`` not among them; there may be fewer records."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, order=True)
class Skipped:
    """Offsets that couldn't be read and were left out (``failOnDataLoss=false``), ``end`` not among them."""

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
    """What was read."""
    files: tuple[LakeFile, ...]
    skipped: tuple[Skipped, ...] = ()
    """What was to be read, and wasn't there any more."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """The ids of the topics that the offsets belong to, where brokers tell them: one that is made anew has another."""

    @property
    def records(self) -> int:
        """How many records it added."""
        return sum(each.records for each in self.files)

    @property
    def bytes(self) -> int:
        """How many bytes its files have."""
        return sum(each.bytes for each in self.files)

    @property
    def planned(self) -> list[Range | Skipped]:
        """All that was to be read."""
        return [*self.ranges, *self.skipped]

    @property
    def skipped_offsets(self) -> int:
        """How many offsets were skipped; there may have been fewer records."""
        return sum(each.end - each.start for each in self.skipped)


@dataclass(frozen=True, order=True)
class Gap:
    """Where the ranges of a partition don't join: ``kind`` is ``missing``, ``twice`` or ``skipped``."""

    topic: str
    partition: int
    start: int
    end: int
    kind: str


class Lake(Folder):
    """The published files of a lake, and how more are published.

    :param path: A folder, or a URI of a file system that pyarrow knows (``s3://...``, ``gs://...``, ``hdfs://...``).
    :param filesystem: A ``pyarrow.fs.FileSystem`` (or an fsspec one) that ``path`` is on; None: as ``path`` says.
    """

    def __init__(self, path: str | os.PathLike[str], *, filesystem: Any = None) -> None:
        """Only remembers where it is: nothing is read or made."""
        super().__init__(path, filesystem=filesystem)
        self._seen: dict[str, Manifest] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Where it is: tasks don't need the manifests that the driver has read."""
        return {**self.__dict__, "_seen": {}}

    # --- reading ---

    def manifests(self) -> list[Manifest]:
        """The published batches, oldest first."""
        names = self.names(f"{LOG}/manifests")
        for name in names - self._seen.keys():
            self._seen[name] = _manifest(self.read(f"{LOG}/manifests/{name}"), name)
        found = [self._seen[name] for name in names]
        return sorted(found, key=lambda each: (each.published_ms, each.query, each.batch))

    def files(self, topics: str | Sequence[str] | None = None, dates: Sequence[str] | None = None) -> list[LakeFile]:
        """The published files, by topic, partition and offset.

        :param topics: Only these topics.
        :param dates: Only these dates, as ``2026-11-21``.
        """
        wanted = {topics} if isinstance(topics, str) else None if topics is None else set(topics)
        return sorted(
            each
            for manifest in self.manifests()
            for each in manifest.files
            if (wanted is None or each.topic in wanted) and (dates is None or each.date in dates)
        )

    def paths(self, topics: str | Sequence[str] | None = None, dates: Sequence[str] | None = None) -> list[str]:
        """Where the published files are, for others: ``spark.read.parquet(*paths)``, DuckDB's ``read_parquet``."""
        return [self.absolute(each.path) for each in self.files(topics, dates)]

    def dataset(
        self, topics: str | Sequence[str] | None = None, dates: Sequence[str] | None = None
    ) -> pyarrow.dataset.Dataset:
        """The published records as a pyarrow dataset, with ``topic`` and ``date`` as columns.

        :raises PipelineError: The lake has no such files.
        """
        from pyarrow import dataset  # which imports pandas: no task needs it

        files = self.files(topics, dates)
        if not files:
            raise PipelineError(f"the lake {self.uri} has no published files of that kind")
        partitioning = dataset.partitioning(pa.schema([("topic", pa.string()), ("date", pa.date32())]), flavor="hive")
        return dataset.dataset(
            [f"{self.root}/{each.path}" for each in files],
            filesystem=self.fs,
            format="parquet",
            partitioning=partitioning,
            partition_base_dir=self.root,
        )

    def ends(self) -> dict[Key, int]:
        """The offset after the last one that is published, read or skipped, by topic and partition."""
        found: dict[Key, int] = {}
        for manifest in self.manifests():
            for each in manifest.planned:
                key = (each.topic, each.partition)
                found[key] = max(found.get(key, 0), each.end)
        return found

    def topic_ids(self) -> dict[str, str]:
        """The ids of the topics that are archived, as far as they are known."""
        return {topic: found for manifest in self.manifests() for topic, found in manifest.topic_ids.items()}

    def gaps(self) -> list[Gap]:
        """Offsets that the lake lacks, or has twice. None in a lake that is whole.

        They are those between published ranges that no range has, those that two have, and those that were skipped.
        """
        found: list[Gap] = []
        ends: dict[Key, int] = {}
        planned = [one for manifest in self.manifests() for one in manifest.planned]
        for each in sorted(planned, key=lambda one: (one.topic, one.partition, one.start, one.end)):
            key = (each.topic, each.partition)
            end = ends.get(key, each.start)
            if isinstance(each, Skipped):
                found.append(Gap(*key, each.start, each.end, "skipped"))
            if each.start > end:
                found.append(Gap(*key, end, each.start, "missing"))
            elif each.start < end:
                found.append(Gap(*key, each.start, min(end, each.end), "twice"))
            ends[key] = max(end, each.end)
        return found

    # --- publishing: the driver's side ---

    def prepare(self) -> None:
        """Makes the lake's folders, or checks the layout of one that is there; finishes what was decided.

        :raises PipelineError: Another layout, or a folder that holds something else.
        """
        described = f"{LOG}/lake.json"
        if self.exists(described):
            layout = loaded(self.read(described), described).get("layout")
            if layout != LAYOUT:
                raise PipelineError(f"the lake {self.uri} has layout {layout!r}: this version knows {LAYOUT} only")
        else:
            self.make(LOG)
            self.write(described, {"layout": LAYOUT, "made_by": "kafka_native"})
        for folder in ("staging", "intents", "manifests"):
            self.make(f"{LOG}/{folder}")
        self.recover()

    def is_published(self, query: str, batch: int) -> bool:
        """Whether a batch is decided: published, or about to be."""
        name = _name(query, batch)
        return self.exists(f"{LOG}/manifests/{name}") or self.exists(f"{LOG}/intents/{name}")

    def publish(
        self,
        query: str,
        batch: int,
        ranges: Iterable[Range],
        files: Iterable[LakeFile],
        skipped: Iterable[Skipped] = (),
        topic_ids: Mapping[str, str] | None = None,
    ) -> Manifest:
        """Publishes what the tasks of a batch have staged.

        :param query: The query's id: it stays the same for as long as its checkpoint does.
        :param batch: The batch's number in it.
        :param ranges: What was read.
        :param files: What came of it.
        :param skipped: What was to be read and couldn't be.
        :param topic_ids: The ids of the topics, as far as they are known.
        :raises PipelineError: The batch is published already.
        """
        if self.is_published(query, batch):
            raise PipelineError(f"batch {batch} of {query} is published already")
        read = sorted(each for each in ranges if each.start < each.end)
        done = tuple(read), tuple(sorted(files)), tuple(sorted(skipped))
        manifest = Manifest(query, batch, now_ms(), *done, topic_ids or {})
        for each in manifest.files:
            _check_file(each)
        self.write(f"{LOG}/intents/{_name(query, batch)}", asdict(manifest))
        self._finish(manifest)
        return manifest

    def recover(self) -> list[Manifest]:
        """Finishes batches that were decided when their driver ended."""
        found = []
        for name in sorted(self.names(f"{LOG}/intents")):
            manifest = _manifest(self.read(f"{LOG}/intents/{name}"), name)
            self._finish(manifest)
            found.append(manifest)
        return found

    def sweep(self, query: str, batch: int | None = None) -> None:
        """Removes what dead attempts of a query (or of one batch of it) left in staging."""
        folder = staging_of(query) if batch is None else f"{staging_of(query)}/{batch}"
        self.remove(folder)

    def _finish(self, manifest: Manifest) -> None:
        """Moves a decided batch into place; again, if that was cut short."""
        folders = {str(PurePosixPath(each.path).parent) for each in manifest.files}
        for folder in folders:
            self.make(folder)
        for each in manifest.files:
            self.move(each.staged, each.path)
        for folder in folders | {str(PurePosixPath(folder).parent) for folder in folders} | {"."}:
            self.sync(folder)
        name = _name(manifest.query, manifest.batch)
        self.move(f"{LOG}/intents/{name}", f"{LOG}/manifests/{name}")
        self.sync(f"{LOG}/manifests")
        self.sync(f"{LOG}/intents")


# --- names ---


def staging_of(query: str) -> str:
    """Where the tasks of a query write, below the lake's folder."""
    return f"{LOG}/staging/{_checked_query(query)}"


def partition_folder(topic: str, date: str) -> str:
    """Where the records of a topic and a date are, below the lake's folder."""
    if not _DATE.fullmatch(date):
        raise PipelineError(f"date {date!r}: no folder can be named so")
    return f"topic={checked_topic(topic)}/date={date}"


def _checked_query(query: str) -> str:
    if not _QUERY.fullmatch(query):
        raise PipelineError(f"query {query!r}: letters, digits, dots, dashes and underscores only")
    return query


def _name(query: str, batch: int) -> str:
    return f"{_checked_query(query)}-{batch:010d}.json"


def _check_file(file: LakeFile) -> None:
    """A manifest says where files are moved to: never out of the lake."""
    inside = file.path.startswith(f"{partition_folder(file.topic, file.date)}/")
    staged = file.staged.startswith(f"{LOG}/staging/")
    if not inside or not staged or ".." in file.path.split("/") or ".." in file.staged.split("/"):
        raise PipelineError(f"file {file.path!r}, staged as {file.staged!r}, isn't where files of the lake are")


# --- manifests as JSON ---


def _manifest(data: bytes, name: str) -> Manifest:
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
        )
    except (KeyError, TypeError, ValueError) as error:
        raise PipelineError(f"{name} is damaged: {type(error).__name__} {error}") from error
    for each in manifest.files:
        _check_file(each)
    return manifest


def _known(entry: dict[str, Any]) -> LakeFile:
    """A file of a manifest; fields that later versions add are passed over."""
    names = {each.name for each in fields(LakeFile)}
    return LakeFile(**{name: value for name, value in entry.items() if name in names})
