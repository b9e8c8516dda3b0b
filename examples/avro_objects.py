"""Reads the Avro values of a topic as dataclasses."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass
from uuid import uuid4

from kafka_native import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka_native.codecs import AvroReader, DecodeError

TOPIC = f"example-avro-objects-{uuid4().hex[:8]}"
BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "note", "type": ["null", "string"]},
        {
            "name": "items",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Item",
                    "fields": [
                        {"name": "name", "type": "string"},
                        {"name": "count", "type": "int"},
                    ],
                },
            },
        },
    ],
}
RECORDS = [b"\x02\x02\x00\x04\x06tea\x04\x08milk\x02\x00", b"\x04\x00\x02\x04hi\x00", b"\x06\x09"]


class State(enum.Enum):
    """The state of an order."""

    NEW = "NEW"
    PAID = "PAID"


@dataclass
class Item:
    """A line of an order."""

    name: str
    count: int


@dataclass
class Order:
    """An order. It has no field for the note, so notes are skipped."""

    id: int
    state: State
    items: list[Item]


def main() -> None:
    """Produce three records, the last one malformed, and read them as objects."""
    with Producer({"bootstrap.servers": BOOTSTRAP}) as producer:
        for record in RECORDS:
            producer.produce(TOPIC, record, partition=0)
    orders = AvroReader(SCHEMA, type=Order)
    with Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": TOPIC}) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        for message in consumer.consume(len(RECORDS), timeout=10):
            try:
                print(orders.read(message.value()))
            except DecodeError as error:
                print(f"offset {message.offset()}: {error}")


if __name__ == "__main__":
    main()
