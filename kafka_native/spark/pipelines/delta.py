"""Archives into a Delta table.

Each commit of ours sets two application transactions, which Delta's checkpoints keep for ever:

- the query's id, with the batch's number as its version: Spark's own sink does the same;
- ``kafka_native``, with a random number as its version. The file
  ``_kafka_native/states/NUMBER.json`` below the table has the `TableState` of this commit.

The file is written before the commit and never changed, so file and commit can't disagree. Delta
refuses a commit if another one has set the same application transaction meanwhile. So two drivers
never commit on the same state.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kafka_native.spark.folder import Folder, shown
from kafka_native.spark.pipelines.archive_target import checkpoint_below
from kafka_native.spark.pipelines.manifests import LOG, Manifest
from kafka_native.spark.pipelines.parquet import ParquetSettings
from kafka_native.spark.pipelines.session import PipelineError, now_ms
from kafka_native.spark.pipelines.table_target import (
    ConflictError,
    MergedFiles,
    TableState,
    TableTarget,
    check_partitions,
    lacks_columns,
    unit_of,
)
from kafka_native.spark.pipelines.table_writer import TableFile, TableLayout

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

__all__ = ["DeltaTarget"]

APP: Final = "kafka_native"
STATES: Final = f"{LOG}/states"
TIME_COLUMNS: Final = {
    "day": (pa.field("date", pa.date32()),),
    "hour": (pa.field("date", pa.date32()), pa.field("hour", pa.int32())),
}
"""The columns that a table has in addition if it is partitioned by time."""
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_READ_TRIES: Final = 20


class DeltaTarget(TableTarget):
    """A Delta table that `archive` writes to. It is made if it doesn't exist.

    :param uri: The table's folder or URI, with the same name on all executors.
    :param partition_by: What a new table is partitioned by: ``topic``, and ``day`` or ``hour``. By
        time the table has the column ``date``, and by hour also ``hour``, both in UTC. None: by
        topic and day, or as the table is.
    :param storage_options: Options of ``deltalake`` for the object store. The tasks write files
        with pyarrow, which has credentials from the environment.
    :raises ImportError: ``deltalake`` isn't installed.
    """

    def __init__(
        self,
        uri: str | os.PathLike[str],
        *,
        partition_by: Sequence[str] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Store the description. Nothing is read or made."""
        _check_installed()
        self._given = os.fspath(uri)
        super().__init__(shown(self._given), partition_by)
        self._options = dict(storage_options or {})
        self._table: DeltaTable | None = None
        self._columns: list[str] = []
        self._current: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what tasks need: neither the driver's table nor its credentials."""
        return {**super().__getstate__(), "_table": None, "_options": {}}

    def prepare(self) -> None:
        """Open the table, make it, or add the columns that it lacks.

        :raises PipelineError: The table can't take the records.
        """
        if not self._open():
            self._make()
            self._open()
        table = self._opened()
        self._columns = list(table.metadata().partition_columns)
        found = _partition_by(self.uri, self._columns)
        check_partitions(self.uri, found, self.partition_by)
        self._widen()
        names = [each for each in self.schema.names if each not in self._columns]
        self._layout = TableLayout(
            pa.schema([self.schema.field(each) for each in names]), unit_of(found)
        )
        self._place().make(STATES)

    def open(self) -> None:
        """Open the table for `merge_files()` and `delete_unused()`. It stays as it is.

        :raises PipelineError: It doesn't exist.
        """
        if not self._open():
            raise PipelineError(f"there is no table {self.uri}: archive makes one")
        self._columns = list(self._opened().metadata().partition_columns)

    def default_checkpoint(self) -> str:
        """The folder of Spark's checkpoint, below the table's folder, as a URI.

        :raises PipelineError: The table is on no local file system.
        """
        return checkpoint_below(Folder(self._given), f"the table {self.uri}")

    def state(self, *, refresh: bool = True) -> TableState:
        """Read the state of the table's newest version.

        :param refresh: Ask for the newest version; False: that of the last call.
        :raises PipelineError: The state's file is missing or damaged.
        """
        if self._table is None and not self._open():
            return TableState()  # the table doesn't exist
        for attempt in range(_READ_TRIES):
            number = self._current = self._number(refresh=refresh or attempt > 0)
            if number is None:
                return TableState()
            if self._parsed is not None and self._parsed[0] == number:
                return self._parsed[1]  # a state's file never changes
            name = f"{STATES}/{number}.json"
            try:
                self._parsed = number, TableState.from_json(self._place().read(name), name)
                return self._parsed[1]
            except FileNotFoundError:
                continue  # two commits since have replaced it
        raise PipelineError(f"the table {self.uri} has lost the file {name}, with its offsets")

    def merge_files(self, settings: ParquetSettings, before: str) -> MergedFiles:
        """Merge small data files, by ``deltalake``. By date if the table is partitioned by it."""
        from deltalake import WriterProperties

        compression: Any = {"none": "UNCOMPRESSED", "lz4": "LZ4_RAW"}.get(
            settings.compression, settings.compression.upper()
        )
        how = WriterProperties(compression=compression, compression_level=settings.level)
        with _errors_of(self.uri):
            done = self._opened().optimize.compact(
                partition_filters=[("date", "<", before)] if "date" in self._columns else None,
                target_size=settings.file_bytes,
                writer_properties=how,
            )
        removed = done["filesRemoved"]
        if isinstance(removed, str):
            removed = json.loads(removed)
        size = removed["totalSize"] if done["numFilesRemoved"] else 0
        return MergedFiles(done["numFilesRemoved"], done["numFilesAdded"], 0, size)

    def delete_unused(self, keep_s: float) -> int:
        """Write a checkpoint, clean up the log, vacuum the table, and delete unused states."""
        table = self._opened()
        self._delete_states(keep_s)
        with _errors_of(self.uri):
            table.create_checkpoint()
            table.cleanup_metadata()
            deleted = table.vacuum(
                retention_hours=math.ceil(keep_s / 3600),
                dry_run=False,
                enforce_retention_duration=False,
                full=True,
            )
        return len(deleted)

    def _commit(self, batch: Manifest, state: TableState) -> None:
        from deltalake import CommitProperties, Transaction

        folder, _ = self._prepared()
        table = self._opened()
        number, before = secrets.randbits(62), self._current
        content = {**json.loads(state.to_json()), "before": before}
        folder.write(f"{STATES}/{number}.json", content)
        properties = CommitProperties(
            custom_metadata=_note(batch),
            app_transactions=[Transaction(APP, number), Transaction(batch.query, batch.batch)],
        )
        files = [each for each in batch.files if isinstance(each, TableFile)]
        self._write(table, [self._action(each) for each in files], number, properties)
        self._parsed = number, state
        self._delete_state_before(before)
        if folder.is_local:
            folder.sync_file(f"_delta_log/{table.version():020d}.json")
            folder.sync("_delta_log")

    def _write(self, table: DeltaTable, actions: list[AddAction], number: int, how: Any) -> None:
        from deltalake.exceptions import CommitFailedError

        try:
            with _errors_of(self.uri, CommitFailedError):
                table.create_write_transaction(
                    list(actions),
                    "append",
                    table.schema(),
                    partition_by=self._columns,
                    commit_properties=how,
                )
        except CommitFailedError as error:
            if self._number() == number:
                return  # it was reported as failed, and has succeeded
            # The state's file stays: a request that is still on its way may commit it.
            raise ConflictError(str(error)) from error

    def _delete_state_before(self, number: int | None) -> None:
        """Delete the state before a state. The latter stays for readers that have its number."""
        folder = self._place()
        name = f"{STATES}/{number}.json"
        if number is not None and folder.exists(name):
            older = folder.content(name).get("before")
            if older is not None:
                folder.delete(f"{STATES}/{older}.json")

    def _delete_states(self, keep_s: float) -> None:
        """Delete old states of commits that have failed."""
        folder = self._place()
        self.state()
        kept = {f"{self._current}.json"}
        if self._current is not None:
            kept.add(f"{folder.content(f'{STATES}/{self._current}.json').get('before')}.json")
        for name in folder.names(STATES) - kept:
            [found] = folder.fs.get_file_info([folder.full(f"{STATES}/{name}")])
            if (found.mtime_ns or 0) < time.time_ns() - keep_s * 1e9:
                folder.delete(f"{STATES}/{name}")

    def _number(self, *, refresh: bool = True) -> int | None:
        """The number of the newest version's state; None: it has none."""
        table = self._opened()
        with _errors_of(self.uri):
            if refresh:
                table.update_incremental()
            return table.transaction_version(APP)

    def _place(self) -> Folder:
        if self._folder is None:
            self._folder = Folder(self._given)
        return self._folder

    def _opened(self) -> DeltaTable:
        if self._table is None:
            raise PipelineError(f"the table {self.uri} isn't open: call prepare() first")
        return self._table

    def _open(self) -> bool:
        """Open the table. False: it doesn't exist."""
        from deltalake import DeltaTable

        options = self._options or None
        with _errors_of(self.uri):
            if not DeltaTable.is_deltatable(self._given, options):
                return False
            self._table = DeltaTable(self._given, storage_options=options)
        return True

    def _make(self) -> None:
        from deltalake import DeltaTable, Schema

        self._place().make()
        chosen = ("topic", "day") if self.partition_by is None else self.partition_by
        unit = unit_of(chosen)
        columns = ["topic"] if "topic" in chosen else []
        columns += [each.name for each in TIME_COLUMNS.get(unit or "", ())]
        with _errors_of(self.uri):
            DeltaTable.create(
                self._given,
                schema=Schema.from_arrow(self._wanted(columns)),
                mode="ignore",
                partition_by=columns,
                storage_options=self._options or None,
            )

    def _wanted(self, columns: Sequence[str]) -> pa.Schema:
        """The table's columns, with those that it is partitioned by.

        :raises PipelineError: A field of the records has the name of such a column.
        """
        added = [each for each in TIME_COLUMNS["hour"] if each.name in columns]
        for each in added:
            if each.name in self.schema.names:
                raise PipelineError(
                    f"the table {self.uri} has its own column {each.name}, for its partitions, and "
                    f"the records have a field {each.name}: leave flatten out, or partition by "
                    "something else"
                )
        return pa.schema([*self.schema, *added])

    def _add_columns(self) -> None:
        from deltalake import write_deltalake
        from deltalake.exceptions import CommitFailedError

        table, wanted = self._opened(), self._wanted(self._columns)
        if not lacks_columns(self.uri, pa.schema(table.schema()), wanted):
            return
        try:
            with _errors_of(self.uri, CommitFailedError):  # no rows, so it adds no file
                write_deltalake(table, wanted.empty_table(), mode="append", schema_mode="merge")
        except CommitFailedError as error:
            with _errors_of(self.uri):
                table.update_incremental()
            raise ConflictError(str(error)) from error

    def _action(self, file: TableFile) -> AddAction:
        from deltalake.transaction import AddAction

        when = self._time(file)
        known: dict[str, str | None] = {
            "topic": file.topic,
            "date": None if when is None else when.date().isoformat(),
            "hour": None if when is None else str(when.hour),
        }
        return AddAction(
            path=file.path,
            size=file.bytes,
            partition_values={each: known[each] for each in self._columns},
            modification_time=now_ms(),
            data_change=True,
            stats=self._stats(file),
        )

    def _time(self, file: TableFile) -> datetime.datetime | None:
        """The begin of the file's day or hour; None: it has none, or a calendar doesn't have it."""
        _, layout = self._prepared()
        if file.time is None:
            return None
        hours = file.time * (24 if layout.unit == "day" else 1)
        try:
            return _EPOCH + datetime.timedelta(hours=hours)
        except OverflowError:
            return None

    def _stats(self, file: TableFile) -> str:
        _, layout = self._prepared()
        limits: dict[str, dict[str, Any]] = {"min": {}, "max": {}}
        for name, each in file.stats.items():
            for kind, found in limits.items():
                value = _value(each.get(kind), layout.schema.field(name).type)
                if value is not None:
                    found[name] = value
        nulls = {name: each["nulls"] for name, each in file.stats.items() if "nulls" in each}
        content = {
            "numRecords": file.records,
            "minValues": limits["min"],
            "maxValues": limits["max"],
            "nullCount": nulls,
        }
        return json.dumps(content)


