"""The columns of a JSON Schema, and columns that are inferred from records."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest

from kafka_native._native import codec_core
from kafka_native.codecs import DecodeError, JsonDecoder, SchemaError

pytestmark = pytest.mark.skipif(
    not codec_core.HAS_JSON, reason="this build has no simdjson (libsimdjson-dev)"
)
TEXT = pa.string()
ENUM = pa.dictionary(pa.int32(), pa.string())
UTC = datetime.timezone.utc


def type_of(decoder: JsonDecoder) -> pa.DataType:
    return pa.DataType._import_from_c_capsule(decoder.__arrow_c_schema__())


def type_for(schema: Any, **options: Any) -> pa.DataType:
    """Return the type of a required property, and check that it isn't nullable on its own."""
    whole = {"type": "object", "properties": {"f": schema}, "required": ["f"]}
    return type_of(JsonDecoder(whole, **options)).field("f")


def fields(*each: tuple[str, pa.DataType] | pa.Field) -> pa.DataType:
    return pa.struct(list(each))


@pytest.mark.parametrize(
    ("schema", "kind", "nullable"),
    [
        ({"type": "string"}, TEXT, False),
        ({"type": ["string", "null"]}, TEXT, True),
        ({"type": ["string"]}, TEXT, False),
        ({"type": "integer"}, pa.int64(), False),
        ({"type": "integer", "minimum": 0, "maximum": 2**64 - 1}, pa.uint64(), False),
        ({"type": "integer", "minimum": 0, "maximum": 2**63 - 1}, pa.int64(), False),
        ({"type": "integer", "minimum": 0, "maximum": 2**64}, TEXT, False),
        ({"type": "integer", "maximum": 2**64 - 1}, TEXT, False),
        ({"type": "integer", "minimum": -(2**63) - 1}, TEXT, False),
        ({"type": "number"}, pa.float64(), False),
        ({"type": ["integer", "number", "null"]}, pa.float64(), True),
        ({"type": "boolean"}, pa.bool_(), False),
        ({"type": "null"}, pa.null(), True),
        ({"type": "string", "format": "date-time"}, pa.timestamp("us", "UTC"), False),
        ({"type": "string", "format": "date"}, pa.date32(), False),
        ({"type": "string", "format": "time"}, pa.time64("us"), False),
        ({"type": "string", "format": "uuid"}, pa.binary(16), False),
        ({"type": "string", "format": "email"}, TEXT, False),
        ({"type": "string", "contentEncoding": "base64"}, pa.binary(), False),
        ({"enum": ["a", "b"]}, ENUM, False),
        ({"enum": ["a", "b", "a", None]}, ENUM, True),
        ({"type": "string", "const": "a"}, ENUM, False),
        ({"enum": ["a", 1]}, TEXT, True),
        ({"type": "integer", "enum": [1, 2]}, pa.int64(), False),
        ({"type": "array", "items": {"type": "integer"}}, pa.list_(pa.field("item", pa.int64(), False)), False),
        ({"items": {"type": ["integer", "null"]}}, pa.list_(pa.int64()), False),
        ({"type": "array"}, TEXT, False),
        ({"type": "array", "items": [{"type": "integer"}]}, TEXT, False),
        ({"type": "array", "prefixItems": [{}], "items": {"type": "integer"}}, TEXT, False),
        ({"type": "object"}, TEXT, False),
        ({"type": ["object", "null"]}, TEXT, True),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, pa.map_(TEXT, pa.field("value", pa.int64(), False)), False),
        ({"type": "object", "additionalProperties": True}, TEXT, False),
        ({"type": "object", "additionalProperties": {}, "patternProperties": {}}, TEXT, False),
        ({"properties": {"a": {"type": "integer"}}}, fields(("a", pa.int64())), False),
        ({"properties": {"a": {"type": "integer"}}, "required": ["a"]}, fields(pa.field("a", pa.int64(), False)), False),
        ({"type": ["string", "integer"]}, TEXT, True),
        ({}, TEXT, True),
        (True, TEXT, True),
        (False, TEXT, True),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, pa.int64(), True),
        ({"oneOf": [{"type": "integer"}, {"const": None}]}, pa.int64(), True),
        ({"oneOf": [{"type": "integer"}]}, pa.int64(), False),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, TEXT, True),
        ({"allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "string"}}, "required": ["a"]}], "required": ["b"]},
         fields(pa.field("a", pa.int64(), False), pa.field("b", TEXT, False)), False),
        ({"properties": {"a": {"type": "integer"}}, "anyOf": [{"required": ["a"]}, {"minProperties": 1}]}, fields(("a", pa.int64())), False),
        ({"allOf": [True, {"allOf": [{"type": "integer"}]}]}, pa.int64(), False),
    ],
)  # fmt: skip
def test_type_of_a_schema(schema: Any, kind: pa.DataType, nullable: bool) -> None:
    field = type_for(schema)
    assert (field.type, field.nullable) == (kind, nullable)


