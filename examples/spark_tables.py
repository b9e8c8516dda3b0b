"""Copies a topic into a Delta table, exactly once, and reads the table without Spark.

Needs `pip install 'kafka-native[spark,delta]' duckdb` and Java 17.
"""

from __future__ import annotations

import os
import tempfile
from uuid import uuid4

import duckdb
from deltalake import DeltaTable

from kafka_native import Producer
from kafka_native.spark.pipelines import DeltaTarget, archive

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
TOPIC = f"example-tables-{uuid4().hex[:8]}"
CONFIG = {"bootstrap.servers": BOOTSTRAP}


def produce(count: int) -> None:
    """Produce some orders."""
    with Producer(CONFIG) as producer:
        for number in range(count):
            producer.produce(TOPIC, f"order {number}", key=f"customer {number % 3}")


def main() -> None:
    """Archive twice: the second run goes on where the first one has ended."""
    with tempfile.TemporaryDirectory() as folder:
        table = DeltaTarget(folder, partition_by=["topic", "day"])
        for count in (100, 20):
            produce(count)
            print("archived:", archive(CONFIG, table, topics=[TOPIC], master="local[2]").records)
        orders = DeltaTable(folder).to_pyarrow_dataset()
        query = "select decode(key), count(*) from orders group by all order by all"
        for key, records in duckdb.sql(query).fetchall():
            print(f"{key}: {records} records")
        print("next offset:", sum(table.ends().values()))
        print("columns:", ", ".join(orders.schema.names))


if __name__ == "__main__":
    main()
