"""Decodes the JSON values of a topic into typed Arrow columns."""

from __future__ import annotations

import json
import os
from uuid import uuid4

import pyarrow
import pyarrow.compute

from kafka_native import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka_native.codecs import JsonDecoder

TOPIC = f"example-json-{uuid4().hex[:8]}"
BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
COUNT = 1000
SCHEMA = {
    "type": "object",
    "properties": {
        "sensor": {"enum": ["cellar", "roof"]},
        "degrees": {"type": ["number", "null"]},
        "at": {"type": "string", "format": "date-time"},
    },
    "required": ["sensor"],
}


def main() -> None:
    """Produce records, read their bytes as a column, and decode the column."""
    with Producer({"bootstrap.servers": BOOTSTRAP}) as producer:
        for number in range(COUNT):
            reading = {"sensor": ["cellar", "roof"][number % 2], "degrees": number % 40 / 2}
            producer.produce(TOPIC, json.dumps(reading).encode(), partition=0)
    with Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": TOPIC}) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        batch = pyarrow.table(consumer.consume_arrow(COUNT, timeout=10, columns=["value"]))
    column = JsonDecoder(SCHEMA, fields=["sensor", "degrees"]).decode(batch["value"])
    table = pyarrow.Table.from_struct_array(pyarrow.array(column))
    print(f"{table.num_rows} rows: {table.schema.names}")
    print(f"hottest: {pyarrow.compute.max(table['degrees']).as_py()}")
    guessed = JsonDecoder.infer(batch["value"], record_count=10)
    print(f"inferred: {pyarrow.array(guessed.decode([None])).type}")


if __name__ == "__main__":
    main()