def test_optional_properties_are_nullable() -> None:
    schema = {"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["b"]}
    found = type_of(JsonDecoder(json.dumps(schema)))
    assert [found.field(name).nullable for name in "ab"] == [True, False]
    assert type_of(JsonDecoder(json.dumps(schema).encode())) == found


def test_timestamp_unit() -> None:
    for unit, time in [("s", pa.time32("s")), ("ms", pa.time32("ms")), ("us", pa.time64("us")), ("ns", pa.time64("ns"))]:  # fmt: skip
        found = type_for({"type": "string", "format": "date-time"}, timestamp_unit=unit)
        assert found.type == pa.timestamp(unit, "UTC")
        assert type_for({"type": "string", "format": "time"}, timestamp_unit=unit).type == time
    with pytest.raises(ValueError, match="timestamp_unit"):
        JsonDecoder({}, timestamp_unit="m")  # type: ignore[arg-type]


CONNECT_DATA = "org.apache.kafka.connect.data."


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "integer", "connect.type": "int8"}, pa.int8()),
        ({"type": "number", "connect.type": "int16"}, pa.int16()),
        ({"type": "integer", "connect.type": "int32"}, pa.int32()),
        ({"type": "number", "connect.type": "int64"}, pa.int64()),
        ({"type": "number", "connect.type": "float32"}, pa.float32()),
        ({"type": "number", "connect.type": "float64"}, pa.float64()),
        ({"type": "number", "connect.type": "money"}, pa.float64()),
        ({"type": "string", "connect.type": "bytes"}, pa.binary()),
        ({"type": "integer", "title": f"{CONNECT_DATA}Date"}, pa.date32()),
        ({"type": "integer", "title": f"{CONNECT_DATA}Time"}, pa.time32("ms")),
        ({"type": "number", "title": f"{CONNECT_DATA}Timestamp"}, pa.timestamp("ms", "UTC")),
        ({"type": "integer", "title": "Age"}, pa.int64()),
    ],
)
def test_types_of_kafka_connect(schema: dict[str, Any], kind: pa.DataType) -> None:
    nullable = {"oneOf": [{"type": "null"}, schema]}
    assert type_for(schema) == pa.field("f", kind, False)
    assert type_for(nullable) == pa.field("f", kind, True)


def connect_decimal(kind: str, scale: int | str, **parameters: str) -> dict[str, Any]:
    return {
        "type": kind,
        "title": f"{CONNECT_DATA}Decimal",
        "connect.type": "bytes",
        "connect.version": 1,
        "connect.parameters": {"scale": str(scale), **parameters},
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"AA=="', "0"),
        ('""', "0"),
        ('"AJY="', "1.50"),
        ('"/2o="', "-1.50"),
        ('"gA=="', "-1.28"),
        ('"f///////////////"', "396140812571321687967719751.67"),
        (f'"{base64.b64encode((10**38 - 1).to_bytes(16, "big")).decode()}"', "9" * 36 + ".99"),
        (f'"{base64.b64encode((1 - 10**38).to_bytes(40, "big", signed=True)).decode()}"', "-" + "9" * 36 + ".99"),
        (f'"{base64.b64encode((10**38).to_bytes(16, "big")).decode()}"', None),
        (f'"{base64.b64encode((-10**38).to_bytes(20, "big", signed=True)).decode()}"', None),
        (f'"{base64.b64encode((2**260).to_bytes(40, "big")).decode()}"', None),
        (f'"{base64.b64encode((2**255).to_bytes(33, "big")).decode()}"', None),
        ('"A"', None),
        ("1.5", None),
    ],
)  # fmt: skip
def test_decimals_of_kafka_connect(text: str, value: str | None) -> None:
    decoder = JsonDecoder({"properties": {"d": connect_decimal("string", 2)}})
    column = decoder.decode([b'{"d":%s}' % text.encode()], on_error="null")
    assert [error.path for error in column.errors] == ([] if value else ["d"])
    expected = None if value is None else {"d": decimal.Decimal(value)}
    assert pa.array(column).to_pylist() == [expected]


