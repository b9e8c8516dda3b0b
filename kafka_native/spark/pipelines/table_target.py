"""Archives into tables: the parts that Delta and Iceberg share.

A table's own commit is the only decision: it adds the files of a batch and, in the same step, the
`TableState`. The state has the last batch of each query, the end of each partition, and the topic
ids. Each commit carries it on, so no clean-up of old commits takes it away.
"""

from __future__ import annotations

import json
import random
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs

from kafka_native.spark.folder import Folder
from kafka_native.spark.offsets import Key
from kafka_native.spark.pipelines.archive_target import ArchiveTarget, Published
from kafka_native.spark.pipelines.lake_schemas import SCHEMA, refused_changes
from kafka_native.spark.pipelines.manifests import LakeFile, Manifest, Range, Skipped
from kafka_native.spark.pipelines.parquet import ParquetSettings
from kafka_native.spark.pipelines.session import PipelineError, now_ms
from kafka_native.spark.pipelines.table_writer import (
    TableFile,
    TableLayout,
    TableWriter,
    TimeUnit,
    attempt_folder,
)

__all__ = ["ConflictError", "TableState", "TableTarget"]

PARTITIONS: Final = ("topic", "day", "hour")
"""What a table can be partitioned by."""
TABLE_SCHEMA: Final = pa.schema([("topic", pa.string()), *SCHEMA])
"""The columns of a table."""
_REQUIRED: Final = ("topic", "partition", "offset")
_SKIPPED_MAX: Final = 1_000
"""The state has so many skipped ranges: the newest."""
_TRIES: Final = 20
_WAIT_S: Final = 0.05
_WAIT_MAX_S: Final = 5.0


class ConflictError(Exception):
    """Another program has committed to the table meanwhile. Nothing was committed."""


@dataclass(frozen=True)
class TableState:
    """What a table knows about the offsets in it."""

    batches: Mapping[str, int] = field(default_factory=dict)
    """The number of the last batch of each query."""
    ends: Mapping[Key, int] = field(default_factory=dict)
    """The offset after the last one, read or skipped, of each topic and partition."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """The known ids of the topics."""
    skipped: tuple[Skipped, ...] = ()
    """The newest skipped ranges."""
    last_query: str = ""
    """The query of the last batch."""
    last_attempts: tuple[str, ...] = ()
    """The attempts whose files the last batch has."""

    def after(self, batch: Manifest) -> TableState:
        """The state after one more batch."""
        ends = dict(self.ends)
        for each in batch.planned:
            key = (each.topic, each.partition)
            ends[key] = max(ends.get(key, 0), each.end)
        return TableState(
            {**self.batches, batch.query: batch.batch},
            ends,
            {**self.topic_ids, **batch.topic_ids},
            (*self.skipped, *batch.skipped)[-_SKIPPED_MAX:],
            batch.query,
            tuple(sorted({_attempt_of(each) for each in batch.files})),
        )

    def check(self, batch: Manifest) -> None:
        """Check that a batch adds only new offsets.

        :raises PipelineError: The table has the batch, or some of its offsets.
        """
        if self.has(batch.query, batch.batch):
            raise PipelineError(f"batch {batch.batch} of {batch.query} is published already")
        for each in batch.planned:
            end = self.ends.get((each.topic, each.partition), 0)
            if each.start < end:
                raise PipelineError(
                    f"the table has {each.topic} [{each.partition}] up to offset {end} meanwhile, "
                    f"and this batch has {each.start} to {each.end}: another query archives the "
                    "same topic into this table"
                )

    def is_result_of(self, batch: Manifest) -> bool:
        """Whether the last commit was the one of this batch, with these files."""
        attempts = tuple(sorted({_attempt_of(each) for each in batch.files}))
        last = self.last_query, self.batches.get(self.last_query), self.last_attempts
        return bool(attempts) and last == (batch.query, batch.batch, attempts)

    def has(self, query: str, batch: int) -> bool:
        """Whether a batch is published."""
        return self.batches.get(query, -1) >= batch

    def to_json(self) -> str:
        """The state as JSON. `from_json()` reads it."""
        ends: dict[str, dict[str, int]] = {}
        for (topic, partition), end in sorted(self.ends.items()):
            ends.setdefault(topic, {})[str(partition)] = end
        content = {
            "batches": dict(self.batches),
            "ends": ends,
            "topic_ids": dict(self.topic_ids),
            "skipped": [vars(each) for each in self.skipped],
            "last_query": self.last_query,
            "last_attempts": self.last_attempts,
        }
        return json.dumps(content, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> TableState:
        """Parse a state.

        :param name: Where it was, for the error.
        :raises PipelineError: It is damaged.
        """
        try:
            content = json.loads(text)
            ends = {
                (topic, int(partition)): int(end)
                for topic, parts in content["ends"].items()
                for partition, end in parts.items()
            }
            return cls(
                {query: int(batch) for query, batch in content["batches"].items()},
                ends,
                dict(content["topic_ids"]),
                tuple(Skipped(**each) for each in content["skipped"]),
                content["last_query"],
                tuple(content["last_attempts"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise PipelineError(f"{name} is damaged: {type(error).__name__} {error}") from error


def _attempt_of(file: LakeFile) -> str:
    return PurePosixPath(file.path).parent.name


@dataclass(frozen=True)
class MergedFiles:
    """The results of merging a table's small files."""

    merged: int
    made: int
    records: int
    bytes: int
    """The bytes that were read to merge them."""


