"""The manifests of a lake: a JSON file for each recent batch, and compacted files for the others.

A new batch is one file in ``_kafka_native/manifests``. Without more, a lake with a batch a minute
would have 525,600 of them after a year, and each start would read them all. So `compact()` writes
them to one Parquet file in ``_kafka_native/compacted``, checks that file, and deletes them.

A process that ends in between leaves batches in two places, which is harmless: each batch counts
once. Readers list the single manifests first and the compacted files second, so they miss no batch
that moves meanwhile. If a file disappears while they read, they start again.
"""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs

from kafka_native.spark.folder import Folder
from kafka_native.spark.offsets import Key
from kafka_native.spark.pipelines import compacted_manifests as compacted
from kafka_native.spark.pipelines.compacted_manifests import (
    FILES_MAX,
    Plan,
    ReplacedFiles,
    Replacement,
    Summary,
)
from kafka_native.spark.pipelines.manifests import (
    LOG,
    LakeFile,
    Manifest,
    Skipped,
    manifest_name,
    manifest_of,
)
from kafka_native.spark.pipelines.session import PipelineError

MANIFESTS: Final = f"{LOG}/manifests"
COMPACTED: Final = f"{LOG}/compacted"
SETTLED_S: Final = 3600.0
"""A compaction takes less time: so later no process writes rows again that it has read before."""
_TRIES: Final = 20
"""So many times a reader starts again, because files were compacted while it read."""

_Result = TypeVar("_Result")


