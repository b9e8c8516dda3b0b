"""Keeps an Iceberg table fast: merges small data files, expires snapshots, deletes unused files.

PyIceberg has no compaction, so a merge is an overwrite of some files by one. It is one commit. The
records and the state of `archive` stay the same.
"""

from __future__ import annotations

import contextlib
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from kafka_native.spark.folder import Folder
from kafka_native.spark.pipelines.parquet import OpenFile, ParquetSettings
from kafka_native.spark.pipelines.session import PipelineError
from kafka_native.spark.pipelines.table_target import MergedFiles
from kafka_native.spark.pipelines.table_writer import (
    DATA,
    TableFile,
    attempt_folder,
    data_file,
    data_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    MakeDataFile = Callable[[Table, TableFile], DataFile]

_TRIES: Final = 20


@dataclass(frozen=True)
class Small:
    """A small data file, with what its place in a merge depends on."""

    file: DataFile
    topic: str
    partition: int
    first_offset: int
    schema: pa.Schema


class Merger:
    """Merges the small data files of a table.

    :param table: The table.
    :param folder: The folder of its data.
    :param location: The same as the table names it.
    :param settings: The settings of merged files.
    :param data_file: Makes an entry of a manifest from a written file.
    """

    def __init__(
        self,
        table: Table,
        folder: Folder,
        location: str,
        settings: ParquetSettings,
        data_file: MakeDataFile,
    ) -> None:
        """Read nothing yet."""
        self._table = table
        self._folder = folder
        self._location = location
        self._settings = settings
        self._data_file = data_file
        self._columns = partition_columns(table)
        self._query = f"maintain-{uuid.uuid4().hex}"

    def merge(self, before: str) -> MergedFiles:
        """Merge the files whose records are older than a date."""
        merged = made = records = size = 0
        for number, group in enumerate(self._groups(before)):
            if self._merge(number, group):
                merged += len(group)
                made += 1
                records += sum(each.file.record_count for each in group)
                size += sum(each.file.file_size_in_bytes for each in group)
        return MergedFiles(merged, made, records, size)

    def _groups(self, before: str) -> Iterator[list[Small]]:
        """The files that become one file, each group in the order of the offsets."""
        limit = datetime.fromisoformat(before).replace(tzinfo=timezone.utc).timestamp() * 1e6
        found: dict[Any, list[Small]] = defaultdict(list)
        for task in self._table.scan().plan_files():
            small = None if task.delete_files else self._small(task.file, limit)
            if small is not None:
                key = (*self._values(task.file), small.topic, small.partition)
                found[key].append(small)
        for files in found.values():
            files.sort(key=lambda each: each.first_offset)
            yield from self._cut(files)

    def _values(self, file: DataFile) -> list[Any]:
        return [file.partition[at] for at in range(len(self._columns))]

    def _small(self, file: DataFile, limit_us: float) -> Small | None:
        """A file that may be merged; None: it is large, too new, or another program's."""
        inside = file.file_path.startswith(f"{self._location}/{DATA}/")
        large = file.file_size_in_bytes * 2 >= self._settings.file_bytes
        if large or not inside or file.spec_id != self._table.spec().spec_id:
            return None
        low, high = self._bounds(file)
        if None in (low["offset"], low["partition"]) or low["partition"] != high["partition"]:
            return None
        if (high["timestamp"] or 0) >= limit_us:
            return None
        with self._folder.fs.open_input_file(self._path(file)) as source:
            parquet = pq.ParquetFile(source)
            # The table may not be partitioned by topic, and its bounds have no texts.
            first = next(parquet.iter_batches(1, columns=["topic"]))
            topic, schema = str(first.column(0)[0]), parquet.schema_arrow
        return Small(file, topic, int(low["partition"] or 0), int(low["offset"] or 0), schema)

    def _bounds(self, file: DataFile) -> tuple[dict[str, int | None], dict[str, int | None]]:
        """The lower and the upper bounds of the columns that decide about a merge."""
        low: dict[str, int | None] = {}
        high: dict[str, int | None] = {}
        for name in ("partition", "offset", "timestamp"):
            number = self._table.schema().find_field(name).field_id
            for found, bounds in ((low, file.lower_bounds), (high, file.upper_bounds)):
                data = (bounds or {}).get(number)
                found[name] = None if data is None else int.from_bytes(data, "little", signed=True)
        return low, high

    def _cut(self, files: Iterable[Small]) -> Iterator[list[Small]]:
        """Cut the files of a partition into groups of one schema and the wanted size."""
        group: list[Small] = []
        size = 0
        for each in files:
            size += each.file.file_size_in_bytes
            same = not group or each.schema.equals(group[0].schema, check_metadata=True)
            if not same or size > self._settings.file_bytes:
                if len(group) > 1:
                    yield group
                group, size = [], each.file.file_size_in_bytes
            group.append(each)
        if len(group) > 1:
            yield group

    def _path(self, file: DataFile) -> str:
        return self._folder.full(file.file_path.removeprefix(f"{self._location}/"))

    def _merge(self, number: int, group: list[Small]) -> bool:
        """Merge a group. False: another program has replaced one of its files."""
        below = attempt_folder(self._query, number, "0")
        path_of = partial(data_path, below)
        writer = OpenFile(self._folder, path_of, group[0].schema, self._settings)
        try:
            for each in group:
                with self._folder.fs.open_input_file(self._path(each.file)) as source:
                    parquet = pq.ParquetFile(source)
                    for at in range(parquet.num_row_groups):
                        for batch in parquet.read_row_group(at).to_batches():
                            writer.write(batch)
            # By column: the topic, and the day or hour of the timestamp.
            values = dict(zip(self._columns, self._values(group[0].file), strict=True))
            first = group[0]
            made = data_file(first.topic, first.partition, values.get("timestamp"), writer.close())
        except BaseException:
            writer.abort()
            raise
        wanted = sum(each.file.record_count for each in group)
        if made.records != wanted:
            raise PipelineError(
                f"{made.path} has {made.records} records, and the {len(group)} files that it would "
                f"replace, from {group[0].file.file_path} on, should have {wanted}: one is damaged"
            )
        return self._replace(group, made)

    def _replace(self, group: list[Small], made: TableFile) -> bool:
        from pyiceberg.exceptions import CommitFailedException, ValidationException

        paths = {each.file.file_path for each in group}
        for _ in range(_TRIES):
            there = {
                task.file.file_path
                for task in self._table.refresh().scan().plan_files()
                if not task.delete_files
            }
            if not paths <= there:
                self._folder.delete(made.path)
                return False
            try:
                with (
                    self._table.transaction() as transaction,
                    transaction.update_snapshot().overwrite() as overwrite,
                ):
                    for each in group:
                        overwrite.delete_data_file(each.file)
                    overwrite.append_data_file(self._data_file(self._table, made))
                return True
            except (CommitFailedException, ValidationException) as error:
                conflict = error  # another commit came first: nothing was committed
        raise PipelineError(f"the table changed {_TRIES} times during a merge") from conflict


def partition_columns(table: Table) -> list[str]:
    """The columns that a table's partitions are made of, in the order of its partition fields."""
    found = [table.schema().find_column_name(each.source_id) for each in table.spec().fields]
    return [each or "" for each in found]


def delete_unused(table: Table, folder: Folder, location: str, before_ms: int) -> int:
    """Expire old snapshots, and delete our files that no snapshot lists.

    :param before_ms: Only snapshots and files that are older, in milliseconds since 1970.
    :return: The number of deleted data files.
    """
    known = {each.snapshot_id: each for each in table.snapshots()}
    when = datetime.fromtimestamp(before_ms / 1000, timezone.utc)
    table.maintenance.expire_snapshots().older_than(when).commit()
    kept = {each.snapshot_id: each for each in table.refresh().snapshots()}
    manifests = _manifests(table, kept.values())
    used_lists = {each.manifest_list for each in kept.values()}
    expired = [each for number, each in known.items() if number not in kept]
    unused = set(_manifests(table, expired)) - set(manifests)
    unused |= {each.manifest_list for each in expired} - used_lists
    listed = {
        entry.data_file.file_path
        for manifest in manifests.values()
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    }
    deleted = _delete_files(folder, location, listed, before_ms)
    for path in unused:
        with contextlib.suppress(FileNotFoundError):  # another run has deleted it
            table.io.delete(path)
    return deleted


def _manifests(table: Table, snapshots: Iterable[Snapshot]) -> dict[str, ManifestFile]:
    return {
        manifest.manifest_path: manifest
        for snapshot in snapshots
        for manifest in snapshot.manifests(table.io)
    }


def _delete_files(folder: Folder, location: str, listed: set[str], before_ms: int) -> int:
    """Delete our old data files that aren't listed."""
    selector = pyarrow.fs.FileSelector(folder.full(DATA), allow_not_found=True, recursive=True)
    deleted = 0
    for each in folder.fs.get_file_info(selector):
        path = each.path.removeprefix(f"{folder.root}/")
        old = (each.mtime_ns or 0) < before_ms * 1_000_000
        if each.type == pyarrow.fs.FileType.File and old and f"{location}/{path}" not in listed:
            folder.delete(path)
            deleted += 1
    return deleted
