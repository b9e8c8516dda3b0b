"""The names of tables, as commands have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_native.spark.folder import shown
from kafka_native.spark.pipelines.delta import DeltaTarget
from kafka_native.spark.pipelines.iceberg import IcebergTarget
from kafka_native.spark.pipelines.session import PipelineError
from kafka_native.spark.pipelines.table_target import TableTarget

__all__ = ["table_target"]


def table_target(
    name: str,
    *,
    partition_by: Sequence[str] | None = None,
    options: Mapping[str, str] | None = None,
) -> TableTarget:
    """Return the table that a name means. Nothing is read or made.

    :param name: ``delta:`` and a folder or URI, or ``iceberg:CATALOG/ns.table``.
    :param partition_by: What a new table is partitioned by: ``topic``, and ``day`` or ``hour``.
        None: by topic and day.
    :param options: Options of ``deltalake`` for the object store, or PyIceberg's properties of the
        catalog.
    :raises PipelineError: The name has another form.
    :raises ImportError: The table's package isn't installed.
    """
    kind, _, rest = name.partition(":")
    if kind == "delta" and rest:
        return DeltaTarget(rest, partition_by=partition_by, storage_options=options)
    catalog, _, table = rest.partition("/")
    if kind == "iceberg" and catalog and "." in table:
        return IcebergTarget(catalog, table, partition_by=partition_by, catalog_options=options)
    raise PipelineError(f"table {shown(name)!r}: write delta:URI or iceberg:CATALOG/ns.table")
