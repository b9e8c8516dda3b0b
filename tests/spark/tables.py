"""Common parts of the tests of archives into tables: tables of each format, and a driver's run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from kafka_native.spark.options import SourceOptions
from kafka_native.spark.pipelines import ParquetSettings
from kafka_native.spark.pipelines.archive import _Run
from kafka_native.spark.pipelines.delta import DeltaTarget
from kafka_native.spark.pipelines.iceberg import IcebergTarget
from kafka_native.spark.pipelines.table_target import TABLE_SCHEMA, TableTarget
from kafka_native.spark.pipelines.table_writer import DATA
from tests.spark.lakes import FakeFrame

PARTITIONS = 3


class Tables(ABC):
    """Makes targets of one table, and reads it as other programs do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def target(self, **more: Any) -> TableTarget:
        """Return a new target of the table."""

    @abstractmethod
    def read(self) -> pa.Table:
        """Return all records."""

    @abstractmethod
    def columns(self) -> list[str]:
        """Return the names of the table's columns."""

    @abstractmethod
    def listed(self) -> set[Path]:
        """Return the data files that the table lists."""

    @property
    @abstractmethod
    def data(self) -> Path:
        """Return the folder of our data files."""


class DeltaTables(Tables):
    @property
    def table(self) -> Path:
        return self.folder / "table"

    @property
    def data(self) -> Path:
        return self.table / DATA

    def target(self, **more: Any) -> DeltaTarget:
        return DeltaTarget(self.table, **more)

    def columns(self) -> list[str]:
        return [each.name for each in DeltaTable(self.table).schema().fields]

    def read(self) -> pa.Table:
        return pa.table(DeltaTable(self.table).to_pyarrow_table())

    def listed(self) -> set[Path]:
        return {Path(each.removeprefix("file://")) for each in DeltaTable(self.table).file_uris()}


class IcebergTables(Tables):
    @property
    def options(self) -> dict[str, str]:
        where = {"uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": f"file://{self.folder}"}
        return {"type": "sql", **where}

    @property
    def data(self) -> Path:
        return self.folder / "ns" / "orders" / "data" / DATA

    def target(self, **more: Any) -> IcebergTarget:
        return IcebergTarget("local", "ns.orders", catalog_options=self.options, **more)

    def open(self) -> Table:
        return load_catalog("local", **self.options).load_table("ns.orders")

    def columns(self) -> list[str]:
        return list(self.open().schema().column_names)

    def read(self) -> pa.Table:
        """Return all records. PyIceberg itself reads a missing list of structs as an empty one."""
        files = [pq.ParquetFile(each).read() for each in sorted(self.listed())]
        return pa.concat_tables(files or [TABLE_SCHEMA.empty_table()], promote_options="default")

    def listed(self) -> set[Path]:
        tasks = self.open().scan().plan_files()
        return {Path(each.file.file_path.removeprefix("file://")) for each in tasks}


class NoCounter:
    def add(self, records: int, size_bytes: int) -> None:
        pass


def run_of(target: TableTarget, bootstrap: str, overlap: Any = "error", **more: Any) -> _Run:
    target.prepare()
    settings = ParquetSettings(**more.pop("settings", {}))
    given = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": "orders",
        "rows": "ranges",
        **more,
    }
    options = SourceOptions.parse(given)
    return _Run(target, options, settings, overlap, NoCounter())  # type: ignore[arg-type]


def frame(start: int, end: int, query: str = "query", **more: Any) -> Any:
    """Return a batch with the same offsets of all partitions."""
    return FakeFrame([("orders", each, start, end) for each in range(PARTITIONS)], query, **more)


def offsets(table: pa.Table) -> Counter[tuple[str, int, int]]:
    columns = table.select(["topic", "partition", "offset"]).to_pydict()
    return Counter(zip(columns["topic"], columns["partition"], columns["offset"], strict=True))


def data_files(tables: Tables) -> set[Path]:
    return set(tables.data.glob("**/*.parquet"))
