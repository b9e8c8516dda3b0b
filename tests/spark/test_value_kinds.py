"""The guessed formats of values."""

from __future__ import annotations

import io
import json

import fastavro
import pytest
from google.protobuf import struct_pb2, wrappers_pb2
from hypothesis import given
from hypothesis import strategies as st

from kafka_native.spark.pipelines.value_kinds import FRAMED, ValueKinds, kind_of

SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "R",
        "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
    }
)
MESSAGE = struct_pb2.Value(string_value="hällo").SerializeToString()


def framed(schema_id: int, body: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + body


def avro(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, {"id": number, "name": f"name-{number}"})
    return out.getvalue()


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"", "empty"),
        (b'{"a": [1, 2]}', "JSON"),
        (b" [1]\n", "JSON"),
        (b'{"a": ', "text"),
        (b"42", "text"),
        ("Grüße\n".encode(), "text"),
        (MESSAGE, "Protobuf"),
        (wrappers_pb2.Int64Value(value=1 << 40).SerializeToString(), "Protobuf"),
        (b"Obj\x01\x04", "Avro file"),
        (bytes(range(128, 256)), "binary"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "binary"),
        (b"[" * 100_000, "text"),
    ],
)
def test_values_without_framing(value: bytes, kind: str) -> None:
    assert kind_of(value) == kind


def test_schema_ids_of_framed_values() -> None:
    kinds, other = ValueKinds(), ValueKinds()
    kinds.add(framed(7, avro(number)) for number in range(50))
    kinds.add([framed(9, b"\0" + MESSAGE), framed(9, b"\x02\x02" + MESSAGE), None])
    other.add([framed(11, json.dumps({"n": number}).encode()) for number in range(3)])
    other.add([framed(7, avro(3)), b"plain"])
    kinds.merge(ValueKinds.from_json(json.loads(json.dumps(other.to_json()))))
    assert kinds.schemas == {7: ("Avro", 51), 9: ("Protobuf", 2), 11: ("JSON", 3)}
    assert kinds.sampled == 57
    assert kinds.kinds == {
        f"Avro {FRAMED}": 51,
        f"JSON {FRAMED}": 3,
        f"Protobuf {FRAMED}": 2,
        "text": 1,
    }


def test_an_id_may_be_avro_though_some_values_look_like_protobuf() -> None:
    kinds = ValueKinds()
    kinds.add([framed(5, b"\0"), framed(5, b"\x03abc")])  # the first is an empty message, too
    assert kinds.schemas == {5: ("Avro", 2)}


def test_random_first_bytes_are_not_taken_for_many_schemas() -> None:
    kinds = ValueKinds()
    kinds.add(framed(number, b"\xff\xff\x03") for number in range(1, 5000))
    assert len(kinds.schemas) == 100
    assert sum(kinds.kinds.values()) == kinds.sampled == 4999


@given(st.lists(st.binary(max_size=40)))
def test_any_bytes_have_one_format(values: list[bytes]) -> None:
    kinds = ValueKinds()
    kinds.add(values)
    assert sum(kinds.kinds.values()) == kinds.sampled == len(values)
