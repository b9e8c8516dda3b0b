"""A Parquet lake with manifests: a file belongs to the lake if a manifest lists it, exactly once.

Below the lake's folder::

    topic=NAME/date=2026-11-21/part-...parquet     the records, in Hive-style partitions
    _kafka_native/lake.json                        the version of this layout
    _kafka_native/staging/QUERY/BATCH/ATTEMPT/...  files of running or failed tasks
    _kafka_native/intents/QUERY-BATCH.json         a decided batch whose files are being moved
    _kafka_native/manifests/QUERY-BATCH.json       a published batch

Each attempt of a task writes to its own folder below ``staging``. The driver publishes a batch in
three steps: it writes the intent, moves the files, and renames the intent to the manifest. The
intent decides the batch: a restart finishes it and doesn't read its records again. So readers of
manifests see all of a batch or nothing. Readers that list folders never see a file that another
attempt replaces.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kafka_native.spark.folder import Folder, checked_topic, loaded
from kafka_native.spark.pipelines.session import PipelineError, now_ms

if TYPE_CHECKING:
    import pyarrow.dataset

__all__ = ["Gap", "Lake", "LakeFile", "Manifest", "Range", "Skipped"]

LOG: Final = "_kafka_native"
LAYOUT: Final = 1
NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"
"""Hive's name for the date of records without a timestamp. Readers return it as null."""

_QUERY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|" + NO_DATE)

Key = tuple[str, int]


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
    staged: str = field(default="", compare=False)
    """The path in staging, below the lake's folder."""


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


@dataclass(frozen=True, order=True)
class Gap:
    """A gap or an overlap of a partition's ranges.

    ``kind`` is ``missing``, ``twice`` or ``skipped``.
    """

    topic: str
    partition: int
    start: int
    end: int
    kind: str
    reason: str = field(default="", compare=False)
    """For ``skipped``: the reason why the offsets couldn't be read."""
    time_ms: int = field(default=0, compare=False)
    """For ``skipped``: when the batch was published, in milliseconds since 1970."""


