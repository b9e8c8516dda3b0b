"""Copies a topic into a Delta table and an Iceberg table, exactly once, and reads both.

Needs `pip install 'kafka-native[spark,delta,iceberg]' 'pyiceberg[sql-sqlite]' duckdb` and Java 17.
"""

from __future__ import annotations

import os
import tempfile
from uuid import uuid4

import duckdb
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from kafka_native import Producer
from kafka_native.spark.pipelines import DeltaTarget, IcebergTarget, TableTarget, archive, maintain

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
TOPIC = f"example-tables-{uuid4().hex[:8]}"
CONFIG = {"bootstrap.servers": BOOTSTRAP}


def produce(count: int) -> None:
    """Produce some orders."""
    with Producer(CONFIG) as producer:
        for number in range(count):
            producer.produce(TOPIC, f"order {number}", key=f"customer {number % 3}")


def run(table: TableTarget, checkpoint: str) -> None:
    """Archive what is there. A later run with the same checkpoint goes on."""
    done = archive(CONFIG, table, topics=[TOPIC], master="local[2]", checkpoint=checkpoint)
    kind = type(table).__name__
    print(f"{kind}: {done.records} records, next offset {sum(table.ends().values())}")


def main() -> None:
    """Archive twice into each table, merge small files, and read."""
    with tempfile.TemporaryDirectory() as folder:
        catalog = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }
        delta = DeltaTarget(f"{folder}/delta", partition_by=["topic", "day"])
        iceberg = IcebergTarget("local", "sales.orders", catalog_options=catalog)
        for count in (100, 20):
            produce(count)
            run(delta, f"{folder}/state/delta")
            run(iceberg, f"{folder}/state/iceberg")
        print("merged:", maintain(delta, before="2100-01-01").merged, "files")

        orders = DeltaTable(f"{folder}/delta").to_pyarrow_dataset()
        query = "select decode(key), count(*) from orders group by all order by all"
        for key, records in duckdb.sql(query).fetchall():
            print(f"{key}: {records} records")
        print("columns:", ", ".join(orders.schema.names))

        table = load_catalog("local", **catalog).load_table("sales.orders")
        newest = table.scan(row_filter="offset >= 100", selected_fields=("offset",)).to_arrow()
        print("Iceberg, from offset 100:", newest.num_rows)


if __name__ == "__main__":
    main()