class ManifestLog:
    """The published batches of a lake. A second object may read and compact the same lake."""

    def __init__(self, folder: Folder) -> None:
        """Read nothing yet. ``folder`` is the lake's folder."""
        self._folder = folder
        self._manifests: dict[str, Manifest] = {}  # by file name, as far as they were read
        self._summaries: dict[str, Summary] = {}  # the same for compacted files

    # --- reading ---

    def manifests(self) -> list[Manifest]:
        """All manifests, oldest first."""

        def read() -> list[Manifest]:
            singles, summaries = self._look()
            found = list(singles.values())
            for table in self._tables(summaries):
                found += compacted.manifests_in(table)
            return found

        found = self._repeated(read)
        return sorted(found, key=lambda each: (each.published_ms, each.query, each.batch))

    def plans(self, keys: Collection[Key] | None = None) -> list[Plan]:
        """The offsets of all batches that were read or skipped.

        :param keys: Only these topics and partitions.
        """
        filters = pc.field("kind").isin(["range", "skipped"])
        if keys is not None:
            topics, partitions = {topic for topic, _ in keys}, {number for _, number in keys}
            filters &= pc.field("topic").isin(pa.array(topics, pa.string()))
            filters &= pc.field("partition").isin(pa.array(partitions, pa.int32()))

        def read() -> list[Plan]:
            singles, summaries = self._look()
            found = [
                Plan(
                    *(each.topic, each.partition, each.start, each.end),
                    each.reason if isinstance(each, Skipped) else None,
                    manifest.published_ms,
                )
                for manifest in singles.values()
                for each in manifest.planned
            ]
            for table in self._tables(summaries, filters):
                found += compacted.plans_in(table)
            if keys is None:
                return found
            return [each for each in found if (each.topic, each.partition) in keys]

        return self._repeated(read)

    def files(
        self, topics: Collection[str] | None = None, dates: Collection[str] | None = None
    ) -> list[LakeFile]:
        """The files of all batches, or those of some topics and dates, without replaced ones."""
        filters = pc.field("kind") == "file"
        for name, wanted in (("topic", topics), ("date", dates)):
            if wanted is not None:
                filters &= pc.field(name).isin(pa.array(wanted, pa.string()))
        filters |= pc.field("kind") == "replaced"

        def read() -> list[LakeFile]:
            singles, summaries = self._look()
            tables = list(self._tables(summaries, filters))
            log = _replaced(singles.values(), tables)
            found = [
                each
                for manifest in singles.values()
                for each in manifest.files
                if (topics is None or each.topic in topics)
                and (dates is None or each.date in dates)
                and each.path not in log.paths
                and manifest.key not in log.void
            ]
            for table in tables:
                found += compacted.files_in(table, log)
            return found

        return self._repeated(read)

    def replaced(self) -> dict[str, int]:
        """The paths of files that are no part of the lake any more, and since when."""

        def read() -> ReplacedFiles:
            singles, summaries = self._look()
            tables = self._tables(summaries, pc.field("kind") == "replaced")
            return _replaced(singles.values(), tables)

        log = self._repeated(read)
        unused = (each for each in self.manifests() if each.key in log.void) if log.void else ()
        return log.paths | {
            file.path: manifest.published_ms for manifest in unused for file in manifest.files
        }

    def ends(self) -> dict[tuple[str, int], int]:
        """The offset after the last published one, by topic and partition."""
        return _ends(*self._repeated(self._look))

    def topic_ids(self) -> dict[str, str]:
        """The last known id of each topic."""
        return _topic_ids(*self._repeated(self._look))

    def published(
        self, batch: tuple[str, int]
    ) -> tuple[bool, dict[tuple[str, int], int], dict[str, str]]:
        """Whether a batch is published, `ends()` and `topic_ids()`, by one reading."""
        singles, summaries = self._repeated(self._look)
        has_batch = manifest_name(*batch) in singles or any(
            batch in each for each in summaries.values()
        )
        return has_batch, _ends(singles, summaries), _topic_ids(singles, summaries)

    def schemas(self) -> dict[str, set[str]]:
        """The names of the columns of each topic's files. Replaced files count, too."""
        singles, summaries = self._repeated(self._look)
        found: dict[str, set[str]] = defaultdict(set)
        for summary in summaries.values():
            for topic, names in summary.schemas.items():
                found[topic] |= names
        for manifest in singles.values():
            for each in manifest.files:
                found[each.topic].add(each.schema)
        return dict(found)

    def __contains__(self, batch: tuple[str, int]) -> bool:
        """Whether a batch is published."""
        if self._folder.exists(f"{MANIFESTS}/{manifest_name(*batch)}"):
            return True
        return any(batch in each for each in self._repeated(self._read_summaries).values())

    def _look(self) -> tuple[dict[str, Manifest], dict[str, Summary]]:
        """The manifests that aren't compacted, and the summaries of the compacted files.

        Both by file name. Raises ``FileNotFoundError`` if a file was deleted meanwhile.
        """
        names = self._folder.names(MANIFESTS)  # first, see the module's docstring
        summaries = self._read_summaries()
        for name in names - self._manifests.keys():
            self._manifests[name] = manifest_of(self._folder.read(f"{MANIFESTS}/{name}"), name)
        self._manifests = {name: self._manifests[name] for name in names}
        singles = {
            name: each
            for name, each in self._manifests.items()
            if not any(each.key in summary for summary in summaries.values())
        }
        return singles, summaries

    def _read_summaries(self) -> dict[str, Summary]:
        """The summaries of the compacted files, by file name. It raises as `_look()` does."""
        names = self._folder.names(COMPACTED, ".parquet")
        for name in names - self._summaries.keys():
            with self._folder.fs.open_input_file(self._folder.full(f"{COMPACTED}/{name}")) as file:
                self._summaries[name] = compacted.summary_of(file, name)
        self._summaries = {name: self._summaries[name] for name in names}
        return dict(self._summaries)

    def _tables(
        self, summaries: dict[str, Summary], filters: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """The rows of compacted files, each batch once."""
        taken: list[Summary] = []
        for name, summary in sorted(summaries.items(), key=lambda each: (-each[1].level, each[0])):
            table = self._table(name, filters)
            twice = [each for each in taken if each.overlaps(summary)]
            taken.append(summary)
            yield compacted.without(table, twice) if twice else table

    def _table(self, name: str, filters: pc.Expression | None = None) -> pa.Table:
        """The rows of a compacted file."""
        with self._folder.fs.open_input_file(self._folder.full(f"{COMPACTED}/{name}")) as file:
            return compacted.read_rows(file, name, filters)

    def _repeated(self, read: Callable[[], _Result]) -> _Result:
        """The result of ``read()``, which starts again after a file was compacted."""
        for _ in range(_TRIES):
            try:
                return read()
            except FileNotFoundError as error:
                last = error
        raise PipelineError(
            f"manifests of {self._folder.uri} disappear while they are read: {last}"
        ) from last

    # --- compacting, on the driver ---

    def compact(self, at_least: int = 1) -> int:
        """Move single manifests to a compacted file, and merge compacted files.

        :param at_least: Do nothing with fewer single manifests.
        :return: The number of manifests that moved.
        """
        singles, _ = self._repeated(self._look)
        leftovers = self._manifests.keys() - singles.keys()
        self._delete(MANIFESTS, leftovers)  # a process ended after it had compacted them
        if len(singles) < max(at_least, 1):
            return 0
        self._write(compacted.rows_of(singles.values()), 0)
        self._delete(MANIFESTS, singles)
        self._merge()
        return len(singles)

    def forget_files(self, paths: Collection[str]) -> int:
        """Remove replaced files from the compacted batches, which don't list them any more.

        Their replacement stays known: another process that compacts manifests may have read their
        rows before, and write them again.

        :param paths: Replaced files. They are deleted, and no process merges them any more.
        :return: The number of removed rows.
        """
        return self._remove_rows("file", paths)

    def forget_replacements(self, before_ms: int) -> int:
        """Remove the replacements of files that no batch lists any more.

        It does nothing if a compacted file is younger than `SETTLED_S`, see `forget_files`.

        :param before_ms: Only replacements before this time. No process merges these files now.
        :return: The number of removed rows.
        """
        selector = pyarrow.fs.FileSelector(self._folder.full(COMPACTED), allow_not_found=True)
        times = [each.mtime_ns or 0 for each in self._folder.fs.get_file_info(selector)]
        if time.time_ns() - max(times, default=0) < SETTLED_S * 1e9:
            return 0
        return self._remove_rows("replaced", self._repeated(lambda: self._unused(before_ms)))

    def _unused(self, before_ms: int) -> set[str]:
        """The replaced files that no batch lists, and that decide about no void batch."""
        singles, summaries = self._look()
        replaced = pc.field("kind") == "replaced"
        replacements = _replacements(singles.values(), self._tables(summaries, replaced))
        void = ReplacedFiles.of(replacements).void
        found = {
            path for each in replacements if each.published_ms < before_ms for path in each.paths
        }
        # Without the earlier replacement of its files, a void batch would count.
        found -= {path for each in replacements if each.key in void for path in each.paths}
        found -= {file.path for each in singles.values() for file in each.files}
        # A batch may be in two files, and both count here.
        tables = (self._table(name, pc.field("kind") == "file") for name in summaries)
        return found.difference(*map(compacted.paths_in, tables))

    def _remove_rows(self, kind: str, texts: Collection[str]) -> int:
        """Write compacted files again, without the rows of a kind with these texts."""
        removed = 0
        if not texts:
            return removed
        _, summaries = self._repeated(self._look)
        for name, summary in summaries.items():
            with suppress(FileNotFoundError):  # another process has merged it: for the next run
                table = self._table(name)
                kept = compacted.without_rows(table, kind, texts)
                if kept.num_rows < table.num_rows:
                    self._write(kept, summary.level)
                    self._delete(COMPACTED, [name])
                    removed += table.num_rows - kept.num_rows
        return removed

    def _merge(self) -> None:
        """Merge the compacted files of each level that has `FILES_MAX` of them."""
        level = 0
        while True:
            _, summaries = self._repeated(self._look)
            levels: dict[int, dict[str, Summary]] = defaultdict(dict)
            for name, summary in summaries.items():
                levels[summary.level][name] = summary
            if level > max(levels, default=0):
                return
            if len(levels[level]) >= FILES_MAX:
                self._write(pa.concat_tables(self._tables(levels[level])), level + 1)
                self._delete(COMPACTED, levels[level])
            level += 1

    def _write(self, table: pa.Table, level: int) -> None:
        """Write a compacted file, and check that it can be read."""
        name = f"{level}-{uuid.uuid4().hex}.parquet"
        self._folder.make(COMPACTED)
        self._folder.write_bytes(f"{COMPACTED}/{name}", compacted.pack(table, level))
        if not self._table(name).equals(table):
            raise PipelineError(f"{COMPACTED}/{name} isn't what was written: delete it")

    def _delete(self, folder: str, names: Iterable[str]) -> None:
        for name in names:
            self._folder.delete(f"{folder}/{name}")


def _ends(
    singles: Mapping[str, Manifest], summaries: Mapping[str, Summary]
) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for summary in summaries.values():
        for key, end in summary.ends.items():
            found[key] = max(found.get(key, 0), end)
    for manifest in singles.values():
        for each in manifest.planned:
            key = (each.topic, each.partition)
            found[key] = max(found.get(key, 0), each.end)
    return found


def _topic_ids(singles: Mapping[str, Manifest], summaries: Mapping[str, Summary]) -> dict[str, str]:
    found = [pair for each in summaries.values() for pair in each.topic_ids.items()]
    found += [
        (topic, (manifest.published_ms, id_))
        for manifest in singles.values()
        for topic, id_ in manifest.topic_ids.items()
    ]
    found.sort(key=lambda each: each[1][0])
    return {topic: id_ for topic, (_, id_) in found}


def _replaced(singles: Iterable[Manifest], tables: Iterable[pa.Table]) -> ReplacedFiles:
    return ReplacedFiles.of(_replacements(singles, tables))


def _replacements(singles: Iterable[Manifest], tables: Iterable[pa.Table]) -> list[Replacement]:
    found = [
        Replacement(each.published_ms, *each.key, each.replaced)
        for each in singles
        if each.replaced
    ]
    for table in tables:
        found += compacted.replacements_in(table)
    return found
