"""``maintain``: keeps a lake or a table fast: merges small files, and removes what is over.

It needs neither Spark nor Kafka, and `archive` may run meanwhile. The old files of a merge stay in
the lake until the manifest of the merged file is published. So readers of manifests see each record
once, whenever a process ends. Two processes that merge the same files do no harm: the first one
counts.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final

import pyarrow.fs
import pyarrow.parquet as pq

from kafka_native.spark.pipelines.claims import CLAIMS, RANGE_CLAIMS
from kafka_native.spark.pipelines.lake import Lake
from kafka_native.spark.pipelines.manifests import (
    LOG,
    NO_DATE,
    LakeFile,
    staging_of,
)
from kafka_native.spark.pipelines.parquet import (
    OpenFile,
    ParquetSettings,
    staged_file,
    staged_path,
)
from kafka_native.spark.pipelines.session import PipelineError, now_ms
from kafka_native.spark.pipelines.table_target import TableTarget

__all__ = ["MaintainResult", "Merge", "maintain", "plan_merges"]

KEEP_S: Final = 7 * 86_400.0
"""So long the old versions of a table stay, and files that no version lists."""
STAGED_S: Final = 7 * 86_400.0
"""Staged files of this age belong to no running task."""
FORGET_S: Final = 7 * 86_400.0
"""A run that merges the same files takes less time: then the lake may forget replaced files."""


@dataclass(frozen=True)
class Merge:
    """Files of one partition, one date and the same columns that become one file."""

    files: tuple[LakeFile, ...]
    """The files, in the order of their offsets."""

    @property
    def bytes(self) -> int:
        """The bytes of the files."""
        return sum(each.bytes for each in self.files)

    @property
    def records(self) -> int:
        """The number of records in the files."""
        return sum(each.records for each in self.files)


@dataclass
class MaintainResult:
    """The results of a run of `maintain`."""

    lake: str
    merged: int = 0
    """Files that were merged."""
    made: int = 0
    """The files that they became."""
    records: int = 0
    """The records in the merged files."""
    bytes: int = 0
    """The bytes that were read to merge them."""
    deleted: int = 0
    """Replaced files that were deleted."""
    manifests: int = 0
    """Manifests that were compacted."""
    staged: int = 0
    """Staging folders of ended queries that were removed."""
    elapsed_s: float = 0.0


def plan_merges(
    lake: Lake, *, file_bytes: int = 512 << 20, before: str | None = None
) -> list[Merge]:
    """The merges that `maintain` would do now. Nothing is written.

    Files of half of ``file_bytes`` or more stay as they are.

    :param lake: The lake.
    :param file_bytes: The size of merged files. It is approximate.
    :param before: Only files of earlier dates, such as ``2026-11-21``; None: today, in UTC. Files
        without a date count as early.
    """
    limit = before or _today()
    found = (each for each in lake.files() if each.date == NO_DATE or each.date < limit)
    order = attrgetter("topic", "partition", "date")
    merges: list[Merge] = []
    by_offset = sorted(found, key=lambda each: (order(each), each.first_offset))
    for _, files in groupby(by_offset, order):
        merges += _merges_of(files, file_bytes)
    return merges


def _merges_of(files: Iterable[LakeFile], file_bytes: int) -> Iterator[Merge]:
    """The merges of one partition and date. The files are in the order of their offsets."""
    group: list[LakeFile] = []
    for file in files:
        small = file.bytes < file_bytes / 2
        follows = not group or (
            file.first_offset > group[-1].last_offset and file.schema == group[-1].schema
        )
        full = sum(each.bytes for each in group) + file.bytes > file_bytes
        if group and (not small or not follows or full):
            if len(group) > 1:
                yield Merge(tuple(group))
            group = []
        if small:
            group.append(file)
    if len(group) > 1:
        yield Merge(tuple(group))


def maintain(
    lake: str | Path | Lake | TableTarget,
    *,
    settings: ParquetSettings | None = None,
    before: str | None = None,
    keep_s: float | None = None,
    on_progress: Callable[[MaintainResult, int], None] | None = None,
) -> MaintainResult:
    """Merge a lake's small files, compact its manifests, and delete replaced files.

    :param lake: The lake's folder or URI, or a table.
    :param settings: The settings of merged files.
    :param before: Merge only files of earlier dates; None: today, in UTC.
    :param keep_s: Seconds for which replaced files stay, for readers that have their paths. A
        later run deletes them. Meanwhile a listing of the folders shows their records twice. For a
        table: seconds for which old versions and unlisted files stay. None: 0 for a lake, 7 days
        for a table.
    :param on_progress: Called after each merge with the results so far and the number of merges.
    :raises PipelineError: There is no lake or table, or a file can't be read.
    """
    if isinstance(lake, TableTarget):
        return _maintain_table(lake, settings or ParquetSettings(), before, keep_s)
    target = lake if isinstance(lake, Lake) else Lake(lake)
    if not target.exists(f"{LOG}/lake.json"):
        raise PipelineError(f"there is no lake in {target.uri}: archive makes one")
    target.prepare()
    forgotten_ms = now_ms() - int(max(keep_s or 0, FORGET_S) * 1000)
    target.forget_replacements(forgotten_ms)
    chosen = settings or ParquetSettings()
    result = MaintainResult(target.uri)
    begun = time.monotonic()
    query = f"maintain-{uuid.uuid4().hex}"
    merges = plan_merges(target, file_bytes=chosen.file_bytes, before=before)
    for number, merge in enumerate(merges):
        if not _merge(target, merge, chosen, query, number):
            continue
        result.merged += len(merge.files)
        result.made += 1
        result.records += merge.records
        result.bytes += merge.bytes
        if on_progress is not None:
            on_progress(result, len(merges))
    target.remove_staged(query)
    result.manifests = target.compact(1)
    result.deleted = _delete_replaced(target, now_ms() - int((keep_s or 0) * 1000))
    _forget_files(target, forgotten_ms)
    result.staged = _sweep(target)
    result.elapsed_s = time.monotonic() - begun
    return result


def _maintain_table(
    table: TableTarget, settings: ParquetSettings, before: str | None, keep_s: float | None
) -> MaintainResult:
    begun = time.monotonic()
    table.open()
    done = table.merge_files(settings, before or _today())
    deleted = table.delete_unused(KEEP_S if keep_s is None else keep_s)
    result = MaintainResult(table.uri, done.merged, done.made, done.records, done.bytes, deleted)
    result.elapsed_s = time.monotonic() - begun
    return result


def _today() -> str:
    return datetime.now(timezone.utc).date().isoformat()


def _merge(lake: Lake, merge: Merge, settings: ParquetSettings, query: str, number: int) -> bool:
    """Merge files and publish the result.

    :return: False: they have other columns, and stay. Or another run has merged and deleted them.
    """
    first = merge.files[0]
    staging = f"{staging_of(query)}/{number}/0"
    schema = lake.schema_of(first.schema)
    path_of = partial(staged_path, staging, f"{query}-{number}", first.topic, first.date)
    writer = OpenFile(lake, path_of, schema, settings)
    try:
        for file in merge.files:
            with lake.fs.open_input_file(lake.full(file.path)) as source:
                parquet = pq.ParquetFile(source)
                if not parquet.schema_arrow.equals(schema):
                    writer.abort()
                    return False
                for group in range(parquet.num_row_groups):
                    for batch in parquet.read_row_group(group).to_batches():
                        writer.write(batch)
        place = first.topic, first.partition, first.date
        made = staged_file(staging, *place, writer.close(), schema)
    except FileNotFoundError:
        writer.abort()
        if not lake.replaced().keys().isdisjoint(each.path for each in merge.files):
            return False
        raise
    except BaseException:
        writer.abort()
        raise
    _check(merge, made)
    lake.publish(query, number, (), [made], replaced=[each.path for each in merge.files])
    return True


def _check(merge: Merge, made: LakeFile) -> None:
    """Check that the merged file has the records of the others."""
    wanted = (merge.records, merge.files[0].first_offset, merge.files[-1].last_offset)
    found = (made.records, made.first_offset, made.last_offset)
    if found != wanted:
        raise PipelineError(
            f"{made.staged} has {found[0]} records of the offsets {found[1]} to {found[2]}, but "
            f"the manifests list {wanted[0]} records of {wanted[1]} to {wanted[2]} in its "
            f"{len(merge.files)} files, from {merge.files[0].path} on: a file is damaged"
        )


def _delete_replaced(lake: Lake, before_ms: int) -> int:
    """Delete files that were replaced before a time."""
    there = [path for path, exists in _replaced(lake, before_ms) if exists]
    for path in there:
        lake.delete(path)
    return len(there)


def _forget_files(lake: Lake, before_ms: int) -> None:
    """Remove deleted files that were replaced before a time from the manifests."""
    lake.forget_files([path for path, exists in _replaced(lake, before_ms) if not exists])


def _replaced(lake: Lake, before_ms: int) -> list[tuple[str, bool]]:
    """The files that were replaced before a time, and whether they exist."""
    paths = [path for path, replaced_ms in lake.replaced().items() if replaced_ms <= before_ms]
    found = lake.fs.get_file_info([lake.full(path) for path in paths]) if paths else []
    return [
        (path, info.type == pyarrow.fs.FileType.File)
        for path, info in zip(paths, found, strict=True)
    ]


def _sweep(lake: Lake) -> int:
    """Remove staging folders and claims in which nothing was written for `STAGED_S` seconds.

    :return: The number of staging folders.
    """
    for place in (CLAIMS, RANGE_CLAIMS):
        for claim in lake.fs.get_file_info(_files_in(lake, place)):
            if _is_old(claim):
                lake.delete(f"{place}/{claim.base_name}")
    removed = 0
    for folder in lake.fs.get_file_info(_files_in(lake, f"{LOG}/staging")):
        inside = lake.fs.get_file_info(pyarrow.fs.FileSelector(folder.path, recursive=True))
        if all(map(_is_old, [folder, *inside])):
            lake.remove_staged(folder.base_name)
            removed += 1
    return removed


def _files_in(lake: Lake, path: str) -> pyarrow.fs.FileSelector:
    return pyarrow.fs.FileSelector(lake.full(path), allow_not_found=True)


def _is_old(file: pyarrow.fs.FileInfo) -> bool:
    return time.time_ns() - (file.mtime_ns or 0) > STAGED_S * 1e9