def _value(number: int | None, type_: pa.DataType) -> int | str | None:
    """A statistic as Delta writes it; None: unknown."""
    if number is None:
        return None
    if pa.types.is_integer(type_):
        return number
    if pa.types.is_timestamp(type_):
        try:
            when = _EPOCH + datetime.timedelta(microseconds=number)
        except OverflowError:
            return None
        return when.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return None


def _note(batch: Manifest) -> dict[str, Any]:
    """What the table's history shows of a batch."""
    ranges = [f"{each.topic} [{each.partition}] {each.start}-{each.end}" for each in batch.ranges]
    return {
        "kafka.query": batch.query,
        "kafka.batch": str(batch.batch),
        "kafka.ranges": ", ".join(ranges),
        "kafka.skipped": str(batch.skipped_offsets),
    }


def _partition_by(uri: str, columns: Sequence[str]) -> tuple[str, ...]:
    """What a table is partitioned by, in our words.

    :raises PipelineError: By something else.
    """
    forms = {
        (*topic, *time): tuple(name)
        for topic in ((), ("topic",))
        for time, unit in (((), ()), (("date",), ("day",)), (("date", "hour"), ("hour",)))
        for name in [(*topic, *unit)]
    }
    found = forms.get(tuple(columns))
    if found is None:
        raise PipelineError(
            f"the table {uri} is partitioned by {', '.join(columns)}, and archive can do that by "
            "topic, date, and hour after date: use another table"
        )
    return found


def _check_installed() -> None:
    try:
        import deltalake  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "Delta tables need deltalake: pip install 'kafka-native[delta]'"
        ) from error


@contextmanager
def _errors_of(uri: str, *passing: type[Exception]) -> Iterator[None]:
    """Raise Delta's errors as ours, but for some of them."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except passing:
        raise
    except (DeltaError, OSError) as error:
        raise PipelineError(f"the table {uri}: {error}") from error