def test_types_of_decimals_of_kafka_connect() -> None:
    assert type_for(connect_decimal("number", 2)).type == pa.decimal128(38, 2)
    assert type_for(connect_decimal("string", -3)).type == pa.decimal128(38, -3)
    precise = {"connect.decimal.precision": "50"}
    assert type_for(connect_decimal("string", 4, **precise)).type == pa.decimal256(50, 4)
    too_many = {"connect.decimal.precision": "77"}
    assert type_for(connect_decimal("number", 1, **too_many)).type == pa.float64()
    assert type_for(connect_decimal("number", "two")).type == pa.float64()
    wide = JsonDecoder(connect_decimal("string", 0, **{"connect.decimal.precision": "76"}))
    for number in (-(10**76) + 1, 10**76 - 1, -(2**248), 2**128, -1):
        text = base64.b64encode(number.to_bytes(32, "big", signed=True))
        assert pa.array(wide.decode([b'"' + text + b'"'])).to_pylist() == [decimal.Decimal(number)]
    number = JsonDecoder(connect_decimal("number", 2))
    assert pa.array(number.decode([b"12.5"])).to_pylist() == [decimal.Decimal("12.50")]


def test_records_of_kafka_connect() -> None:
    schema = {
        "type": "object",
        "title": "server.public.orders.Value",
        "properties": {
            "at": {
                "connect.index": 2,
                "oneOf": [
                    {"type": "null"},
                    {"type": "integer", "connect.version": 1, "connect.type": "int64",
                     "title": f"{CONNECT_DATA}Timestamp"},
                ],
            },
            "id": {"type": "integer", "connect.index": 0, "connect.type": "int32"},
            "name": {"connect.index": 1, "oneOf": [{"type": "null"}, {"type": "string"}]},
        },
    }  # fmt: skip
    record = b'{"id":1,"name":null,"at":1704164645678}'
    array = pa.array(JsonDecoder(schema).decode([record]))
    assert list(array.to_pylist()[0].items()) == [
        ("id", 1),
        ("name", None),
        ("at", datetime.datetime(2024, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)),
    ]
    properties = {"b": {"connect.index": 1}, "a": {}}
    assert [each.name for each in type_of(JsonDecoder({"properties": properties}))] == ["b", "a"]


def test_references_within_a_document() -> None:
    schema = {
        "$defs": {
            "a/b~c d": {"type": "integer"},
            "named": {"$anchor": "here", "type": "string"},
            "list": [{"type": "boolean"}],
            "base": {"properties": {"id": {"type": "integer"}}, "required": ["id"]},
        },
        "properties": {
            "a": {"$ref": "#/$defs/a~1b~0c%20d"},
            "b": {"$ref": "#here"},
            "c": {"$ref": "#/$defs/list/0"},
            "d": {"allOf": [{"$ref": "#/$defs/base"}, {"properties": {"x": {"type": "string"}}}]},
            "e": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/base"}]},
        },
        "required": ["a", "b", "c", "d", "e"],
    }
    identity = pa.field("id", pa.int64(), False)
    assert type_of(JsonDecoder(schema)) == fields(
        pa.field("a", pa.int64(), False),
        pa.field("b", TEXT, False),
        pa.field("c", pa.bool_(), False),
        pa.field("d", fields(identity, pa.field("x", TEXT)), False),
        pa.field("e", fields(identity), True),
    )


def test_references_to_other_documents() -> None:
    references = {
        "common.json": {
            "$id": "https://example.com/schemas/common.json",
            "$defs": {"id": {"type": "integer"}, "pair": {"items": {"$ref": "#/$defs/id"}}},
        },
        "text.json": '{"type": "string"}',
    }
    schema = {
        "$id": "https://example.com/schemas/order.json",
        "properties": {
            "a": {"$ref": "common.json#/$defs/id"},
            "b": {"$ref": "https://example.com/schemas/common.json#/$defs/pair"},
            "c": {"$ref": "text.json"},
        },
        "required": ["a", "b", "c"],
    }
    assert type_of(JsonDecoder(schema, references=references)) == fields(
        pa.field("a", pa.int64(), False),
        pa.field("b", pa.list_(pa.field("item", pa.int64(), False)), False),
        pa.field("c", TEXT, False),
    )


