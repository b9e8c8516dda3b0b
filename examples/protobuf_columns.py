"""Decodes the Protobuf values of a topic into typed Arrow columns.

Needs `pip install 'kafka-native[arrow,protobuf]'`.
"""

from __future__ import annotations

import os
from uuid import uuid4

import pyarrow
from google.protobuf import descriptor_pb2, duration_pb2

from kafka_native import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka_native.codecs import ProtobufDecoder

TOPIC = f"example-protobuf-{uuid4().hex[:8]}"
BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
COUNT = 1000


def descriptor_set() -> bytes:
    """Return what ``protoc --include_imports --descriptor_set_out`` writes for a file with Visit.

    Its text is ``message Visit { string page = 1; google.protobuf.Duration took = 2; }``.
    """
    imported = descriptor_pb2.FileDescriptorProto()
    duration_pb2.DESCRIPTOR.CopyToProto(imported)
    file = descriptor_pb2.FileDescriptorProto(name="visit.proto", syntax="proto3")
    file.dependency.append(imported.name)
    message = file.message_type.add(name="Visit")
    message.field.add(name="page", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    message.field.add(
        name="took",
        number=2,
        type="TYPE_MESSAGE",
        type_name=".google.protobuf.Duration",
        label="LABEL_OPTIONAL",
    )
    files = descriptor_pb2.FileDescriptorSet(file=[imported, file])
    return files.SerializeToString()


def encode(page: str, seconds: int) -> bytes:
    """Return a Visit. All sizes here are below 128, so each is one byte."""
    took = duration_pb2.Duration(seconds=seconds).SerializeToString()
    return bytes([10, len(page)]) + page.encode() + bytes([18, len(took)]) + took


def main() -> None:
    """Produce messages, read their bytes as a column, and decode the column."""
    with Producer({"bootstrap.servers": BOOTSTRAP}) as producer:
        for number in range(COUNT):
            producer.produce(TOPIC, encode(f"page {number % 3}", number % 40), partition=0)
    with Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": TOPIC}) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        batch = pyarrow.table(consumer.consume_arrow(COUNT, timeout=10, columns=["value"]))
    column = ProtobufDecoder(descriptor_set(), "Visit", time_unit="s").decode(batch["value"])
    table = pyarrow.Table.from_struct_array(pyarrow.array(column))
    print(f"{table.num_rows} rows: {table.schema.names}")
    longest = table.sort_by([("took", "descending")])["took"][0]
    print(f"longest visit: {longest}")


if __name__ == "__main__":
    main()
