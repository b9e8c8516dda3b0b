"""Avro schemas made from the types of Arrow columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kafka_native._native.encode_core import ColumnInput
from kafka_native.codecs import AvroEncoder, SchemaError
from kafka_native.codecs.avro_from_arrow import avro_schema_of
from tests.codecs import avro_schemas as avro


def schema_of(kind: pa.DataType, *, nullable: bool = False) -> Any:
    """Return the type of a field."""
    types = pa.schema([pa.field("f", kind, nullable)])
    reader = pa.RecordBatchReader.from_batches(types, [])
    schema = avro_schema_of(ColumnInput(reader).description, "R")
    made = AvroEncoder(schema).encode(pa.RecordBatchReader.from_batches(types, []))  # it fits
    assert len(made) == 0
    [field] = schema["fields"]
    return field["type"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.bool_(), "boolean"),
        (pa.uint16(), "int"),
        (pa.uint32(), "long"),
        (pa.float16(), "float"),
        (pa.large_string(), "string"),
        (pa.binary_view(), "bytes"),
        (pa.dictionary(pa.int32(), pa.string()), "string"),
        (pa.binary(3), {"type": "fixed", "name": "R_f", "size": 3}),
        (pa.date64(), {"type": "int", "logicalType": "date"}),
        (pa.time32("s"), {"type": "int", "logicalType": "time-millis"}),
        (pa.timestamp("s", "UTC"), {"type": "long", "logicalType": "timestamp-millis"}),
        (pa.timestamp("ns"), {"type": "long", "logicalType": "local-timestamp-nanos"}),
        (
            pa.decimal128(5, -2),
            {"type": "bytes", "logicalType": "decimal", "precision": 7, "scale": 0},
        ),
        (
            pa.month_day_nano_interval(),
            {"type": "fixed", "name": "R_f", "size": 12, "logicalType": "duration"},
        ),
        (
            pa.list_(pa.field("item", pa.int8(), nullable=False), 2),
            {"type": "array", "items": "int"},
        ),
        (pa.map_(pa.string(), pa.int64()), {"type": "map", "values": ["null", "long"]}),
        (
            pa.dense_union([pa.field("a", pa.int8(), nullable=False), pa.field("b", pa.string())]),
            ["null", "int", "string"],
        ),
        (
            pa.struct([pa.field("x", pa.int8(), nullable=False)]),
            {"type": "record", "name": "R_f", "fields": [{"name": "x", "type": "int"}]},
        ),
    ],
)
def test_types(kind: pa.DataType, expected: Any) -> None:
    assert schema_of(kind) == expected
    if not isinstance(expected, list):
        assert schema_of(kind, nullable=True) == ["null", expected]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.duration("ms"), "f: a column of duration"),
        (pa.time64("ns"), "f: a column of time"),
        (pa.list_view(pa.int8()), "f: a column of list_view has no Avro type"),
        (pa.decimal256(76, -1), "f: a column of decimal"),
        (pa.struct([("not a name", pa.int8())]), "f.not a name: Avro doesn't allow this name"),
        (
            pa.dense_union([pa.field("a", pa.dense_union([pa.field("b", pa.int8())]))]),
            "f: Avro has no union in a union",
        ),
    ],
)
def test_types_without_an_avro_type(kind: pa.DataType, text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        schema_of(kind)


def test_nulls() -> None:
    assert schema_of(pa.null(), nullable=True) == "null"


def test_each_type_has_another_name() -> None:
    point = {"x": 1}
    table = pa.table(
        {
            "a": [{"b": point}],
            "a_b": [point],
            "a_b_2": [point],
            "c": [[point]],
            "c_item": pa.array([b"abc"], pa.binary(3)),
            "d": pa.array([[("k", point)]], pa.map_(pa.string(), pa.struct([("x", pa.int64())]))),
            "d_value": pa.array([(1, 2, 3_000_000)], pa.month_day_nano_interval()),
        }
    )
    schema = avro_schema_of(ColumnInput(table).description, "R")
    types = [
        *([each["type"][1]["name"] for each in schema["fields"][:3]]),
        schema["fields"][4]["type"][1]["name"],
        schema["fields"][6]["type"][1]["name"],
    ]
    assert types == ["R_a", "R_a_b_2", "R_a_b_2_2", "R_c_item_2", "R_d_value_2"]
    [record] = pa.chunked_array(AvroEncoder(schema).encode(table)).to_pylist()
    duration = bytes([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])
    assert avro.decode(record, schema) == {
        "a": {"b": point},
        "a_b": point,
        "a_b_2": point,
        "c": [point],
        "c_item": b"abc",
        "d": {"k": point},
        "d_value": duration,
    }


def test_the_name_of_a_record() -> None:
    description = ("+s", "", 0, (), None, None)
    assert avro_schema_of(description, "1-a.b")["name"] == "_1_a_b"
    assert avro_schema_of(description, "")["name"] == "_"
