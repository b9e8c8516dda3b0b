"""Arrow columns as JSON: each type with and without a schema, what is refused, and its field."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from typing import Any

import pyarrow as pa
import pytest

from kafka_native._native import codec_core
from kafka_native.codecs import EncodeError, JsonDecoder, JsonEncoder, SchemaError

pytestmark = pytest.mark.skipif(
    not codec_core.HAS_JSON, reason="this build has no simdjson (libsimdjson-dev)"
)
UTC = datetime.timezone.utc
UUID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
TIME = datetime.datetime(2026, 11, 28, 1, 2, 3, 456000)
DATE = datetime.date(2026, 11, 28)
DAYS = (DATE - datetime.date(1970, 1, 1)).days
CONNECT = "org.apache.kafka.connect.data."


def texts(column: Any, schema: Any = None, **options: Any) -> list[str | None]:
    made = pa.chunked_array(JsonEncoder(schema, **options).encode(column))
    return [None if each is None else each.decode() for each in made.to_pylist()]


def decimals(kind: pa.DataType, *numbers: str) -> pa.Array:
    return pa.array([decimal.Decimal(each) for each in numbers], kind)


def uuids(*values: uuid.UUID) -> pa.Array:
    return pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([each.bytes for each in values], pa.binary(16))
    )


def objects(*properties: tuple[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": dict(properties)}
    return made if required is None else made | {"required": required}


# --- types without a schema ---


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([True, False, None])[1:], ["false", None]),
        (pa.array([-128, 127], pa.int8()), ["-128", "127"]),
        (pa.array([0, 65535], pa.uint16()), ["0", "65535"]),
        (pa.array([-(1 << 63), (1 << 63) - 1]), [f"-{1 << 63}", str((1 << 63) - 1)]),
        (pa.array([(1 << 64) - 1], pa.uint64()), [str((1 << 64) - 1)]),
        (pa.array([1.5, -0.0, 1e16, 5.0, 0.1]), ["1.5", "-0.0", "1e+16", "5.0", "0.1"]),
        (pa.array([0.1, 1e10], pa.float32()), ["0.1", "1e+10"]),
        (pa.array([0.5, 65504.0]).cast(pa.float16()), ["0.5", "65504.0"]),
        (pa.array(["", 'a"\\\n\x01/', "é😀"]), ['""', '"a\\"\\\\\\n\\u0001/"', '"é😀"']),
        (pa.array(["x" * 40 + "\t"], pa.large_string()), [f'"{"x" * 40}\\t"']),
        (pa.array(["a", "b" * 20], pa.string_view()), ['"a"', f'"{"b" * 20}"']),
        (pa.array([b"", b"\xff\xfe"]), ['""', '"//4="']),
        (pa.array([b"abc"], pa.binary(3)), ['"YWJj"']),
        (uuids(UUID), [f'"{UUID}"']),
        (pa.array([DATE]), ['"2026-11-28"']),
        (pa.array([DATE], pa.date64()), ['"2026-11-28"']),
        (pa.array([0, 3723], pa.time32("s")), ['"00:00:00"', '"01:02:03"']),
        (pa.array([3723004], pa.time32("ms")), ['"01:02:03.004"']),
        (pa.array([3723004000000], pa.time64("ns")), ['"01:02:03.004"']),
        (pa.array([TIME]), ['"2026-11-28T01:02:03.456"']),
        (pa.array([TIME], pa.timestamp("ns", "Asia/Tokyo")), ['"2026-11-28T01:02:03.456Z"']),
        (pa.array([-1], pa.timestamp("us", "UTC")), ['"1969-12-31T23:59:59.999999Z"']),
        (pa.array([1500], pa.duration("ms")), ["1500"]),
        (decimals(pa.decimal128(9, 2), "12.34", "-0.5", "0"), ["12.34", "-0.50", "0.00"]),
        (decimals(pa.decimal256(60, 40), "1e-40"), [f"0.{'0' * 39}1"]),
        (decimals(pa.decimal128(5, -3), "12000", "0"), ["12000", "0"]),
        (pa.array([[1, None], [], None]), ["[1,null]", "[]", None]),
        (pa.array([["a"], None], pa.large_list(pa.string())), ['["a"]', None]),
        (pa.array([[1, 2]], pa.list_(pa.int8(), 2)), ["[1,2]"]),
        (
            pa.array([[("a", 1), ("b", None)], []], pa.map_(pa.string(), pa.int8())),
            ['{"a":1,"b":null}', "{}"],
        ),
        (pa.array(["a", None, "a"]).dictionary_encode(), ['"a"', None, '"a"']),
        (pa.nulls(2), [None, None]),
        (pa.array([{}, None], pa.struct([])), ["{}", None]),
        (
            pa.array([{"a": 1, "b": None, "c": {"d": [True]}}, {"a": None, "b": None, "c": None}]),
            ['{"a":1,"c":{"d":[true]}}', "{}"],
        ),
        (
            pa.UnionArray.from_dense(
                pa.array([0, 1, 2, 1], pa.int8()),
                pa.array([0, 0, 0, 1], pa.int32()),
                [pa.array([7]), pa.array(["x", None]), pa.nulls(1)],
            ),
            ["7", '"x"', "null", "null"],
        ),
    ],
)
def test_the_type_of_a_column_says_how_it_is_written(column: Any, expected: list[Any]) -> None:
    assert texts(column) == expected
    for each in expected:
        if each is not None:
            json.loads(each)


def test_fields_that_can_be_null_are_left_out() -> None:
    kind = pa.schema(
        [("a", pa.int8()), pa.field("b", pa.int8(), nullable=False), ("c", pa.int8()),
         pa.field('d"é', pa.int8(), nullable=False), ("e", pa.null())]
    )  # fmt: skip
    rows = [[1, 2, 3, 4], [None, 2, None, 4], [None, 2, 3, 4], [1, 2, None, 4]]
    table = pa.table([*map(pa.array, zip(*rows, strict=True)), pa.nulls(4)], names=kind.names)
    assert texts(table.cast(kind)) == [
        '{"a":1,"b":2,"c":3,"d\\"é":4}',
        '{"b":2,"d\\"é":4}',
        '{"b":2,"c":3,"d\\"é":4}',
        '{"a":1,"b":2,"d\\"é":4}',
    ]
    assert texts(table.cast(kind).select(["c", "a"])) == [
        '{"c":3,"a":1}',
        "{}",
        '{"c":3}',
        '{"a":1}',
    ]


def test_a_null_that_the_column_does_not_allow_is_refused() -> None:
    field = pa.field("b", pa.int8(), nullable=False)
    array = pa.StructArray.from_arrays([pa.array([1, None], pa.int8())], fields=[field])
    with pytest.raises(EncodeError, match=r"row 1, field b: the schema doesn't allow null here"):
        JsonEncoder().encode(array)


# --- JSON Schema ---


@pytest.mark.parametrize(
    ("schema", "column", "expected"),
    [
        ({"type": "integer"}, pa.array([1, -1], pa.int8()), ["1", "-1"]),
        ({"type": "integer"}, pa.array([1], pa.duration("s")), ["1"]),
        ({"type": "number"}, pa.array([1.5], pa.float32()), ["1.5"]),
        ({"type": "number"}, pa.array([(1 << 64) - 1], pa.uint64()), [str((1 << 64) - 1)]),
        ({"type": "number"}, decimals(pa.decimal128(9, 2), "1.5"), ["1.50"]),
        ({"type": "string"}, pa.array([b"ab"]), ['"ab"']),
        ({"type": "string"}, pa.array(["ab"]).dictionary_encode(), ['"ab"']),
        ({"type": "string"}, pa.array([TIME]), ['"2026-11-28T01:02:03.456"']),
        ({"type": "string"}, pa.array([DATE]), ['"2026-11-28"']),
        ({"type": "string"}, decimals(pa.decimal128(9, 2), "-1.5"), ['"-1.50"']),
        ({"type": "string"}, uuids(UUID), [f'"{UUID}"']),
        ({"type": "string", "contentEncoding": "base64"}, pa.array([b"\xff"]), ['"/w=="']),
        ({"type": "string", "format": "uuid"}, pa.array([UUID.bytes], pa.binary(16)), [f'"{UUID}"']),
        ({"type": "string", "format": "uuid"}, pa.array([str(UUID)]), [f'"{UUID}"']),
        ({"type": "string", "format": "date"}, pa.array([DATE], pa.date64()), ['"2026-11-28"']),
        ({"type": "string", "format": "time"}, pa.array([3723], pa.time32("s")), ['"01:02:03Z"']),
        (
            {"type": "string", "format": "date-time"},
            pa.array([TIME], pa.timestamp("ms", "UTC")),
            ['"2026-11-28T01:02:03.456Z"'],
        ),
        ({"enum": ["a", "b", None]}, pa.array(["b", "a", None]), ['"b"', '"a"', None]),
        ({"enum": ['"', "é"]}, pa.array(['"', "é"]).dictionary_encode(), ['"\\""', '"é"']),
        ({"type": "integer", "title": f"{CONNECT}Date"}, pa.array([DATE]), [str(DAYS)]),
        (
            {"type": "integer", "title": f"{CONNECT}Date"},
            pa.array([DATE], pa.date64()),
            [str(DAYS)],
        ),
        ({"type": "integer", "title": f"{CONNECT}Time"}, pa.array([2], pa.time32("s")), ["2000"]),
        (
            {"type": "integer", "title": f"{CONNECT}Timestamp"},
            pa.array([-5_000_000], pa.timestamp("us", "UTC")),
            ["-5000"],
        ),
        (
            {
                "type": "number",
                "title": f"{CONNECT}Decimal",
                "connect.parameters": {"scale": "3", "connect.decimal.precision": "9"},
            },
            decimals(pa.decimal128(5, 1), "-12.5"),
            ["-12.500"],
        ),
        (
            {
                "type": "string",
                "title": f"{CONNECT}Decimal",
                "connect.parameters": {"scale": "2"},
            },
            decimals(pa.decimal128(9, 2), "1.28", "-1.28"),
            ['"AIA="', '"gA=="'],
        ),
        ({"type": "array", "items": {"type": "integer"}}, pa.array([[1, 2], []]), ["[1,2]", "[]"]),
        (
            {"type": "array", "items": {"type": ["integer", "null"]}},
            pa.array([[1, None]]),
            ["[1,null]"],
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())),
            ['{"a":1}'],
        ),
        (
            {"type": "object", "additionalProperties": {"type": ["integer", "null"]}},
            pa.array([[{"key": "a", "value": None}]], pa.list_(pa.struct({"key": pa.string(), "value": pa.int8()}))),
            ['{"a":null}'],
        ),
        ({}, pa.array(['{"a": [1, "x"]}', " 1 "]), ['{"a": [1, "x"]}', " 1 "]),
        ({}, pa.array([{"a": [1]}]), ['{"a":[1]}']),
        ({"type": ["string", "integer"]}, pa.array([5]), ["5"]),
    ],
)  # fmt: skip
def test_a_json_schema_says_how_a_column_is_written(
    schema: Any, column: Any, expected: list[Any]
) -> None:
    assert texts(column, schema) == expected
    assert texts(column, json.dumps(schema)) == expected


def test_required_says_which_nulls_are_left_out() -> None:
    null_or_int = {"type": ["integer", "null"]}
    schema = objects(("a", null_or_int), ("b", {"type": "integer"}), ("c", null_or_int),
                     ("d", null_or_int), required=["c", "d"])  # fmt: skip
    table = pa.table({"a": [1, None], "c": [None, 2], "b": pa.array([None, 1])})
    assert texts(table, schema) == ['{"a":1,"c":null,"d":null}', '{"b":1,"c":2,"d":null}']
    with pytest.raises(SchemaError, match="b: there is no such column, and the field is required"):
        texts(table.drop_columns("b"), schema | {"required": ["b"]})
    with pytest.raises(EncodeError, match="row 0, field b: the schema doesn't allow null"):
        texts(table, schema | {"required": ["b"]})


def test_references_lead_to_other_schemas() -> None:
    schema = objects(("place", {"$ref": "place.json"}))
    table = pa.table({"place": [{"zip": 1}]})
    references = {"place.json": objects(("zip", {"type": "integer"}))}
    assert texts(table, schema, references=references) == ['{"place":{"zip":1}}']


# --- Arrow schemas ---


def test_an_arrow_schema_orders_the_fields() -> None:
    schema = pa.schema(
        [("b", pa.uint8()), pa.field("a", pa.string(), nullable=False), ("c", pa.float64())]
    )
    table = pa.table({"a": ["x", "y"], "b": [1, None]})
    assert texts(table, schema) == ['{"b":1,"a":"x"}', '{"a":"y"}']
    with pytest.raises(EncodeError, match="row 0, field b: the number is out of the range"):
        texts(table.set_column(1, "b", pa.array([256, 1])), schema)


def test_json_text_of_the_extension_type_is_copied() -> None:
    if not hasattr(pa, "json_"):
        pytest.skip("this pyarrow has no extension type for JSON")
    column = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a":1}', "[]"]))
    assert texts(pa.table({"j": column})) == ['{"j":{"a":1}}', '{"j":[]}']
    bad = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{", "[]"]))
    with pytest.raises(EncodeError, match="row 0, field j: an object of the JSON text lacks a key"):
        texts(pa.table({"j": bad}))


# --- what is refused ---


@pytest.mark.parametrize(
    ("column", "schema", "problem"),
    [
        (pa.array([1.5, float("nan")]), None, "row 1, the record: JSON has neither NaN nor inf"),
        (pa.array([float("-inf")], pa.float32()), None, "JSON has neither NaN nor infinity"),
        (pa.array([float("inf")]).cast(pa.float16()), None, "JSON has neither NaN nor infinity"),
        (pa.array([2932897], pa.int32()).cast(pa.date32()), None, "year isn't between 0000 and"),
        (pa.array([-(10**18)], pa.timestamp("s")), None, "the year isn't between 0000 and 9999"),
        (pa.array([86400], pa.int32()).view(pa.time32("s")), None, "the time isn't within a day"),
        (pa.array([1], pa.int64()).view(pa.date64()), None, "the date isn't at midnight"),
        (pa.array([b"\xff"]).view(pa.string()), None, "the text isn't UTF-8"),
        (pa.array([b"a\xc3" + b"\n" * 9]).view(pa.string()), None, "the text isn't UTF-8"),
        (pa.array([128]), {"type": "integer", "connect.type": "int8"}, "out of the range"),
        (pa.array([1 << 63], pa.uint64()), {"type": "integer"}, "out of the range of the field"),
        (pa.array(["c"]), {"enum": ["a", "b"]}, "the enum has no such symbol"),
        (pa.array(["x"]), {"type": "string", "format": "uuid"}, "the text isn't a UUID"),
        (pa.array(["[1"]), {}, "an object or list of the JSON text doesn't end"),
        (pa.array(["[" * 600 + "]" * 600]), {}, "nested too deeply"),
        (pa.array([b"\xff"]).view(pa.string()), {}, "the text isn't UTF-8"),
        (pa.array([[None]], pa.list_(pa.int8())), {"type": "array", "items": {"type": "integer"}},
         r"field \[\]: the schema doesn't allow null here"),
        (pa.array([1], pa.timestamp("us", "UTC")),
         {"type": "integer", "title": f"{CONNECT}Timestamp"}, "unit is too coarse"),
        (pa.array([1 << 62], pa.timestamp("s", "UTC")),
         {"type": "integer", "title": f"{CONNECT}Timestamp"}, "the time is out of range"),
        (decimals(pa.decimal128(9, 3), "1.005"),
         {"type": "number", "title": f"{CONNECT}Decimal", "connect.parameters": {"scale": "2"}},
         "the schema's scale has too few digits"),
        (pa.array([b"abc"]), pa.schema([("f", pa.binary(2))]).field(0), "has another size"),
    ],
)  # fmt: skip
def test_values_that_json_or_the_schema_cannot_have(column: Any, schema: Any, problem: str) -> None:
    with pytest.raises(EncodeError, match=problem):
        texts(column, schema)


@pytest.mark.parametrize(
    ("column", "schema", "problem"),
    [
        (pa.array([1]), {"type": "string"}, "a column of int64 can't be encoded as a string"),
        (pa.array(["a"]), {"type": "integer"}, "a column of string can't be encoded as an integer"),
        (pa.array(["a"]), {"type": "number"}, "a column of string can't be encoded as a number"),
        (pa.array([1]), {"type": "null"}, "a column of int64 can't be encoded as null"),
        (pa.array([1]), {"type": "boolean"}, "a column of int64 can't be encoded as boolean"),
        (pa.array([1]), objects(("a", {})), "can't be encoded as an object"),
        (pa.array([{"a": 1}]), {"type": "array", "items": {}}, "can't be encoded as an array"),
        (pa.array([[1]]), {"type": "object", "additionalProperties": {}}, "column of list can't"),
        (pa.array([TIME]), {"type": "string", "format": "date-time"}, "needs a time zone: cast it"),
        (pa.array([DATE]), {"type": "string", "format": "date-time"}, "a column of date32 can't"),
        (pa.array([1.5]), {"type": "number", "connect.type": "float32"}, "cast the column"),
        (pa.array([1], pa.duration("ms")), pa.field("d", pa.duration("s")), "has another unit"),
        (pa.array([{"a": 1, "x": 2}]), objects(("a", {})), "x: the schema has no such field"),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), None, "can't be encoded"),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), {}, "can't be encoded"),
        (pa.array([[(1, 2)]], pa.map_(pa.int8(), pa.int8())), None, "keys of a map must be str"),
        (pa.array([[1]], pa.list_view(pa.int8())), None, "column of list_view can't be encoded"),
        (
            pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]),
            None,
            "two columns of the struct have one name",
        ),
    ],
)
def test_columns_that_do_not_fit(column: Any, schema: Any, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        texts(column, schema)


def test_extra_columns_are_left_out_on_request() -> None:
    table = pa.table({"a": [1], "x": [2]})
    assert texts(table, objects(("a", {"type": "integer"})), ignore_extra=True) == ['{"a":1}']


def test_a_malformed_schema_is_refused() -> None:
    for schema in ("{", "5", [], {"type": "text"}):
        with pytest.raises(SchemaError):
            JsonEncoder(schema)


# --- rows, chunks, prefix ---


def test_records_begin_with_the_prefix_and_keep_their_order() -> None:
    table = pa.concat_tables([pa.table({"a": [1, 2]}), pa.table({"a": [3]})])
    encoder = JsonEncoder(prefix=b"\0\0\0\0\7")
    found = pa.chunked_array(encoder.encode(table))
    assert found.to_pylist() == [b"\0\0\0\0\7" + b'{"a":%d}' % number for number in (1, 2, 3)]
    assert encoder.prefix == b"\0\0\0\0\7"


def test_long_texts_grow_the_column() -> None:
    values = ["\n" * 5000, "x" * 100_000, "", "é" * 3000, "\x00" * 1025]
    assert [json.loads(each or "") for each in texts(pa.array(values))] == values


def test_what_connect_and_the_decoder_have_written_comes_back() -> None:
    schema = objects(
        ("id", {"type": "integer", "connect.type": "int32"}),
        ("at", {"type": "string", "format": "date-time"}),
        ("any", {"type": ["string", "object"]}),
        required=["id"],
    )
    records = [b'{"id":5,"at":"2026-11-28T01:02:03Z","any":{"x":[1]}}', b'{"id":6,"any":"t"}', None]
    column = JsonDecoder(schema).decode(records)
    assert pa.chunked_array(JsonEncoder(schema).encode(column)).to_pylist() == records