def test_a_type_that_contains_itself_becomes_text_below() -> None:
    schema = {
        "$defs": {
            "tree": {
                "properties": {
                    "value": {"type": "integer"},
                    "left": {"$ref": "#/$defs/tree"},
                    "others": {"type": "array", "items": {"$ref": "#"}},
                }
            }
        },
        "$ref": "#/$defs/tree",
    }
    array = pa.array(JsonDecoder(schema).decode([b'{"value":1,"left":{"left": {}},"others":[2]}']))
    assert array.to_pylist() == [{"value": 1, "left": '{"left": {}}', "others": ["2"]}]


@pytest.mark.parametrize(
    ("schema", "problem", "path"),
    [
        ("{", "isn't JSON", ""),
        (b"\xff", "isn't JSON", ""),
        ("[" * 100_000, "isn't JSON", ""),
        ("[]", "an object or a boolean", ""),
        (5, "an object or a boolean", ""),
        ({"properties": {"a": 1}}, "an object or a boolean", "a"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "leads nowhere", "a"),
        ({"properties": {"a": {"$ref": "other.json"}}}, "leads nowhere", "a"),
        ({"properties": {"a": {"$ref": "#nowhere"}}}, "leads nowhere", "a"),
        ({"properties": {"a": {"$ref": 1}}}, "isn't a string", "a"),
        ({"$id": "http://a.org/", "$ref": "http://["}, "is malformed", ""),
        ({"$id": "http://a.org/", "items": {"$id": "http://["}}, "is malformed", ""),
        ({"properties": {"a": {"items": {"type": "text"}}}}, "no type 'text'", "a[]"),
        ({"properties": {"a": {"anyOf": []}}}, "list of schemas", "a"),
        ({"properties": {"a": {"allOf": {}}}}, "list of schemas", "a"),
        ({"properties": {"a": {"allOf": [1]}}}, "an object or a boolean", "a"),
        ({"properties": {"a": {"allOf": [{"required": 1}, {"required": ["a"]}]}}}, "malformed required", "a"),
        ({"properties": {"a": {"allOf": [{"required": ["a"]}, {"required": 1}]}}}, "malformed required", "a"),
        ({"allOf": [{"properties": []}, {"properties": {"a": {}}}]}, "malformed properties", ""),
        ({"properties": {"a": {}}, "required": "a"}, "required isn't a list", ""),
        ({"properties": {"a\0": {}}}, "NUL", ""),
        ({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}, "contains itself", ""),
    ],
)  # fmt: skip
def test_malformed_schema(schema: Any, problem: str, path: str) -> None:
    with pytest.raises(SchemaError, match=problem) as caught:
        JsonDecoder(schema)
    assert caught.value.path == path


def test_references_that_multiply() -> None:
    definitions: dict[str, Any] = {"d0": {"type": "integer"}}
    for number in range(1, 25):
        below = {"$ref": f"#/$defs/d{number - 1}"}
        definitions[f"d{number}"] = {"properties": {"a": below, "b": below}}
    with pytest.raises(SchemaError, match="more than 65536 columns"):
        JsonDecoder({"$defs": definitions, "$ref": "#/$defs/d24"})


def test_values_of_a_schema() -> None:
    schema = {
        "properties": {
            "id": {"type": "string", "format": "uuid"},
            "at": {"type": "string", "format": "date-time"},
            "state": {"enum": ["new", "paid"]},
            "any": {},
            "free": {"type": "object"},
        },
        "required": ["state", "free"],
    }
    decoder = JsonDecoder(schema)
    record = b'{"state":"paid","at":"2024-01-02T03:04:05.678Z","any":[1, "x"],"free":{"a" :1}}'
    assert pa.array(decoder.decode([record])).to_pylist() == [
        {
            "id": None,
            "at": datetime.datetime(2024, 1, 2, 3, 4, 5, 678000, tzinfo=UTC),
            "state": "paid",
            "any": '[1, "x"]',
            "free": '{"a" :1}',
        }
    ]
    escaped = rb'{"state":"p\u0061id","free":null}'
    assert pa.array(decoder.decode([escaped])).to_pylist()[0]["free"] == "null"
    for wrong in (b'"gone"', b'""', b"1", b'"paidx"'):
        with pytest.raises(DecodeError) as caught:
            decoder.decode([b'{"free":{},"state":' + wrong + b"}"])
        assert caught.value.path == "state"