class Lake(Folder):
    """The published files of a lake, and the functions that publish more.

    :param path: A folder, or a URI that pyarrow knows (``s3://...``, ``gs://...``, ``hdfs://...``).
    :param filesystem: The ``pyarrow.fs.FileSystem`` (or an fsspec one) of ``path``; None: chosen by
        ``path``.
    """

    def __init__(self, path: str | os.PathLike[str], *, filesystem: Any = None) -> None:
        """Store the location. Nothing is read or made."""
        super().__init__(path, filesystem=filesystem)
        self._seen: dict[str, Manifest] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the location only: tasks don't need the driver's manifests."""
        return {**self.__dict__, "_seen": {}}

    # --- reading ---

    def manifests(self) -> list[Manifest]:
        """The published batches, oldest first."""
        names = self.names(f"{LOG}/manifests")
        for name in names - self._seen.keys():
            self._seen[name] = _manifest(self.read(f"{LOG}/manifests/{name}"), name)
        found = [self._seen[name] for name in names]
        return sorted(found, key=lambda each: (each.published_ms, each.query, each.batch))

    def files(
        self, topics: str | Sequence[str] | None = None, dates: Sequence[str] | None = None
    ) -> list[LakeFile]:
        """The published files, sorted by topic, partition and offset.

        :param topics: Only these topics.
        :param dates: Only these dates, such as ``2026-11-21``.
        """
        wanted = {topics} if isinstance(topics, str) else None if topics is None else set(topics)
        return sorted(
            each
            for manifest in self.manifests()
            for each in manifest.files
            if (wanted is None or each.topic in wanted) and (dates is None or each.date in dates)
        )

    def paths(
        self, topics: str | Sequence[str] | None = None, dates: Sequence[str] | None = None
    ) -> list[str]:
        """The paths of published files for other tools: ``spark.read.parquet(*paths)``, DuckDB."""
        return [self.absolute(each.path) for each in self.files(topics, dates)]

    def dataset(
        self, topics: str | Sequence[str] | None = None, dates: Sequence[str] | None = None
    ) -> pyarrow.dataset.Dataset:
        """The published records as a pyarrow dataset. ``topic`` and ``date`` are columns.

        :raises PipelineError: The lake has no such files.
        """
        from pyarrow import dataset  # it imports pandas, which no task needs

        files = self.files(topics, dates)
        if not files:
            raise PipelineError(f"the lake {self.uri} has no published files of that kind")
        partitioning = dataset.partitioning(
            pa.schema([("topic", pa.string()), ("date", pa.date32())]), flavor="hive"
        )
        return dataset.dataset(
            [f"{self.root}/{each.path}" for each in files],
            filesystem=self.fs,
            format="parquet",
            partitioning=partitioning,
            partition_base_dir=self.root,
        )

    def ends(self) -> dict[Key, int]:
        """The offset after the last published one, read or skipped, by topic and partition."""
        found: dict[Key, int] = {}
        for manifest in self.manifests():
            for each in manifest.planned:
                key = (each.topic, each.partition)
                found[key] = max(found.get(key, 0), each.end)
        return found

    def topic_ids(self) -> dict[str, str]:
        """The known ids of the archived topics."""
        return {
            topic: found
            for manifest in self.manifests()
            for topic, found in manifest.topic_ids.items()
        }

    def gaps(self) -> list[Gap]:
        """The offsets that are missing between published ranges, published twice, or skipped.

        A complete lake has none.
        """
        found: list[Gap] = []
        ends: dict[Key, int] = {}
        planned = [
            (one.topic, one.partition, one.start, one.end, one, manifest.published_ms)
            for manifest in self.manifests()
            for one in manifest.planned
        ]
        for *_, each, time_ms in sorted(planned, key=lambda one: one[:4]):
            key = (each.topic, each.partition)
            end = ends.get(key, each.start)
            if isinstance(each, Skipped):
                found.append(Gap(*key, each.start, each.end, "skipped", each.reason, time_ms))
            if each.start > end:
                found.append(Gap(*key, end, each.start, "missing"))
            elif each.start < end:
                found.append(Gap(*key, each.start, min(end, each.end), "twice"))
            ends[key] = max(end, each.end)
        return found

    # --- publishing, on the driver ---

    def prepare(self) -> None:
        """Make the lake's folders or check their layout. Then finish decided batches.

        :raises PipelineError: The layout is another one, or the folder has other content.
        """
        described = f"{LOG}/lake.json"
        if self.exists(described):
            layout = loaded(self.read(described), described).get("layout")
            if layout != LAYOUT:
                raise PipelineError(
                    f"the lake {self.uri} has layout {layout!r}: this version knows {LAYOUT} only"
                )
        else:
            self.make(LOG)
            self.write(described, {"layout": LAYOUT, "made_by": "kafka_native"})
        for folder in ("staging", "intents", "manifests"):
            self.make(f"{LOG}/{folder}")
        self.recover()

    def is_published(self, query: str, batch: int) -> bool:
        """Whether a batch is decided: published, or with an intent."""
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
        """Publish the staged files of a batch.

        :param query: The query's id. It stays the same as long as its checkpoint exists.
        :param batch: The batch's number in the query.
        :param ranges: The offsets that were read.
        :param files: The staged files.
        :param skipped: The offsets that couldn't be read.
        :param topic_ids: The known ids of the topics.
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
        """Finish batches that a previous driver has decided but not finished."""
        found = []
        for name in sorted(self.names(f"{LOG}/intents")):
            manifest = _manifest(self.read(f"{LOG}/intents/{name}"), name)
            self._finish(manifest)
            found.append(manifest)
        return found

    def sweep(self, query: str, batch: int | None = None) -> None:
        """Remove the staged files of failed attempts, of a query or of one of its batches."""
        folder = staging_of(query) if batch is None else f"{staging_of(query)}/{batch}"
        self.remove(folder)

    def _finish(self, manifest: Manifest) -> None:
        """Move a decided batch into place. A repetition continues where a crash has stopped it."""
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
    """The staging folder of a query, below the lake's folder."""
    return f"{LOG}/staging/{_checked_query(query)}"


def partition_folder(topic: str, date: str) -> str:
    """The folder for a topic and a date, below the lake's folder."""
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
    """Check the paths of a file: a manifest must not move files out of the lake."""
    inside = file.path.startswith(f"{partition_folder(file.topic, file.date)}/")
    staged = file.staged.startswith(f"{LOG}/staging/")
    if not inside or not staged or ".." in file.path.split("/") or ".." in file.staged.split("/"):
        raise PipelineError(
            f"file {file.path!r}, staged as {file.staged!r}, isn't where files of the lake are"
        )


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
    """Parse a file of a manifest. Fields of later versions are ignored."""
    names = {each.name for each in fields(LakeFile)}
    return LakeFile(**{name: value for name, value in entry.items() if name in names})
