"""A Parquet lake with manifests: a file belongs to the lake if a manifest lists it, exactly once.

Below the lake's folder::

    topic=NAME/date=2026-11-21/part-...parquet     the records, in Hive-style partitions
    _kafka_native/lake.json                        the version of this layout
    _kafka_native/staging/QUERY/BATCH/ATTEMPT/...  files of running or failed tasks
    _kafka_native/intents/QUERY-BATCH.json         a decided batch whose files are being moved
    _kafka_native/manifests/QUERY-BATCH.json       a published batch
    _kafka_native/schemas/ID.json                  the columns of files with decoded values
    _kafka_native/claims/...json                   columns of files that are about to be published
    _kafka_native/range_claims/QUERY-BATCH.json    offsets of a batch that is about to be published
    _kafka_native/compacted/LEVEL-ID.parquet       many published batches, see manifest_log.py

Each attempt of a task writes to its own folder below ``staging``. The driver publishes a batch in
three steps: it writes the intent, moves the files, and renames the intent to the manifest. The
intent decides the batch: a restart finishes it and doesn't read its records again. So readers of
manifests see all of a batch or nothing. Readers that list folders never see a file that another
attempt replaces.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.fs as pafs

from kafka_native.spark.folder import Folder, loaded
from kafka_native.spark.offsets import Key
from kafka_native.spark.pipelines.archive_target import ArchiveTarget, Published, checkpoint_below
from kafka_native.spark.pipelines.claims import ColumnClaims, RangeClaims
from kafka_native.spark.pipelines.compacted_manifests import Plan
from kafka_native.spark.pipelines.lake_schemas import (
    SCHEMA,
    merged,
    packed,
    refused_changes,
    schema_id,
    unpacked,
)
from kafka_native.spark.pipelines.manifest_log import ManifestLog
from kafka_native.spark.pipelines.manifests import (
    LOG,
    LakeFile,
    Manifest,
    Range,
    Skipped,
    check_file,
    joined,
    manifest_name,
    manifest_of,
    schema_path,
    staging_of,
)
from kafka_native.spark.pipelines.parquet import ParquetSettings, RangeWriter
from kafka_native.spark.pipelines.session import PipelineError, now_ms

if TYPE_CHECKING:
    import pyarrow.dataset

__all__ = ["Gap", "Lake"]

LAYOUT: Final = 3
LAYOUTS: Final = (1, 2, 3)
"""The layouts that can be read. 1 has no compacted manifests, 2 has no decoded columns."""
COMPACT_FROM: Final = 1_000
"""So many manifests are compacted. To read them takes a tenth of a second on a local disk."""


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


class Lake(Folder, ArchiveTarget):
    """The published files of a lake, and the functions that publish more.

    :param path: A folder, or a URI that pyarrow knows (``s3://...``, ``gs://...``, ``hdfs://...``).
    :param filesystem: The ``pyarrow.fs.FileSystem`` (or an fsspec one) of ``path``; None: chosen by
        ``path``.
    """

    def __init__(self, path: str | os.PathLike[str], *, filesystem: Any = None) -> None:
        """Store the location. Nothing is read or made."""
        super().__init__(path, filesystem=filesystem)
        self._columns = SCHEMA
        self._begin()

    def _begin(self) -> None:
        self._log = ManifestLog(self)
        self._claims = ColumnClaims(self, self._decided_schemas, self.schema_of)
        self._range_claims = RangeClaims(self, self._decided_ends, self.archived)
        self._kept_schemas: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the location and the columns: tasks don't need what the driver has read."""
        driver = ("_log", "_claims", "_range_claims", "_kept_schemas")
        return {name: each for name, each in self.__dict__.items() if name not in driver}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begin as if nothing was read."""
        self.__dict__.update(state)
        self._begin()

    # --- reading ---

    def manifests(self) -> list[Manifest]:
        """The published batches, oldest first."""
        return self._log.manifests()

    def files(
        self, topics: str | Sequence[str] | None = None, dates: Sequence[str] | None = None
    ) -> list[LakeFile]:
        """The published files, sorted by topic, partition and offset.

        :param topics: Only these topics.
        :param dates: Only these dates, such as ``2026-11-21``.
        """
        wanted = {topics} if isinstance(topics, str) else None if topics is None else set(topics)
        found = self._log.files(wanted, None if dates is None else set(dates))
        # by a key, because comparing two objects is slow
        return sorted(found, key=attrgetter("topic", "partition", "first_offset", "path"))

    def paths(
        self, topics: str | Sequence[str] | None = None, dates: Sequence[str] | None = None
    ) -> list[str]:
        """The paths of published files for other tools: ``spark.read.parquet(*paths)``, DuckDB."""
        return [self.absolute(each.path) for each in self.files(topics, dates)]

    def dataset(
        self, topics: str | Sequence[str] | None = None, dates: Sequence[str] | None = None
    ) -> pyarrow.dataset.Dataset:
        """The published records as a pyarrow dataset. ``topic`` and ``date`` are columns.

        Columns and fields that a file lacks are null.

        :raises PipelineError: The lake has no such files, or topics have different columns.
        """
        from pyarrow import dataset  # it imports pandas, which no task needs

        files = self.files(topics, dates)
        if not files:
            raise PipelineError(f"the lake {self.uri} has no published files of that kind")
        folders = pa.schema([("topic", pa.string()), ("date", pa.date32())])
        columns = merged(self.schema_of(name) for name in {each.schema for each in files})
        return dataset.dataset(
            [f"{self.root}/{each.path}" for each in files],
            filesystem=self.fs,
            format="parquet",
            schema=pa.schema([*columns, *folders]),
            partitioning=dataset.partitioning(folders, flavor="hive"),
            partition_base_dir=self.root,
        )

    def ends(self) -> dict[Key, int]:
        """The offset after the last published one, read or skipped, by topic and partition."""
        return self._log.ends()

    def topic_ids(self) -> dict[str, str]:
        """The known ids of the archived topics."""
        return self._log.topic_ids()

    def schemas(self) -> dict[str, list[pa.Schema]]:
        """The columns of each topic's files. More than one item: columns were added meanwhile."""
        return {
            topic: [self.schema_of(name) for name in sorted(names)]
            for topic, names in self._log.schemas().items()
        }

    def schema_of(self, name: str) -> pa.Schema:
        """The columns with a name of `LakeFile.schema`."""
        if not name:
            return SCHEMA
        path = schema_path(name)
        return unpacked(self.content(path), path)

    def gaps(self) -> list[Gap]:
        """The offsets that are missing between published ranges, published twice, or skipped.

        A complete lake has none.
        """
        found: list[Gap] = []
        ends: dict[Key, int] = {}
        for each in sorted(self._log.plans(), key=lambda plan: plan[:4]):
            key = (each.topic, each.partition)
            end = ends.get(key, each.start)
            if each.reason is not None:
                gap = Gap(*key, each.start, each.end, "skipped", each.reason, each.published_ms)
                found.append(gap)
            if each.start > end:
                found.append(Gap(*key, end, each.start, "missing"))
            elif each.start < end:
                found.append(Gap(*key, each.start, min(end, each.end), "twice"))
            ends[key] = max(end, each.end)
        return found

    # --- publishing, on the driver ---

    def default_checkpoint(self) -> str:
        """The folder of Spark's checkpoint, below the lake's folder, as a URI.

        :raises PipelineError: The lake is on no local file system.
        """
        return checkpoint_below(self, f"the lake {self.uri}")

    def prepare(self) -> None:
        """Make the lake's folders or check their layout. Then finish decided batches.

        :raises PipelineError: The layout is another one, or the folder has other content.
        """
        described = f"{LOG}/lake.json"
        if self.exists(described):
            layout = loaded(self.read(described), described).get("layout")
            if layout not in LAYOUTS:
                raise PipelineError(
                    f"the lake {self.uri} has layout {layout!r}: this version knows up to {LAYOUT}"
                )
        else:
            layout = None
            self.make(LOG)
        if layout != LAYOUT:
            self.write(described, {"layout": LAYOUT, "made_by": "kafka_native"})
        for folder in ("staging", "intents", "manifests"):
            self.make(f"{LOG}/{folder}")
        self.recover()

    def keep_schema(self, schema: pa.Schema) -> None:
        """Store the columns of files, before the first of them is published."""
        name = schema_id(schema)
        if not name or name in self._kept_schemas:
            return
        if not self.exists(schema_path(name)):
            self.make(f"{LOG}/schemas")
            self.write(schema_path(name), packed(schema))
        self._kept_schemas.add(name)

    def _decided_schemas(self) -> dict[str, set[str]]:
        """The names of the columns of each topic's files, published or with an intent."""
        found: dict[str, set[str]] = defaultdict(set)
        for manifest in self._intents():
            for each in manifest.files:
                found[each.topic].add(each.schema)
        for topic, names in self._log.schemas().items():
            found[topic] |= names
        return found

    def _intents(self) -> Iterator[Manifest]:
        """The decided batches. Read them before the log: a batch moves from here to there."""
        for name in sorted(self.names(f"{LOG}/intents")):
            with suppress(FileNotFoundError):  # another driver has finished it
                content = self.read(f"{LOG}/intents/{name}")
                yield manifest_of(content, name)

    def _decided_ends(self) -> dict[Key, int]:
        """The ends of all partitions, published or with an intent."""
        intents = list(self._intents())
        return _raised(self._log.ends(), intents)

    def use_columns(self, columns: pa.Schema) -> None:
        """Take the columns of the files that `range_writer` writes; by default `SCHEMA`."""
        self._columns = columns

    def check_columns(
        self, is_archived: Callable[[str], bool], optional: Collection[str] = ()
    ) -> None:
        """Check that files of topics may have the columns of `use_columns`.

        :param is_archived: Whether the run reads a topic.
        :param optional: The names of columns that files may lack.
        :raises PipelineError: A topic has columns that differ. Only added columns are allowed.
        """
        for topic, known in sorted(self.schemas().items()):
            needed = (
                pa.schema([column for column in each if column.name not in optional])
                for each in known
            )
            changes = [text for each in needed for text in refused_changes(each, self._columns)]
            if changes and is_archived(topic):
                raise PipelineError(
                    f"the files of {topic} in the lake {self.uri} have other columns: "
                    f"{'; '.join(dict.fromkeys(changes))}. Columns may be added, but not change: "
                    "keep the schema and the options, or use another folder"
                )

    def published(self, query: str, batch: int) -> Published:
        """What the lake has when a batch begins, by one reading of its manifests."""
        intents = list(self._intents())
        has_manifest, ends, topic_ids = self._log.published((query, batch))
        has_intent = any(each.key == (query, batch) for each in intents)
        return Published(has_intent or has_manifest, _raised(ends, intents), topic_ids)

    def archived(self, ends: Mapping[Key, int]) -> dict[Key, list[tuple[int, int]]]:
        """The archived offsets of partitions: published, or of a batch with an intent."""
        intents = list(self._intents())
        found: list[Plan | Range | Skipped] = [each for one in intents for each in one.planned]
        found += self._log.plans(ends)
        ranges: dict[Key, list[tuple[int, int]]] = {key: [] for key in ends}
        for each in found:
            key = (each.topic, each.partition)
            if each.start < ends.get(key, 0):
                ranges[key].append((each.start, each.end))
        return {key: joined(those) for key, those in ranges.items()}

    def is_published(self, query: str, batch: int) -> bool:
        """Whether a batch is decided: published, or with an intent."""
        # In the order in which a batch moves.
        return self.exists(_intent(query, batch)) or (query, batch) in self._log

    def range_writer(
        self,
        query: str,
        batch: int,
        attempt: str,
        topic: str,
        partition: int,
        settings: ParquetSettings,
    ) -> RangeWriter:
        """Return a writer for an attempt of a task. It writes to a staging folder of its own."""
        staging = f"{staging_of(query)}/{batch}/{attempt}"
        tag = f"{query}-{batch}"
        return RangeWriter(self, staging, tag, topic, partition, settings, self._columns)

    def publish(
        self,
        query: str,
        batch: int,
        ranges: Iterable[Range],
        files: Iterable[LakeFile],
        skipped: Iterable[Skipped] = (),
        topic_ids: Mapping[str, str] | None = None,
        *,
        replaced: Iterable[str] = (),
        left_out: int = 0,
    ) -> Manifest:
        """Publish the staged files of a batch.

        :param query: The query's id. It stays the same as long as its checkpoint exists.
        :param batch: The batch's number in the query.
        :param ranges: The offsets that were read.
        :param files: The staged files.
        :param skipped: The offsets that couldn't be read.
        :param topic_ids: The known ids of the topics.
        :param replaced: The paths of published files that these files replace.
        :param left_out: The records that don't decode and are in none of the files.
        :raises PipelineError: The batch is published already, its files are gone, or another
            archive has meanwhile published some of its offsets, or files whose columns don't fit.
        """
        if self.is_published(query, batch):
            raise PipelineError(f"batch {batch} of {query} is published already")
        read = sorted(each for each in ranges if each.start < each.end)
        done = tuple(read), tuple(sorted(files)), tuple(sorted(skipped))
        more = topic_ids or {}, tuple(replaced), left_out
        manifest = Manifest(query, batch, now_ms(), *done, *more)
        for each in manifest.files:
            check_file(each)
        self._check_staged(manifest)
        self.keep_schema(self._columns)
        ranges = [
            Range(each.topic, each.partition, each.start, each.end) for each in manifest.planned
        ]
        columns = {(each.topic, each.schema) for each in manifest.files}
        with self._range_claims.claimed((query, batch), ranges), self._claims.claimed(columns):
            self.write(_intent(query, batch), asdict(manifest))
        self._finish(manifest)
        return manifest

    def _check_staged(self, manifest: Manifest) -> None:
        """Check that the staged files exist. An intent without them could never be finished."""
        paths = [self.full(each.staged) for each in manifest.files]
        found = self.fs.get_file_info(paths) if paths else []
        gone = [each.path for each in found if each.type == pafs.FileType.NotFound]
        if gone:
            raise PipelineError(
                f"{gone[0]} is gone, with {len(gone) - 1} more files of batch {manifest.batch}: "
                "another run with the same checkpoint has removed it. Let one run at a time use a "
                "checkpoint, and start again"
            )

    def recover(self) -> list[Manifest]:
        """Finish batches that a previous driver has decided but not finished."""
        found = []
        for each in self._intents():
            self._finish(each)
            found.append(each)
        return found

    def compact(self, at_least: int = COMPACT_FROM) -> int:
        """Move the manifests to one file, if there are so many. It takes less than a second.

        `archive` calls it after each batch. Readers of the lake aren't disturbed.

        :param at_least: Do nothing with fewer manifests.
        :return: The number of manifests that moved.
        """
        return self._log.compact(at_least)

    def replaced(self) -> dict[str, int]:
        """The paths of replaced files, with the time of their replacement in milliseconds."""
        return self._log.replaced()

    def forget_files(self, paths: Collection[str]) -> int:
        """Remove replaced files from the compacted manifests, see `ManifestLog`."""
        return self._log.forget_files(paths)

    def forget_replacements(self, before_ms: int) -> int:
        """Remove the replacements of files that no manifest lists, see `ManifestLog`."""
        return self._log.forget_replacements(before_ms)

    def sweep(self, query: str, batch: int | None = None) -> None:
        """Remove the staged files of failed attempts, of a batch or of all published batches.

        A batch that isn't published keeps its files: another run of the same checkpoint may be
        writing them. They are removed after the batch is published.
        """
        if batch is not None:
            self.remove(f"{staging_of(query)}/{batch}")
            return
        selector = pafs.FileSelector(self.full(staging_of(query)), allow_not_found=True)
        for each in self.fs.get_file_info(selector):
            if each.base_name.isdigit() and (query, int(each.base_name)) in self._log:
                self.remove(f"{staging_of(query)}/{each.base_name}")

    def remove_staged(self, query: str) -> None:
        """Remove all staged files of a query that no run has any more."""
        self.remove(staging_of(query))

    def _finish(self, manifest: Manifest) -> None:
        """Move a decided batch into place. A repetition continues where a crash has stopped it."""
        folders = {str(PurePosixPath(each.path).parent) for each in manifest.files}
        for folder in folders:
            self.make(folder)
        for each in manifest.files:
            try:
                self.move(each.staged, each.path)
            except PipelineError:
                if (manifest.query, manifest.batch) in self._log:
                    return  # another run has finished it, and the file was merged since then
                raise
        for folder in folders | {str(PurePosixPath(folder).parent) for folder in folders} | {"."}:
            self.sync(folder)
        name = manifest_name(manifest.query, manifest.batch)
        self.move(_intent(manifest.query, manifest.batch), f"{LOG}/manifests/{name}")
        self.sync(f"{LOG}/manifests")
        self.sync(f"{LOG}/intents")


def _raised(ends: Mapping[Key, int], more: Iterable[Manifest]) -> dict[Key, int]:
    """The ends with those of more batches."""
    found = dict(ends)
    for manifest in more:
        for each in manifest.planned:
            key = (each.topic, each.partition)
            found[key] = max(found.get(key, 0), each.end)
    return found


def _intent(query: str, batch: int) -> str:
    """The path of a batch's intent, below the lake's folder."""
    return f"{LOG}/intents/{manifest_name(query, batch)}"