class TableTarget(ArchiveTarget):
    """A table that `archive` writes to.

    :param uri: The table's name, for people.
    :param partition_by: What a new table is partitioned by: ``topic``, and ``day`` or ``hour`` of
        the timestamp. An hour includes its day. None: by topic and day, or as the table is.
    """

    kind = "table"

    def __init__(
        self,
        uri: str,
        partition_by: Sequence[str] | None = None,
    ) -> None:
        """Store the description. Nothing is read or made."""
        self.uri = uri
        self.partition_by = None if partition_by is None else _checked_partitions(partition_by)
        self.schema = TABLE_SCHEMA
        self._folder: Folder | None = None
        self._layout: TableLayout | None = None
        self._newest: TableState | None = None
        self._parsed: tuple[int | str, TableState] | None = None
        """The last state that was read, and what it was read from."""

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what tasks need: no states."""
        return {**self.__dict__, "_newest": None, "_parsed": None}

    # --- what each format does ---

    @abstractmethod
    def open(self) -> None:
        """Open the table for `merge_files()` and `delete_unused()`. It stays as it is.

        :raises PipelineError: It doesn't exist, or isn't one of `archive`.
        """

    @abstractmethod
    def state(self, *, refresh: bool = True) -> TableState:
        """Read the state of the table's newest version.

        :param refresh: Ask for the newest version; False: that of the last call. A commit is based
            on this version, so it fails if there is a newer one.
        :raises PipelineError: It can't be read.
        """

    @abstractmethod
    def _add_columns(self) -> None:
        """Add the columns, and fields of structs, that the table lacks.

        :raises ConflictError: Another program has changed the table meanwhile. It was read again.
        :raises PipelineError: The table can't take the records.
        """

    @abstractmethod
    def _commit(self, batch: Manifest, state: TableState) -> None:
        """Add a batch's files and set the state, if the table is as `state()` has found it.

        :raises ConflictError: The table has changed. Nothing was committed.
        """

    @abstractmethod
    def merge_files(self, settings: ParquetSettings, before: str) -> MergedFiles:
        """Merge small data files. The records and the state stay the same.

        :param settings: The settings of merged files.
        :param before: Only files whose records are of earlier dates, such as ``2026-11-21``.
        :raises PipelineError: The table doesn't exist, or a file is damaged.
        """

    @abstractmethod
    def delete_unused(self, keep_s: float) -> int:
        """Expire old versions of the table, and delete files that no version lists.

        :param keep_s: Seconds for which versions and files stay. A batch of `archive` must take
            less time.
        :return: How many data files were deleted.
        """

    # --- reading ---

    def published(self, query: str, batch: int) -> Published:
        """What the table has when a batch begins, by one reading of its state."""
        state = self.state()
        return Published(state.has(query, batch), state.ends, state.topic_ids)

    def ends(self) -> Mapping[Key, int]:
        """The offset after the last published one, read or skipped, by topic and partition."""
        return self.state().ends

    def topic_ids(self) -> Mapping[str, str]:
        """The known ids of the archived topics."""
        return self.state().topic_ids

    def skipped(self) -> tuple[Skipped, ...]:
        """The newest ranges of offsets that couldn't be read, up to a thousand."""
        return self.state().skipped

    # --- writing ---

    def use_columns(self, columns: pa.Schema) -> None:
        """Take the columns of the next run. The table has a column with the topic, too."""
        self.schema = pa.schema([TABLE_SCHEMA.field("topic"), *columns])

    def file_of(self, entry: Mapping[str, Any]) -> TableFile:
        """Return a writer's file from its fields, which were sent as JSON."""
        return TableFile(**entry)

    def range_writer(
        self,
        query: str,
        batch: int,
        attempt: str,
        topic: str,
        partition: int,
        settings: ParquetSettings,
    ) -> TableWriter:
        """Return a writer for an attempt of a task. Its files have a folder of their own."""
        folder, layout = self._prepared()
        below = attempt_folder(query, batch, attempt)
        return TableWriter(folder, below, layout, topic, partition, settings)

    def publish(
        self,
        query: str,
        batch: int,
        ranges: Iterable[Range],
        files: Iterable[LakeFile],
        skipped: Iterable[Skipped] = (),
        topic_ids: Mapping[str, str] | None = None,
        *,
        left_out: int = 0,
    ) -> Manifest:
        """Publish the files of a batch with one commit of the table.

        :raises PipelineError: The batch is published already, or another query has published some
            of its offsets.
        """
        read = sorted(each for each in ranges if each.start < each.end)
        done = tuple(read), tuple(sorted(files)), tuple(sorted(skipped))
        manifest = Manifest(query, batch, now_ms(), *done, topic_ids or {}, left_out=left_out)
        self._sync(manifest.files)
        for number in range(_TRIES):
            state = self.state(refresh=number > 0)  # a batch begins with a refresh
            if number and state.is_result_of(manifest):
                self._newest = state
                return manifest  # the commit was reported as failed, and has succeeded
            state.check(manifest)
            try:
                newest = state.after(manifest)
                self._commit(manifest, newest)
                self._newest = newest
                return manifest
            except ConflictError as error:
                conflict = error
            wait_s = min(_WAIT_MAX_S, _WAIT_S * 2**number)
            time.sleep(wait_s * random.uniform(0.5, 1))
        raise PipelineError(
            f"the table {self.uri} has changed {_TRIES} times while batch {batch} was committed: "
            f"{conflict}"
        ) from conflict

    def sweep(self, query: str, batch: int | None = None) -> None:
        """Remove the files of failed attempts of the last batch, if it is one of this query.

        A batch that isn't published yet keeps its files: a commit whose outcome is unknown may
        still list them. They are removed after the batch is published.
        """
        # After publish() the state of that commit is at hand.
        state = self.state() if batch is None or self._newest is None else self._newest
        last = state.batches.get(query)
        if last is None or state.last_query != query or batch not in (None, last):
            return
        folder, _ = self._prepared()
        path = attempt_folder(query, last)
        selector = pyarrow.fs.FileSelector(folder.full(path), allow_not_found=True)
        for each in folder.fs.get_file_info(selector):
            if each.base_name not in state.last_attempts:
                folder.remove(f"{path}/{each.base_name}")

    def _widen(self) -> None:
        """Add columns. If another program does it at the same time, compare again.

        :raises PipelineError: The table can't take the records.
        """
        for _ in range(_TRIES):
            try:
                self._add_columns()
                return
            except ConflictError as error:
                conflict = error
        raise PipelineError(
            f"the table {self.uri} has changed {_TRIES} times while columns were added: {conflict}"
        ) from conflict

    def _prepared(self) -> tuple[Folder, TableLayout]:
        if self._folder is None or self._layout is None:
            raise PipelineError(f"the table {self.uri} isn't open: call prepare() first")
        return self._folder, self._layout

    def _sync(self, files: Sequence[LakeFile]) -> None:
        """Sync the names of the files, and of their folders, to a local disk."""
        folder, _ = self._prepared()
        parents = {parent for each in files for parent in PurePosixPath(each.path).parents}
        for each in sorted(parents, key=lambda path: -len(path.parts)):
            folder.sync(str(each))


