"""Archives into an Iceberg table.

Each commit of ours is one snapshot, and sets the table's property ``kafka_native.state`` in the
same step: the `TableState`. Properties stay when snapshots expire. The snapshot's own properties
show the query, the batch and its ends to people.

A commit names the snapshot on which it is based, so the catalog refuses it if there is a newer one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kafka_native.spark.folder import Folder
from kafka_native.spark.pipelines.iceberg_files import Merger, delete_unused, partition_columns
from kafka_native.spark.pipelines.manifests import Manifest
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
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

__all__ = ["IcebergTarget"]

STATE: Final = "kafka_native.state"
"""The table's property with the state."""
_PROPERTIES: Final = {
    # Without these, each commit adds a manifest and a file with metadata for ever.
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
}
"""The properties of a new table."""
_FIELD_ID: Final = b"PARQUET:field_id"


class IcebergTarget(TableTarget):
    """An Iceberg table that `archive` writes to. It is made if it doesn't exist.

    :param catalog: The catalog's name in PyIceberg's configuration (``.pyiceberg.yaml``, or
        ``PYICEBERG_...`` in the environment).
    :param table: The table's name with its namespace: ``ns.table``.
    :param partition_by: What a new table is partitioned by: ``topic``, and ``day`` or ``hour`` of
        ``timestamp``, as hidden partitions. None: by topic and day, or as the table is.
    :param catalog_options: PyIceberg's properties of the catalog. They override its configuration.
    :raises ImportError: ``pyiceberg`` isn't installed.
    """

    def __init__(
        self,
        catalog: str,
        table: str,
        *,
        partition_by: Sequence[str] | None = None,
        catalog_options: Mapping[str, str] | None = None,
    ) -> None:
        """Store the description. Nothing is read or made."""
        _check_installed()
        super().__init__(f"{catalog}/{table}", partition_by)
        self._catalog_name = catalog
        self._name = table
        self._options = dict(catalog_options or {})
        self._table: Table | None = None
        self._data = ""
        self._spec_id = -1

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what tasks need: neither the driver's table nor the catalog's credentials."""
        return {**super().__getstate__(), "_table": None, "_options": {}}

    def prepare(self) -> None:
        """Open the table, make it, or add the columns that it lacks.

        :raises PipelineError: The table can't take the records.
        """
        with _errors_of(self.uri):
            if not self._open():
                self._make()
                self._open()
        table = self._opened()
        lacks_columns(self.uri, _columns(table), self.schema)  # checks the others
        found = _partition_by(self.uri, table)
        check_partitions(self.uri, found, self.partition_by)
        self._widen()
        self._layout = TableLayout(_with_field_ids(self.schema, table), unit_of(found))
        self._spec_id = table.spec().spec_id
        self._find_data(table)

    def _add_columns(self) -> None:
        from pyiceberg.exceptions import CommitFailedException

        table = self._opened()
        if not lacks_columns(self.uri, _columns(table), self.schema):
            return
        try:
            with _errors_of(self.uri, CommitFailedException), table.update_schema() as update:
                update.union_by_name(self.schema)
        except CommitFailedException as error:
            with _errors_of(self.uri):
                table.refresh()
            raise ConflictError(str(error)) from error

    def open(self) -> None:
        """Open the table for `merge_files()` and `delete_unused()`. It stays as it is.

        :raises PipelineError: It doesn't exist, or isn't one of `archive`.
        """
        with _errors_of(self.uri):
            if not self._open():
                raise PipelineError(f"there is no table {self.uri}: archive makes one")
        table = self._opened()
        lacks_columns(self.uri, _columns(table), _columns(table))
        _partition_by(self.uri, table)
        self._find_data(table)

    def _find_data(self, table: Table) -> None:
        self._data = table.properties.get("write.data.path", f"{table.location()}/data")
        self._folder = _folder(table, self._data)

    def default_checkpoint(self) -> str:
        """Raise an error: a catalog's tables may be anywhere.

        :raises PipelineError: Always.
        """
        raise PipelineError(
            f"the table {self.uri} is in a catalog: say where Spark shall keep its checkpoint"
        )

    def state(self, *, refresh: bool = True) -> TableState:
        """Read the state of the table's newest version.

        :param refresh: Ask for the newest version; False: that of the last call.
        :raises PipelineError: The state is damaged, or the catalog can't be reached.
        """
        with _errors_of(self.uri):
            if self._table is None and not self._open():
                return TableState()  # the table doesn't exist
            table = self._opened()
            text = (table.refresh() if refresh else table).properties.get(STATE)
        if text is None:
            return TableState()
        if self._parsed is None or self._parsed[0] != text:
            self._parsed = text, TableState.from_json(text, STATE)
        return self._parsed[1]

    def _commit(self, batch: Manifest, state: TableState) -> None:
        from pyiceberg.exceptions import CommitFailedException

        table = self._opened()
        if table.spec().spec_id != self._spec_id:
            raise PipelineError(
                f"the table {self.uri} has other partitions since this run began: start it again"
            )
        # PyIceberg would repeat a refused commit with the old state. This changes only the copy of
        # the properties in memory.
        table.properties["commit.retry.num-retries"] = "0"
        try:
            with _errors_of(self.uri, CommitFailedException), table.transaction() as transaction:
                transaction.set_properties({STATE: state.to_json()})
                snapshot = transaction.update_snapshot(snapshot_properties=_note(batch))
                with snapshot.merge_append() as append:
                    for each in batch.files:
                        if isinstance(each, TableFile):
                            append.append_data_file(self._data_file(table, each))
        except CommitFailedException as error:
            raise ConflictError(str(error)) from error

    def merge_files(self, settings: ParquetSettings, before: str) -> MergedFiles:
        """Merge small data files of ours. Each merge is an overwrite, and a snapshot."""
        with _errors_of(self.uri):
            merger = Merger(self._opened(), self._place(), self._data, settings, self._data_file)
            return merger.merge(before)

    def delete_unused(self, keep_s: float) -> int:
        """Expire old snapshots, and delete our files that no snapshot lists."""
        with _errors_of(self.uri):
            before_ms = now_ms() - int(keep_s * 1000)
            return delete_unused(self._opened().refresh(), self._place(), self._data, before_ms)

    def _place(self) -> Folder:
        if self._folder is None:
            raise PipelineError(f"the table {self.uri} isn't open: call open() first")
        return self._folder

    def _data_file(self, table: Table, file: TableFile) -> DataFile:
        from pyiceberg.conversions import to_bytes
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
        from pyiceberg.typedef import Record
        from pyiceberg.types import PrimitiveType

        sizes, counts, nulls = {}, {}, {}
        limits: dict[str, dict[int, bytes]] = {"min": {}, "max": {}}
        for name, each in file.stats.items():
            column = table.schema().find_field(name)
            sizes[column.field_id] = each["bytes"]
            counts[column.field_id] = each["values"]
            if "nulls" in each:
                nulls[column.field_id] = each["nulls"]
            for kind, found in limits.items():
                if kind in each and isinstance(column.field_type, PrimitiveType):
                    found[column.field_id] = to_bytes(column.field_type, each[kind])
        partition = [
            file.topic if each == "topic" else file.time for each in partition_columns(table)
        ]
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{self._data}/{file.path}",
            file_format=FileFormat.PARQUET,
            partition=Record(*partition),
            record_count=file.records,
            file_size_in_bytes=file.bytes,
            column_sizes=sizes,
            value_counts=counts,
            null_value_counts=nulls,
            nan_value_counts={},
            lower_bounds=limits["min"],
            upper_bounds=limits["max"],
            key_metadata=None,
            split_offsets=None,
            equality_ids=None,
            sort_order_id=None,
            spec_id=table.spec().spec_id,
        )

    def _catalog(self) -> Catalog:
        from pyiceberg.catalog import load_catalog

        return load_catalog(self._catalog_name, **self._options)

    def _open(self) -> bool:
        """Open the table. False: it doesn't exist."""
        from pyiceberg.exceptions import NoSuchTableError

        try:
            self._table = self._catalog().load_table(self._name)
        except NoSuchTableError:
            return False
        return True

    def _make(self) -> None:
        from pyiceberg.exceptions import TableAlreadyExistsError

        catalog = self._catalog()
        namespace, dot, _ = self._name.rpartition(".")
        if dot:
            catalog.create_namespace_if_not_exists(namespace)
        chosen = ("topic", "day") if self.partition_by is None else self.partition_by
        try:
            with (
                catalog.create_table_transaction(
                    self._name, self.schema, properties=_PROPERTIES
                ) as transaction,
                transaction.update_spec() as spec,
            ):
                if "topic" in chosen:
                    spec.add_field("topic", "identity", "topic")
                unit = unit_of(chosen)
                if unit is not None:
                    spec.add_field("timestamp", unit, f"timestamp_{unit}")
        except TableAlreadyExistsError:
            return  # another program was faster

    def _opened(self) -> Table:
        if self._table is None:
            raise PipelineError(f"the table {self.uri} isn't open: call prepare() first")
        return self._table