# --- inference ---


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ("1 null -9223372036854775808", pa.int64()),
        ("1 18446744073709551615", pa.uint64()),
        ("-1 9223372036854775808", TEXT),
        ("1 1e400", TEXT),
        ("[1.5] [-1e400]", pa.list_(TEXT)),
        ("1 2.5", pa.float64()),
        ("true null", pa.bool_()),
        ('"a" "2024-01-01T00:00:00Z"', TEXT),
        ('1 "a"', TEXT),
        ("null null", TEXT),
        ("[] [1] [null]", pa.list_(pa.int64())),
        ("[]", pa.list_(TEXT)),
        ("[[true]]", pa.list_(pa.list_(pa.bool_()))),
        ("{}", TEXT),
        ('{"a":1} {"b":"x"} null', fields(("a", pa.int64()), ("b", TEXT))),
        ('[{"a":1},{"a":2.5}]', pa.list_(fields(("a", pa.float64())))),
        ('{"a":1} [1]', TEXT),
        ('{"a\\u0000":1}', TEXT),
    ],
)
def test_inferred_type(values: str, kind: pa.DataType) -> None:
    records = [f'{{"f":{value}}}'.encode() for value in values.split(" ")]
    decoder = JsonDecoder.infer([None, *records])
    found = type_of(decoder).field("f")
    assert (found.type, found.nullable) == (kind, True)
    assert len(pa.array(decoder.decode(records))) == len(records)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["2024-01-01T00:00:00Z", "2024-01-01 00:00+01:00"], pa.timestamp("us", "UTC")),
        (["2024-01-01T00:00:00.123456000"], pa.timestamp("us")),
        (["2024-01-01T00:00:00Z", "2024-01-01T00:00:00"], TEXT),
        (["2024-01-01T00:00:00.1234567"], TEXT),
        (["2024-01-01T00:00:00Z", "never"], TEXT),
        (["2024-02-29T23:59:59+23:59", "0000-02-29T00:00Z"], pa.timestamp("us", "UTC")),
        # these have the form of a timestamp, but they don't exist
        (["2024-01-01T00:00:00", "0000-00-00T00:00:00"], TEXT),
        (["2023-02-29T00:00:00"], TEXT),
        (["1900-02-29T00:00:00"], TEXT),
        (["2024-04-31T00:00:00"], TEXT),
        (["2024-13-01T00:00:00"], TEXT),
        (["2024-01-01T24:00:00"], TEXT),
        (["2024-01-01T23:60:00"], TEXT),
        (["2024-01-01T23:59:60Z"], TEXT),
        (["2024-01-01T00:00:00+24:00"], TEXT),
        (["2024-01-01T00:00:00-0060"], TEXT),
    ],
)
def test_inferred_timestamps(values: list[str], kind: pa.DataType) -> None:
    records = [json.dumps({"f": value}).encode() for value in values]
    decoder = JsonDecoder.infer(records, timestamps=True)
    assert type_of(decoder).field("f").type == kind
    assert pa.array(decoder.decode(records)).null_count == 0


def test_inference_reads_the_first_records_of_a_column() -> None:
    column = pa.array([b'{"a":1,"b":true}', None, b'{"a":"later"}'])
    decoder = JsonDecoder.infer(column, record_count=2)
    assert type_of(decoder) == fields(("a", pa.int64()), ("b", pa.bool_()))
    assert type_of(JsonDecoder.infer(column)).field("a").type == TEXT
    chosen = JsonDecoder.infer(column, fields=["b"])
    assert type_of(chosen) == fields(("b", pa.bool_()))
    deep = b'{"a":' + b"[" * 200 + b"]" * 200 + b"}"
    assert JsonDecoder.infer([deep]).decode([deep]).errors == []


def test_records_that_cannot_be_inferred() -> None:
    for wrong in (b"{", b'{"a":NaN}', b'"\xff"', b"[" * 100_000):
        with pytest.raises(DecodeError) as caught:
            JsonDecoder.infer([b"{}", wrong])
        assert caught.value.row == 1
    with pytest.raises(TypeError, match="bytes or None"):
        JsonDecoder.infer(["{}"])
    with pytest.raises(SchemaError, match="no record has a value"):
        JsonDecoder.infer([None, b"null"])