def _checked_partitions(names: Sequence[str]) -> tuple[str, ...]:
    wrong = [each for each in names if each not in PARTITIONS]
    if wrong:
        raise PipelineError(f"partition by {wrong[0]!r}: write {', '.join(PARTITIONS)}")
    unit = "hour" if "hour" in names else "day" if "day" in names else ""
    return tuple(each for each in ("topic" if "topic" in names else "", unit) if each)


def check_partitions(uri: str, found: Sequence[str], wanted: Sequence[str] | None) -> None:
    """Check that a table is partitioned as wanted, or that it doesn't matter.

    :raises PipelineError: It is partitioned by something else.
    """
    if wanted is not None and tuple(found) != tuple(wanted):
        raise PipelineError(
            f"the table {uri} exists and is partitioned by {', '.join(found) or 'nothing'}: leave "
            "out partition by, or use another table"
        )


def unit_of(partition_by: Sequence[str]) -> TimeUnit | None:
    """The unit of time among what a table is partitioned by."""
    return "hour" if "hour" in partition_by else "day" if "day" in partition_by else None


def lacks_columns(uri: str, found: pa.Schema, wanted: pa.Schema) -> bool:
    """Return whether a table lacks columns, or fields of structs, that archive writes.

    :param uri: The table's name, for errors.
    :param found: The table's columns. Columns of other programs stay null.
    :param wanted: The columns of archive.
    :raises PipelineError: A column or field has another type, or archive doesn't write a field, or
        a column of other programs can't be null, or the table has no offsets.
    """
    for name in _REQUIRED:
        if name not in found.names:
            raise PipelineError(
                f"the table {uri} exists and has no column {name!r}: archive into another table"
            )
    for each in found:
        if each.name not in wanted.names and not each.nullable:
            raise PipelineError(
                f"column {each.name!r} of the table {uri} can't be null, and archive has no value "
                "for it"
            )
    here = pa.schema(
        [(each.name, _small(each.type)) for each in found if each.name in wanted.names]
    )
    ours = pa.schema([(each.name, _small(each.type)) for each in wanted])
    changes = refused_changes(here, ours)
    if changes:
        raise PipelineError(
            f"the table {uri} has other columns: {'; '.join(changes)}. Columns may be added, but "
            "not change: keep the schema and the options, or use another table"
        )
    # What archive writes has at least the table's fields now.
    return _leaf_count(pa.struct(list(here))) < _leaf_count(pa.struct(list(ours)))


def _leaf_count(type_: pa.DataType) -> int:
    below = [type_.field(number).type for number in range(type_.num_fields)]
    return sum(map(_leaf_count, below)) if below else 1


def _small(type_: pa.DataType) -> pa.DataType:
    """The type with small offsets everywhere: tables know no small and large types."""
    if pa.types.is_struct(type_):
        return pa.struct([(each.name, _small(each.type)) for each in type_])
    if pa.types.is_map(type_):
        return pa.map_(_small(type_.key_type), _small(type_.item_type))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(_small(type_.value_type))
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_):
        return pa.binary()
    return type_
