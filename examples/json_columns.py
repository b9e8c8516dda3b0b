"""Writes typed Arrow columns as the JSON values of a topic, and reads them back.

Needs `pip install 'kafka-native[arrow]'`.
"""

from __future__ import annotations

import os
from uuid import uuid4

import pyarrow
import pyarrow.compute

from kafka_native import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka_native.codecs import JsonDecoder, JsonEncoder

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
    """Encode a table, read the records' bytes as a column, and decode the column."""
    readings = pyarrow.table(
        {
            "sensor": [["cellar", "roof"][number % 2] for number in range(COUNT)],
            "degrees": [number % 40 / 2 for number in range(COUNT)],
        }
    )
    records = JsonEncoder(SCHEMA).encode(readings)
    with Producer({"bootstrap.servers": BOOTSTRAP}) as producer:
        producer.produce_arrow(TOPIC, records, partition=0)
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
