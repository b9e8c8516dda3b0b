"""Nested records in each format, and their codecs, for clients of which one allocation fails."""

from __future__ import annotations

import json
import uuid
from typing import Any

from kafka_native.codecs import Avro, AvroEncoder, Json, Protobuf
from kafka_native.schema_registry.schemas import RegisteredSchema

COUNT = 60
FORMATS = ("avro", "protobuf", "json")
LINE = {"type": "record", "name": "Line", "fields": [
    {"name": "sku", "type": "string"}, {"name": "count", "type": "int"}]}  # fmt: skip
ORDER = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"},
    {"name": "name", "type": "string"},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "lines", "type": {"type": "array", "items": LINE}}]}  # fmt: skip


def row(number: int) -> dict[str, Any]:
    """Return a record. The later ones are long, so buffers grow several times."""
    lines = [{"sku": f"s{each}", "count": each} for each in range(number % 7)]
    tags = ["tag" * each for each in range(number % 5)]
    return {
        "id": number,
        "name": f"{number}-".ljust(20 * number, "x"),
        "tags": tags,
        "lines": lines,
    }


def order_class() -> Any:
    """Return the class of the Protobuf messages."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

    text = """name: "orders.proto" syntax: "proto3"
    message_type {
      name: "Order"
      field { name: "id" number: 1 type: TYPE_INT64 }
      field { name: "name" number: 2 type: TYPE_STRING }
      field { name: "tags" number: 3 type: TYPE_STRING label: LABEL_REPEATED }
      field { name: "lines" number: 4 type: TYPE_MESSAGE type_name: ".Line" label: LABEL_REPEATED }
    }
    message_type {
      name: "Line"
      field { name: "sku" number: 1 type: TYPE_STRING }
      field { name: "count" number: 2 type: TYPE_INT32 }
    }"""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(text, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))


def payloads(name: str) -> list[bytes]:
    """Return the records of a format, without a framing."""
    rows = [row(number) for number in range(COUNT)]
    if name == "json":
        return [json.dumps(each).encode() for each in rows]
    if name == "protobuf":
        made = order_class()
        return [made(**each).SerializeToString() for each in rows]
    import pyarrow as pa

    return pa.chunked_array(AvroEncoder(ORDER).encode(pa.array(rows))).to_pylist()


class Registry:
    """A registry's client, without the registry and its allocations."""

    def __init__(self) -> None:
        self.schemas: dict[str, Any] = {}

    def register_schema_full_response(self, subject: str, schema: Any, **how: Any) -> Any:
        """Return the registered schema. Its GUID is that of its subject."""
        guid = str(uuid.uuid5(uuid.NAMESPACE_DNS, subject))
        self.schemas[guid] = schema
        return RegisteredSchema(subject, 1, 1, guid, schema)

    def get_schema_by_guid(self, guid: str, fmt: str | None = None) -> Any:
        """Return a schema that was registered."""
        return self.schemas[guid]


def codec(name: str) -> Any:
    """Return the codec of a format. "guid" is Avro with the GUID of its schema in a header."""
    if name == "guid":
        return Avro(Registry(), schema=ORDER, guid_header=True)
    if name == "avro":
        return Avro(schema=ORDER)
    if name == "protobuf":
        return Protobuf(schema=order_class())
    import pyarrow as pa

    line = pa.struct([("sku", pa.string()), ("count", pa.int32())])
    columns = [("id", pa.int64()), ("name", pa.string())]
    columns += [("tags", pa.list_(pa.string())), ("lines", pa.list_(line))]
    return Json(schema=pa.schema(columns))
