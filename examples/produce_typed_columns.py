"""Encodes the rows of a typed table as Avro records, and produces them.

Needs `pip install 'kafka-native[arrow]'`.
"""

from __future__ import annotations

import os
from uuid import uuid4

import pyarrow

from kafka_native import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka_native.codecs import AvroDecoder, AvroEncoder, EncodeError

TOPIC = f"example-typed-{uuid4().hex[:8]}"
BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
COUNT = 10_000
SCHEMA = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "sensor", "type": "string"},
        {"name": "degrees", "type": ["null", "float"]},
        {"name": "place", "type": "string", "default": "unknown"},
    ],
}


def main() -> None:
    """Produce a table, read it back, and show how a value that doesn't fit is refused."""
    table = pyarrow.table(
        {
            "sensor": [f"sensor {number % 3}" for number in range(COUNT)],
            "degrees": pyarrow.array([number % 40 for number in range(COUNT)], pyarrow.int32()),
        }
    )
    encoder = AvroEncoder(SCHEMA)
    with Producer({"bootstrap.servers": BOOTSTRAP}) as producer:
        queued = producer.produce_arrow(TOPIC, encoder.encode(table), partition=0)
        print(f"{queued} records queued")
    with Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": TOPIC}) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        batch = pyarrow.table(consumer.consume_arrow(1, timeout=10, columns=["value"]))
    print(pyarrow.array(AvroDecoder(SCHEMA).decode(batch["value"])).to_pylist()[0])
    try:
        encoder.encode(table.set_column(0, "sensor", pyarrow.nulls(COUNT, pyarrow.string())))
    except EncodeError as error:
        print(f"refused: {error}")


if __name__ == "__main__":
    main()