def _columns(table: Table) -> pa.Schema:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(table.schema(), include_field_ids=False)


def _partition_by(uri: str, table: Table) -> tuple[str, ...]:
    """What a table is partitioned by, in our words.

    :raises PipelineError: By something else.
    """
    names = {
        ("topic", "identity"): "topic",
        ("timestamp", "day"): "day",
        ("timestamp", "hour"): "hour",
    }
    found = []
    for column, each in zip(partition_columns(table), table.spec().fields, strict=True):
        name = names.get((column, str(each.transform)))
        if name is None:
            raise PipelineError(
                f"the table {uri} is partitioned by {each.name}, {each.transform}, and archive can "
                "do that by topic, and by day or hour of timestamp: use another table"
            )
        found.append(name)
    return tuple(found)


def _folder(table: Table, location: str) -> Folder:
    """The folder of a table's data, with PyIceberg's file system if it is pyarrow's."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    if not isinstance(table.io, PyArrowFileIO):
        return Folder(location)
    scheme, host, path = PyArrowFileIO.parse_location(location, table.io.properties)
    if scheme == "file":
        return Folder(path)
    return Folder(path, filesystem=table.io.fs_by_scheme(scheme, host))


def _with_field_ids(schema: pa.Schema, table: Table) -> pa.Schema:
    """Columns with the ids of a table's fields, which are names for Iceberg's readers."""
    found = table.schema()
    return pa.schema([_with_field_id(each, found.find_field(each.name)) for each in schema])


def _with_field_id(mine: pa.Field, its: Any) -> pa.Field:
    type_ = mine.type
    if pa.types.is_struct(type_):
        parts = {each.name: each for each in its.field_type.fields}
        type_ = pa.struct([_with_field_id(each, parts[each.name]) for each in type_])
    elif pa.types.is_list(type_):
        type_ = pa.list_(_with_field_id(type_.value_field, its.field_type.element_field))
    elif pa.types.is_map(type_):
        type_ = pa.map_(
            _with_field_id(type_.key_field, its.field_type.key_field),
            _with_field_id(type_.item_field, its.field_type.value_field),
        )
    return pa.field(mine.name, type_, mine.nullable, {_FIELD_ID: str(its.field_id).encode()})


def _note(batch: Manifest) -> dict[str, str]:
    """What the table's history shows of a batch."""
    ends: dict[str, dict[str, int]] = {}
    for each in sorted(batch.planned, key=lambda range_: range_.end):
        ends.setdefault(each.topic, {})[str(each.partition)] = each.end
    return {
        "kafka_native.query": batch.query,
        "kafka_native.batch": str(batch.batch),
        "kafka_native.ends": json.dumps(ends, separators=(",", ":")),
        "kafka_native.topic-ids": json.dumps(dict(batch.topic_ids), separators=(",", ":")),
        "kafka_native.skipped": str(batch.skipped_offsets),
    }


def _check_installed() -> None:
    try:
        import pyiceberg  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "Iceberg tables need pyiceberg: pip install 'kafka-native[iceberg]'"
        ) from error


@contextmanager
def _errors_of(uri: str, *passing: type[Exception]) -> Iterator[None]:
    """Raise PyIceberg's errors as ours, but for some of them. They have no common base class."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (PipelineError, *passing)):
            raise
        raise PipelineError(f"the table {uri}: {str(error) or type(error).__name__}") from error
