"""Any bytes behind a schema's id become a value or a SerializationError, nothing else."""

from __future__ import annotations

import contextlib
import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafka_native.schema_registry import avro, json_schema, protobuf
from kafka_native.serialization import MessageField, SerializationContext, SerializationError
from tests.registry.memory_registry import MemoryRegistry
from tests.registry.test_avro import ADA, TEXT
from tests.registry.test_json_schema import TEXT as JSON_TEXT
from tests.registry.test_protobuf import ADA as MESSAGE
from tests.registry.test_protobuf import User

CONTEXT = SerializationContext("t", MessageField.VALUE)
EVERY_TYPE = json.dumps(
    {
        "type": "record",
        "name": "All",
        "fields": [
            {"name": "u", "type": ["null", "string", "long", "All"]},
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
            {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
            {"name": "d", "type": {"type": "int", "logicalType": "date"}},
            {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "i", "type": {"type": "string", "logicalType": "uuid"}},
            {
                "name": "n",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            },
            {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "bytes"}}},
        ],
    }
)
REGISTRY = MemoryRegistry()
CLIENT = REGISTRY.client()
REGISTRY.register("every", {"schema": EVERY_TYPE})
VALID = [
    avro.AvroSerializer(CLIENT, TEXT)(ADA, CONTEXT),
    json_schema.JSONSerializer(JSON_TEXT, CLIENT)({"name": "Ada"}, CONTEXT),
    protobuf.ProtobufSerializer(User, CLIENT)(MESSAGE, CONTEXT),
]
READERS = [
    avro.AvroDeserializer(CLIENT),
    json_schema.JSONDeserializer(None, None, CLIENT),
    protobuf.ProtobufDeserializer(User, None, CLIENT),
]


@given(st.binary(max_size=60))
@example(b"")
@example(b"\0\0\0\0\1")
@settings(max_examples=300, deadline=None)
def test_any_bytes(data: bytes) -> None:
    prefixes = [b"", b"\0\0\0\0\1", *(valid[:6] for valid in VALID if valid is not None)]
    for reader in READERS:
        for prefix in prefixes:
            with contextlib.suppress(SerializationError):
                reader(prefix + data, CONTEXT)


@given(st.integers(0, 2), st.data())
@settings(max_examples=300, deadline=None)
def test_changed_payloads(number: int, data: st.DataObject) -> None:
    payload = bytearray(VALID[number] or b"")
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(SerializationError):
        READERS[number](bytes(payload), CONTEXT)
