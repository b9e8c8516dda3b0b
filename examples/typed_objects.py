"""Typed objects: JSON as dataclasses and structs, Protobuf as dataclasses and TypedDicts.

Needs `pip install 'kafka-native[registry,json,protobuf]'`.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
from dataclasses import dataclass
from typing import Any, TypedDict
from uuid import uuid4

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kafka_native import DeserializingConsumer, SerializingProducer
from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import SchemaRegistryClient
from kafka_native.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from kafka_native.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from kafka_native.serialization import MessageField, SerializationContext, SerializationError

TOPIC = f"example-typed-objects-{uuid4().hex[:8]}"
BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
SCHEMA = json.dumps(
    {
        "title": "Order",
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "at": {"type": "string", "format": "date-time"},
            "items": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["id", "at"],
    }
)


@dataclass
class Order:
    """An order as a dataclass."""

    id: int
    at: datetime.datetime
    items: list[str]


class OrderTime(msgspec.Struct):
    """Two fields of an order as a struct: the others are skipped."""

    id: int
    at: datetime.datetime


@dataclass
class Reading:
    """A reading of a sensor. Its field may be unset."""

    sensor: str
    degrees: float | None


class ReadingDict(TypedDict):
    """The same as a dict. An unset number is 0."""

    sensor: str
    degrees: float


def reading_class() -> Any:
    """Return the class of the Protobuf message. Usually protoc makes it from your .proto file."""
    file = descriptor_pb2.FileDescriptorProto(
        name="example_readings.proto", package="example", syntax="proto3"
    )
    message = file.message_type.add(name="Reading")
    kinds = descriptor_pb2.FieldDescriptorProto
    message.field.add(name="sensor", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    message.oneof_decl.add(name="_degrees")
    message.field.add(
        name="degrees",
        number=2,
        type=kinds.TYPE_DOUBLE,
        label=kinds.LABEL_OPTIONAL,
        oneof_index=0,
        proto3_optional=True,
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("example.Reading"))


def show_json(registry: SchemaRegistryClient) -> None:
    """Produce an order and read it as a dataclass, then as a struct."""
    serializer = JSONSerializer(SCHEMA, registry)
    order = {"id": 1, "at": "2026-11-28T09:30:00Z", "items": ["tea", "milk"]}
    conf = {"bootstrap.servers": BOOTSTRAP, "value.serializer": serializer}
    with SerializingProducer(conf) as producer:
        producer.produce(TOPIC, value=order)
        producer.flush()
    conf = {
        "bootstrap.servers": BOOTSTRAP,
        "group.id": TOPIC,
        "auto.offset.reset": "earliest",
        "value.deserializer": JSONDeserializer(None, schema_registry_client=registry, type=Order),
    }
    with DeserializingConsumer(conf) as consumer:
        consumer.subscribe([TOPIC])
        message = None
        while message is None:
            message = consumer.poll(1.0)
    value = message.value()
    print("dataclass:", value.id, value.at.isoformat(), value.items)

    context = SerializationContext(TOPIC, MessageField.VALUE)
    payload = serializer(order, context)
    read = JSONDeserializer(None, schema_registry_client=registry, type=OrderTime)
    print("struct:", read(payload, context))
    try:
        read(serializer({"id": 2, "at": "tomorrow"}, context), context)
    except SerializationError as error:
        print("refused:", error)


def show_protobuf(registry: SchemaRegistryClient) -> None:
    """Read a message as a dataclass, as a TypedDict and as a plain dict."""
    message_class = reading_class()
    context = SerializationContext(f"{TOPIC}-readings", MessageField.VALUE)
    payload = ProtobufSerializer(message_class, registry)(message_class(sensor="roof"), context)
    for kind in (Reading, ReadingDict, dict):
        read = ProtobufDeserializer(message_class, None, registry, type=kind)
        print(f"{kind.__name__}:", read(payload, context))


def main() -> None:
    """Show both formats, with your schema registry or the mock."""
    with contextlib.ExitStack() as stack:
        url = os.environ.get("SCHEMA_REGISTRY_URL")
        if url is None:  # without a registry of your own, the mock registry serves
            url = stack.enter_context(MockSchemaRegistry()).url
        registry = stack.enter_context(SchemaRegistryClient({"url": url}))
        show_json(registry)
        show_protobuf(registry)


if __name__ == "__main__":
    main()
