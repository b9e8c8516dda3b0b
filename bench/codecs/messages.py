"""The deserializers: one record at a time, into objects."""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from bench.codecs import OBJECTS, OURS, READER, records
from kafka_native.codecs import AvroReader
from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import Schema, SchemaRegistryClient
from kafka_native.schema_registry.protobuf_files import text_of

Decode = Callable[[], Any]
Read = Callable[[bytes], Any]
TOPIC = "orders"
SUBJECT = f"{TOPIC}-value"
FRAME = b"\0" + (1).to_bytes(4, "big")
FIRST_MESSAGE = b"\0"  # the message indexes of the first type of a file
MODULES = {
    "avro": ("avro", "AvroDeserializer"),
    "json": ("json_schema", "JSONDeserializer"),
    "protobuf": ("protobuf", "ProtobufDeserializer"),
}


def prepare(
    scenario: str, contestant: str, stack: ExitStack, *, nested: bool, count: int
) -> Decode:
    """Return a function that returns an iterator over the objects of ``count`` records.

    A program drops the object of a message before it makes the next one. So do the measurements: a
    list of all objects would mostly measure Python's garbage collector.
    """
    format_ = scenario.partition("_")[0]
    payloads: list[bytes] = getattr(records, format_)(nested=nested, count=count)
    if contestant in (OURS, "confluent_kafka"):
        kind = records.Order if scenario in OBJECTS else None
        read, framed = deserializer(format_, contestant, payloads, stack, nested=nested, kind=kind)
        return _one_by_one(read, framed)
    return _one_by_one(UNFRAMED[contestant](nested), payloads)


def _one_by_one(read: Read, payloads: list[bytes]) -> Decode:
    return lambda: map(read, payloads)


def registered(schema: Schema, stack: ExitStack) -> str:
    """Start a registry with the schema, which has the id of FRAME. Returns its URL."""
    registry = stack.enter_context(MockSchemaRegistry())
    client = stack.enter_context(SchemaRegistryClient({"url": registry.url}))
    found = client.register_schema(SUBJECT, schema)
    if found != int.from_bytes(FRAME[1:], "big"):
        raise RuntimeError(f"the first schema has the id {found}")
    return registry.url


def schema_of(format_: str, *, nested: bool) -> Schema:
    """Return the schema of the records."""
    if format_ == "protobuf":
        text = text_of(records.message_class(nested=nested).DESCRIPTOR.file)
    elif format_ == "json":
        text = json.dumps(records.validation_schema(nested=nested))
    else:
        text = json.dumps(records.schema(nested=nested))
    return Schema(text, format_.upper())


def deserializer(
    format_: str,
    library: str,
    payloads: list[bytes],
    stack: ExitStack,
    *,
    nested: bool,
    kind: Any = None,
) -> tuple[Read, list[bytes]]:
    """Return the deserializer of kafka_native or confluent_kafka, and the framed records.

    :param kind: The class that records become.
    """
    url = registered(schema_of(format_, nested=nested), stack)
    serialization = importlib.import_module(f"{library}.serialization")
    made = value_deserializer(format_, library, url, stack, nested=nested, kind=kind)
    context = serialization.SerializationContext(TOPIC, serialization.MessageField.VALUE)
    frame = FRAME + (FIRST_MESSAGE if format_ == "protobuf" else b"")
    return lambda payload: made(payload, context), [frame + each for each in payloads]


def value_deserializer(
    format_: str, library: str, url: str, stack: ExitStack, *, nested: bool, kind: Any = None
) -> Any:
    """Return the deserializer of kafka_native or confluent_kafka: both have the same classes."""
    package = f"{library}.schema_registry"
    client = stack.enter_context(
        importlib.import_module(package).SchemaRegistryClient({"url": url})
    )
    module, name = MODULES[format_]
    class_ = getattr(importlib.import_module(f"{package}.{module}"), name)
    more = {} if kind is None else {"type": kind}
    from_dict = None
    if kind is not None and library != OURS:  # the way of confluent_kafka
        more, from_dict = {}, lambda value, context: kind(**value)
    if format_ == "avro":
        return class_(client, None, from_dict, **more)
    if format_ == "json":
        return class_(None, from_dict, client, **more)
    messages = records.message_class(nested=nested)
    made = class_(messages, {"use.deprecated.format": False}, client, **more)
    return made if from_dict is None else _to_order(made)


def _to_order(read: Callable[..., Any]) -> Callable[..., Any]:
    """Make dataclasses of messages, as a program does by hand."""

    def converted(payload: bytes, context: Any) -> Any:
        order = read(payload, context)
        return records.Order(
            order.id,
            order.customer,
            order.product,
            order.quantity,
            order.price,
            order.country,
            order.status,
            order.paid,
            order.created,
            order.note if order.HasField("note") else None,
        )

    return converted


# --- without a framing and a registry ---


def _fastavro(nested: bool) -> Read:
    import fastavro

    parsed = fastavro.parse_schema(records.schema(nested=nested))
    return lambda payload: fastavro.schemaless_reader(io.BytesIO(payload), parsed, None)


def _orjson(nested: bool) -> Read:
    read: Read = importlib.import_module("orjson").loads
    return read


def _protobuf(nested: bool) -> Read:
    read: Read = records.message_class(nested=nested).FromString
    return read


UNFRAMED: dict[str, Callable[[bool], Read]] = {
    READER: lambda nested: AvroReader(records.schema(nested=nested)).read,
    "fastavro": _fastavro,
    "orjson": _orjson,
    "protobuf": _protobuf,
}
