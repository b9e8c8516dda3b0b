"""Decodes the Avro values of a topic into typed Arrow columns.

Needs `pip install 'kafka-native[arrow]'`.
"""

from __future__ import annotations

import os
from uuid import uuid4

import pyarrow
import pyarrow.compute

from kafka_native import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka_native.codecs import AvroDecoder

TOPIC = f"example-avro-{uuid4().hex[:8]}"
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


def encode(sensor: str, degrees: int) -> bytes:
    """Return a record. The numbers here are small: each is one byte, doubled."""
    return bytes([2 * len(sensor)]) + sensor.encode() + bytes([2, 2 * degrees])


def main() -> None:
    """Produce records, read their bytes as a column, and decode the column."""
    with Producer({"bootstrap.servers": BOOTSTRAP}) as producer:
        for number in range(COUNT):
            producer.produce(TOPIC, encode(f"sensor {number % 3}", number % 40), partition=0)
    with Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": TOPIC}) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        batch = pyarrow.table(consumer.consume_arrow(COUNT, timeout=10, columns=["value"]))
    column = AvroDecoder(SCHEMA).decode(batch["value"])
    table = pyarrow.Table.from_struct_array(pyarrow.array(column))
    print(f"{table.num_rows} rows: {table.schema.names}")
    hottest = table.group_by("sensor").aggregate([("degrees", "max")]).sort_by("sensor")
    print(hottest.slice(0, 1).to_pylist()[0])


if __name__ == "__main__":
    main()
