"""Produces a typed table as Protobuf messages with a schema registry, and reads it back.

Needs `pip install 'kafka-native[registry,protobuf]' polars`.
"""

from __future__ import annotations

import os
from uuid import uuid4

import polars

from kafka_native import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka_native.codecs import Protobuf, SchemaError
from kafka_native.mock import MockSchemaRegistry

TOPIC = f"example-protobuf-{uuid4().hex[:8]}"
BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
SCHEMA = """
syntax = "proto3";
package sensors;

message Place { string city = 1; }
message Reading {
  string sensor = 1;
  optional double degrees = 2;
  Place place = 3;
}
"""
FRAME = polars.DataFrame(
    {
        "sensor": ["a", "b"],
        "degrees": [21.5, None],
        "place": [{"city": "Bern"}, {"city": "Basel"}],
    }
)


def main() -> None:
    """Produce a frame, read it back, and show how a column without a field is refused."""
    with MockSchemaRegistry() as registry:
        codec = Protobuf(registry.url, schema=SCHEMA, message="sensors.Reading")
        with codec, Producer({"bootstrap.servers": BOOTSTRAP}) as producer:
            queued = producer.produce_arrow(TOPIC, FRAME, value=codec, partition=0)
            print(f"{queued} messages queued")
            try:
                producer.produce_arrow(TOPIC, polars.DataFrame({"sensr": ["a"]}), value=codec)
            except SchemaError as error:
                print(f"refused: {error}")
        with (
            Protobuf(registry.url, message="sensors.Reading") as reader,
            Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": TOPIC}) as consumer,
        ):
            consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
            batch = consumer.consume_arrow(2, timeout=60, columns=["value"], value=reader)
    print(polars.DataFrame(batch)["value"].struct.unnest().row(0))


if __name__ == "__main__":
    main()
