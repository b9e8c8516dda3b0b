"""An archive of Avro records as typed Parquet files: a bad record, a newer schema, and DuckDB.

Needs `pip install 'kafka-native[spark,registry]' duckdb` and Java 17.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from uuid import uuid4

import duckdb
import pyarrow

from kafka_native import Producer
from kafka_native.codecs import Avro
from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import Schema, SchemaRegistryClient
from kafka_native.spark.pipelines import Lake, archive

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
TOPIC = f"example-readings-{uuid4().hex[:8]}"
FIELDS = [{"name": "sensor", "type": "string"}, {"name": "degrees", "type": "double"}]
SCHEMA = json.dumps({"type": "record", "name": "Reading", "fields": FIELDS})
ROOM = {"name": "room", "type": "string", "default": ""}
NEWER = json.dumps({"type": "record", "name": "Reading", "fields": [*FIELDS, ROOM]})


def produce(registry_url: str, schema: str, rows: pyarrow.Table, *bad: bytes) -> None:
    """Produce rows with a schema, and records that aren't Avro."""
    with (
        Avro(registry_url, schema=schema) as avro,
        Producer({"bootstrap.servers": BOOTSTRAP}) as producer,
    ):
        producer.produce_arrow(TOPIC, rows, value=avro)
        for value in bad:
            producer.produce(TOPIC, value)
        producer.flush()


def run(registry_url: str, folder: str, **more: str) -> None:
    """Archive all available records. Bad ones go to a folder of their own."""
    options = {
        "value.format": "avro",
        "schema.registry.url": registry_url,
        "deadLetters": f"{folder}/dead",
        **more,
    }
    config = {"bootstrap.servers": BOOTSTRAP}
    result = archive(config, f"{folder}/lake", topics=[TOPIC], master="local[2]", options=options)
    print(f"archived: {result.records}, dead letters: {result.left_out}")


def main() -> None:
    """Archive, move to a newer schema, and query the files."""
    logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.WARNING)
    readings = pyarrow.table({"sensor": ["a", "b", "a"], "degrees": [20.5, 18.0, 21.5]})
    newer = readings.append_column("room", pyarrow.array(["attic", "hall", "attic"]))
    with MockSchemaRegistry() as registry, tempfile.TemporaryDirectory() as folder:
        produce(registry.url, SCHEMA, readings, b"not Avro")
        run(registry.url, folder)
        with SchemaRegistryClient({"url": registry.url}) as client:
            client.register_schema(f"{TOPIC}-value", Schema(NEWER))
        produce(registry.url, NEWER, newer)
        run(registry.url, folder, **{"value.schema.upgrade": "true"})

        lake = Lake(f"{folder}/lake")
        query = f"""
            select value.sensor, avg(value.degrees), count(value.room)
            from read_parquet({lake.paths()}, union_by_name=true) group by 1 order by 1
        """
        for sensor, degrees, rooms in duckdb.sql(query).fetchall():
            print(f"sensor {sensor}: {degrees:.1f} degrees, {rooms} with a room")
        print("fields:", [each.name for each in lake.dataset().schema.field("value").type])


if __name__ == "__main__":
    main()
