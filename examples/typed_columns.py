"""Reads a topic of Avro values with a schema registry as typed columns, into polars.

Needs `pip install 'kafka-native[registry]' polars`.
"""

from __future__ import annotations

import json
import os
import struct
from uuid import uuid4

import polars

from kafka_native import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka_native.codecs import Avro
from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import Schema, SchemaRegistryClient

TOPIC = f"example-typed-{uuid4().hex[:8]}"
BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
COUNT = 1000
SCHEMA = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "sensor", "type": "string"},
        {"name": "degrees", "type": ["null", "int"]},
    ],
}


def encode(schema_id: int, sensor: str, degrees: int) -> bytes:
    """Return a record with its schema's id. AvroSerializer does it for any schema."""
    record = bytes([2 * len(sensor)]) + sensor.encode() + bytes([2, 2 * degrees])
    return struct.pack(">bI", 0, schema_id) + record


def main() -> None:
    """Register a schema, produce records, and read them as columns."""
    with MockSchemaRegistry() as registry, SchemaRegistryClient({"url": registry.url}) as client:
        schema_id = client.register_schema(f"{TOPIC}-value", Schema(json.dumps(SCHEMA)))
        with Producer({"bootstrap.servers": BOOTSTRAP}) as producer:
            for number in range(COUNT):
                value = encode(schema_id, f"sensor {number % 3}", number % 40)
                producer.produce(TOPIC, value, partition=0)
            producer.produce(TOPIC, b"not Avro", partition=0)
        with Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": TOPIC}) as consumer:
            consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
            batch = consumer.consume_arrow(
                COUNT + 1,
                timeout=60,
                columns=["offset", "value"],
                value=Avro(client),
                on_error="split",
                flatten=True,
            )
    frame = polars.DataFrame(batch)
    print(f"{frame.height} rows: {frame.columns}")
    print(frame.group_by("sensor").agg(polars.col("degrees").max()).sort("sensor").row(0))
    malformed = polars.DataFrame(batch.malformed)
    print(malformed.select("offset", "error").row(0))


if __name__ == "__main__":
    main()
