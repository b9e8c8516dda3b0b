"""Avro schemas: their resolution, their defaults, and each error with its field."""

from __future__ import annotations

import datetime
import decimal
import json
import threading
from typing import Any

import pyarrow as pa
import pytest

from kafka_native._native import codec_core
from kafka_native._native.primitives import varint_encode
from kafka_native.codecs import AvroDecoder, DecodeError, SchemaError
from tests.codecs import avro_schemas as avro

Schema = Any


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    made = [
        {"name": each[0], "type": each[1], **(each[2] if len(each) > 2 else {})} for each in fields
    ]
    return {"type": "record", "name": name, "fields": made, **more}


def read(writer: Schema, value: Any, reader: Schema | None = None, **options: Any) -> Any:
    """Return a value as the writer writes it and the reader reads it."""
    data = avro.encode(avro.bare(writer), value)
    array = pa.array(AvroDecoder(writer, reader, **options).decode([data]))
    array.validate(full=True)
    return array[0].as_py()


# --- types ---


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ("boolean", pa.bool_()),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        ({"type": "int", "logicalType": "time-millis"}, pa.time32("ms")),
        ({"type": "long", "logicalType": "time-micros"}, pa.time64("us")),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("ms", "UTC")),
        ({"type": "long", "logicalType": "timestamp-nanos"}, pa.timestamp("ns", "UTC")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            pa.decimal128(4, 2),
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 40}, pa.decimal256(40, 0)),
        ({"type": "string", "logicalType": "uuid"}, pa.binary(16)),
        (
            {"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"},
            pa.month_day_nano_interval(),
        ),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.dictionary(pa.int32(), pa.string())),
        ({"type": "fixed", "name": "F", "size": 3}, pa.binary(3)),
        # invalid logical types are ignored
        ({"type": "string", "logicalType": "date"}, pa.string()),
        ({"type": "long", "logicalType": "no-such-type"}, pa.int64()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, pa.binary()),
        ({"type": "bytes", "logicalType": "decimal"}, pa.binary()),
        (
            {"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal", "precision": 3},
            pa.binary(1),
        ),
        ({"type": "fixed", "name": "F", "size": 3, "logicalType": "uuid"}, pa.binary(3)),
    ],
)
def test_type_of_a_column(schema: Schema, kind: pa.DataType) -> None:
    decoder = AvroDecoder(
        record(
            ("f", schema),
            ("g", ["null", schema] if isinstance(schema, str) or "name" not in schema else "null"),
        )
    )
    found = pa.DataType._import_from_c_capsule(decoder.__arrow_c_schema__())
    assert found.field("f").type == kind
    assert not found.field("f").nullable
    assert found.field("g").nullable


def test_duration_and_uuid_of_a_fixed() -> None:
    duration = {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}
    data = b"".join(n.to_bytes(4, "little") for n in (14, 3, 4_000_000_000))
    assert read(record(("f", duration)), {"f": data})["f"] == pa.MonthDayNano(
        [14, 3, 4_000_000_000_000_000]
    )
    uuid = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
    assert read(record(("f", uuid)), {"f": bytes(range(16))})["f"] == bytes(range(16))


def test_a_union_of_several_types_is_a_dense_union() -> None:
    schema = record(("f", ["string", "null", "long", {"type": "array", "items": "int"}]))
    data = [avro.encode(schema, {"f": value}) for value in ("a", None, 7, [1, 2], "b")]
    array = pa.array(AvroDecoder(schema).decode(data))
    array.validate(full=True)
    assert pa.types.is_union(array.type.field("f").type)
    assert array.field("f").to_pylist() == ["a", None, 7, [1, 2], "b"]


@pytest.mark.parametrize("digits", [1, 18, 37, 38, 39, 75, 76])
def test_a_decimal_has_at_most_its_digits(digits: int) -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": 1}
    decoder = AvroDecoder(record(("f", kind)))
    limit = 10**digits
    for number in (limit - 1, 1 - limit, 0, -1, 128, -128, -129):
        if abs(number) >= limit:
            continue
        data = avro.encode("bytes", avro.decimal_bytes(kind, number))
        array = pa.array(decoder.decode([data])).field("f")
        array.validate(full=True)
        exact = decimal.Context(prec=80)
        assert array[0].as_py() == decimal.Decimal(number).scaleb(-1, exact), number
    for number in (limit, -limit, limit * 1000, -limit * 1000, 1 << 127, 1 << 255, -(1 << 255)):
        if abs(number) < limit:
            continue
        data = avro.encode("bytes", avro.decimal_bytes(kind, number))
        with pytest.raises(DecodeError, match="a decimal has too many digits"):
            decoder.decode([data])


@pytest.mark.parametrize("branches", [["int", "string"], ["int", "string", "null"]])
def test_a_missing_record_of_a_union_is_null(branches: Schema) -> None:
    data = [avro.encode(branches, 5), None, avro.encode(branches, "x"), b"\x08"]
    array = pa.array(AvroDecoder(branches).decode(data, on_error="null"))
    array.validate(full=True)
    assert array.to_pylist() == [5, None, "x", None]


def test_named_types_namespaces_and_references() -> None:
    point = record(("x", "int"), ("y", "int"), name="Point", namespace="shapes")
    line = record(("a", "Point"), ("b", "shapes.Point"), name="shapes.Line")
    data = avro.encode(
        record(("a", point), ("b", "Point"), name="shapes.Line"),
        {"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 4}},
    )
    column = AvroDecoder(json.dumps(line), references=[json.dumps(point)]).decode([data])
    assert pa.array(column)[0].as_py() == {"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 4}}


# --- resolution ---


@pytest.mark.parametrize(
    ("writer", "value", "reader", "expected"),
    [
        ("int", -5, "long", -5),
        ("int", 5, "float", 5.0),
        ("int", 5, "double", 5.0),
        ("long", 1 << 40, "float", float(1 << 40)),
        ("long", -(1 << 40), "double", float(-(1 << 40))),
        ("float", 1.5, "double", 1.5),
        ("string", "é", "bytes", "é".encode()),
        ("bytes", "é".encode(), "string", "é"),
        ("int", 5, ["null", "long"], 5),
        ("null", None, ["null", "long"], None),
        (["null", "int"], 5, ["long", "null"], 5),
        (["null", "int"], None, ["long", "null"], None),
        (["int", "string"], 5, "long", None),
        (["null", "int"], 5, "int", 5),
        (["int"], 5, "int", 5),
        ("int", 5, ["int"], 5),
        ("int", 5, ["string", "long", "double"], 5),
        ("int", 5, ["long", "int"], 5),
        (["int", "null", "string"], "s", ["null", "string", "double"], "s"),
        (["int", "null", "string"], 5, ["null", "string", "double"], 5.0),
        ({"type": "array", "items": "int"}, [1, 2], {"type": "array", "items": "long"}, [1, 2]),
        (
            {"type": "map", "values": "int"},
            {"a": 1},
            {"type": "map", "values": "double"},
            [("a", 1.0)],
        ),
    ],
)
def test_a_value_is_promoted(writer: Schema, value: Any, reader: Schema, expected: Any) -> None:
    written, wanted = record(("f", writer)), record(("f", reader))
    if writer == [
        "int",
        "string",
    ]:  # its string branch doesn't resolve: only a record with it fails
        assert read(written, {"f": 5}, wanted) == {"f": 5}
        with pytest.raises(DecodeError, match="branch of a union doesn't fit") as caught:
            read(written, {"f": "s"}, wanted)
        assert caught.value.path == "f"
        return
    assert read(written, {"f": value}, wanted) == {"f": expected}


def test_fields_are_reordered_renamed_skipped_and_filled() -> None:
    inner = record(("x", "int"), name="Inner")
    writer = record(
        ("a", "int"),
        ("b", "string"),
        ("skipped", {"type": "map", "values": ["null", inner]}),
        ("list", {"type": "array", "items": {"type": "array", "items": "double"}}),
        ("c", "boolean"),
    )
    reader = record(
        ("c", "boolean"),
        ("extra", ["null", "string"], {"default": None}),
        ("renamed", "string", {"aliases": ["b"]}),
        ("number", "long", {"default": -7}),
        ("a", "long"),
        ("list2", {"type": "array", "items": "string"}, {"default": ["p", "q"]}),
        name="Other",
        aliases=["R"],
    )
    value = {
        "a": 1,
        "b": "two",
        "skipped": {"k": {"x": 3}, "n": None},
        "list": [[1.0], []],
        "c": True,
    }
    expected = {
        "c": True,
        "extra": None,
        "renamed": "two",
        "number": -7,
        "a": 1,
        "list2": ["p", "q"],
    }
    assert read(writer, value, reader) == expected
    assert avro.decode(avro.encode(writer, value), writer, reader) == expected


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        ("boolean", True, True),
        ("float", 1, 1.0),
        ("bytes", "\u00ff\u0001", b"\xff\x01"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u0000\u00fe", b"\x00\xfe"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        ({"type": "map", "values": "int"}, {"k": 1}, [("k", 1)]),
        ({"type": "map", "values": "int"}, {}, []),
        (
            record(("x", "int"), ("y", "string", {"default": "d"}), name="In"),
            {"x": 4},
            {"x": 4, "y": "d"},
        ),
        (["int", "null", "string"], 5, 5),
        (["null", "int"], 5, 5),
        ({"type": "int", "logicalType": "date"}, 1, datetime.date(1970, 1, 2)),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
            "\u0001\u0000",
            decimal.Decimal("2.56"),
        ),
    ],
)
def test_a_missing_field_has_its_default(kind: Schema, default: Any, expected: Any) -> None:
    reader = record(("f", kind, {"default": default}), ("a", "int"))
    column = AvroDecoder(record(("a", "int")), reader).decode([b"\x02", b"\x04"])
    array = pa.array(column)
    array.validate(full=True)
    assert [row["f"].as_py() if hasattr(row["f"], "as_py") else row["f"] for row in array] == [
        expected
    ] * 2
    assert array.field("a").to_pylist() == [1, 2]


def test_symbols_are_mapped_and_unknown_ones_have_a_default() -> None:
    writer = record(("e", {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}))
    reader = record(("e", {"type": "enum", "name": "E", "symbols": ["C", "A"]}))
    assert read(writer, {"e": "A"}, reader) == {"e": "A"}
    with pytest.raises(DecodeError, match="field e, byte 0: the reader's enum lacks a symbol"):
        read(writer, {"e": "B"}, reader)
    reader["fields"][0]["type"]["default"] = "C"
    assert read(writer, {"e": "B"}, reader) == {"e": "C"}


# --- projection ---


def test_a_projection_keeps_the_chosen_fields_and_reads_no_further() -> None:
    address = record(("city", "string"), ("zip", "int"), name="Address")
    schema = record(
        ("id", "long"),
        ("home", ["null", address]),
        ("all", {"type": "array", "items": "Address"}),
        ("tail", "string"),
    )
    home = {"city": "Ulm", "zip": 1}
    data = avro.encode(schema, {"id": 1, "home": home, "all": [home, home], "tail": "x"})
    column = AvroDecoder(schema, fields=["all.city", "home.zip"]).decode([data, data[:-2]])
    expected = {"home": {"zip": 1}, "all": [{"city": "Ulm"}] * 2}
    assert pa.array(column).to_pylist() == [expected] * 2
    for wrong in (["nothing"], ["home.nothing"], ["id.x"]):
        with pytest.raises(SchemaError, match=r"no such field|only records"):
            AvroDecoder(schema, fields=wrong)
    with pytest.raises(TypeError, match="not one str"):
        AvroDecoder(schema, fields="id")


# --- errors ---


NODE = record(("next", ["null", "Node"]), name="Node")


@pytest.mark.parametrize(
    ("writer", "reader", "message"),
    [
        ("{", None, "the schema isn't JSON"),
        ('"strange"', None, "there is no type 'strange'"),
        (record(("f", "strange")), None, "f: there is no type 'strange'"),
        (NODE, None, "next: the type Node contains itself"),
        (
            record(("f", {"type": "array", "items": NODE})),
            None,
            r"f\[\].next: the type Node contains",
        ),
        (record(("f", ["int", "int"])), None, "f: a union has a type twice"),
        (record(("f", ["int", ["null"]])), None, "f: a union is directly in a union"),
        (record(("f", [])), None, "f: a union has no branch"),
        (
            record(("f", {"type": "enum", "name": "E", "symbols": []})),
            None,
            "f: an enum has no symbols",
        ),
        (
            record(("f", {"type": "fixed", "name": "F", "size": -1})),
            None,
            "f: a fixed can't have -1",
        ),
        (record(("f", {"type": "array"})), None, "f: 'items' is missing"),
        (record(("f", "int"), ("f", "int")), None, "a field occurs twice"),
        (record(("f-g", "int")), None, "a field can't be named 'f-g'"),
        (record(("f", 5)), None, "f: a type can't be 5"),
        (
            record(("f", {"type": "bytes", "logicalType": "decimal", "precision": 77})),
            None,
            "f: a decimal of 77",
        ),
        (
            record(("f", "long")),
            record(("f", "int")),
            "f: the reader's int can't read the writer's long",
        ),
        (
            record(("f", "string")),
            record(("f", ["int", "long"])),
            "f: no branch of the reader's union",
        ),
        (record(), record(("f", "int")), "f: the writer's schema lacks this field"),
        (record(), record(("f", "int", {"default": "x"})), "f: the default 'x' isn't a int"),
        (
            record(),
            record(("f", "float", {"default": 1e300})),
            "f: the default 1e.300 isn't a float",
        ),
        (
            record(),
            record(("f", "double", {"default": 10**400})),
            "f: the default 10+ isn't a double",
        ),
        (
            record(),
            record(("f", "string", {"default": "\ud800"})),
            r"f: the default .* isn't a string",
        ),
        (
            record(),
            record(("f", {"type": "map", "values": "int"}, {"default": {"\udfff": 1}})),
            r"f: the default .* isn't a map",
        ),
        (
            record(("f", {"type": "enum", "name": "E", "symbols": ["A", "\ud800"]})),
            None,
            "f: the symbols of an enum must be different names",
        ),
        (record(aliases=5), None, "aliases are a list of names"),
        (record(aliases="R1"), None, "aliases are a list of names"),
        (record(("f", "int", {"aliases": {"a": 1}})), None, "f: aliases are a list of names"),
        (record(("f", "int", {"aliases": [1]})), None, "f: aliases are a list of names"),
        (record(), record(name="S"), "the writer's R isn't the reader's S"),
        (
            record(("f", {"type": "long", "logicalType": "timestamp-millis"})),
            record(("f", {"type": "long", "logicalType": "timestamp-micros"})),
            "f: the writer's timestamp-millis isn't the reader's timestamp-micros",
        ),
        (
            record(("f", {"type": "fixed", "name": "F", "size": 1})),
            record(("f", {"type": "fixed", "name": "F", "size": 2})),
            "f: the writer has 1 bytes, the reader 2",
        ),
    ],
)
def test_a_bad_schema_is_refused_with_its_field(
    writer: Schema, reader: Schema, message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        AvroDecoder(writer, reader)


def nested(depth: int) -> Schema:
    schema: Schema = "int"
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def test_nesting_has_a_limit() -> None:
    assert read(record(("f", nested(40))), {"f": []}) == {"f": []}
    with pytest.raises(SchemaError, match="nested deeper than"):
        AvroDecoder(nested(60))


@pytest.mark.parametrize("depth", [100, 150])
def test_named_types_in_each_other_have_a_limit(depth: int) -> None:
    inner: Schema = "int"
    fields = []
    for i in range(depth):
        for _ in range(3):
            inner = {"type": "array", "items": inner}
        fields.append((f"f{i}", record(("x", inner), name=f"R{i}")))
        inner = f"R{i}"
    schema = record(*fields, name="Top")
    with pytest.raises(SchemaError, match="nested too deep"):
        AvroDecoder(schema)
    with pytest.raises(SchemaError, match="nested too deep"):
        AvroDecoder(record(("f0", "int"), name="Top"), schema)


def test_the_number_of_types_has_a_limit() -> None:
    """The schema is small, but has billions of fields."""
    schema = record(("x", "int"), name="R0")
    for i in range(1, 20):
        before = f"R{i - 1}"
        schema = record(("a", schema), ("b", before), ("c", before), ("d", before), name=f"R{i}")
    for writer, reader in ((schema, None), (record(("x", schema)), record())):
        with pytest.raises(SchemaError, match="more than 65536 types"):
            AvroDecoder(writer, reader)
    small = schema["fields"][0]["type"]
    while small["name"] != "R3":
        small = small["fields"][0]["type"]
    column = AvroDecoder(small).decode([bytes(64)])
    assert pa.array(column).type.num_fields == 4


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        ("boolean", b"\x02", "neither 0 nor 1"),
        ("int", b"\x80\x80\x80\x80\x10", "too many bits"),
        ("int", b"\x80", "ends too early"),
        ("double", b"1234567", "ends too early"),
        ("string", b"\x04\xff\xff", "isn't UTF-8"),
        ("bytes", b"\x03", "negative"),
        ({"type": "string", "logicalType": "uuid"}, b"\x48" + b"0" * 36, "UUID is malformed"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 5},
            b"\x22\x01" + bytes(16),
            "too many digits",
        ),
        (
            {"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"},
            b"\xff" * 12,
            "out of its range",
        ),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "no such symbol"),
        ({"type": "array", "items": "null"}, b"\x80\x80\x80\x80\x08\x00", "too many empty items"),
        (
            {"type": "array", "items": ["null", {"type": "fixed", "name": "F", "size": 1 << 20}]},
            b"\xc8\x01" + bytes(101),
            "too many bytes",
        ),
    ],
)
def test_a_bad_record_is_refused_with_its_field(kind: Schema, data: bytes, message: str) -> None:
    decoder = AvroDecoder(record(("a", "int"), ("f", kind)))
    with pytest.raises(DecodeError, match=message) as caught:
        decoder.decode([b"\x02" + data])
    assert (caught.value.row, caught.value.path.rstrip("[]"), caught.value.position) == (0, "f", 1)
    column = decoder.decode([b"\x02" + data, None], on_error="null")
    assert pa.array(column).to_pylist() == [None, None]
    assert [str(each) for each in column.errors] == [str(caught.value)]


@pytest.mark.parametrize(
    ("writer", "unit", "day"),
    [
        ("int", "millis", 86_400_000),
        ("long", "micros", 86_400_000_000),
    ],
)
def test_a_time_outside_of_the_day_is_an_error_of_its_record(
    writer: str, unit: str, day: int
) -> None:
    kind = {"type": writer, "logicalType": f"time-{unit}"}
    decoder = AvroDecoder(
        record(("a", "int"), ("t", kind), ("l", {"type": "array", "items": kind}))
    )
    ticks = [0, day - 1, day, -1]
    times = [b"\x02" + varint_encode(each) + b"\x00" for each in ticks]
    items = [b"\x02\x00\x02" + varint_encode(each) + b"\x00" for each in ticks]
    column = decoder.decode([*times, *items], on_error="null")
    array = pa.array(column)
    array.validate(full=True)
    assert array.is_valid().to_pylist() == [True, True, False, False] * 2
    assert array[1]["t"].value == day - 1
    assert [(each.row, each.path, each.position) for each in column.errors] == [
        (2, "t", 1),
        (3, "t", 1),
        (6, "l[]", 3),
        (7, "l[]", 3),
    ]
    assert {each.problem for each in column.errors} == {"a time is outside of the day"}


def test_an_int_that_becomes_a_time_is_within_the_day() -> None:
    micros = record(("t", {"type": "long", "logicalType": "time-micros"}))
    decoder = AvroDecoder(record(("t", "int")), micros)
    column = decoder.decode([varint_encode(5), varint_encode(-1)], on_error="null")
    assert pa.array(column).to_pylist() == [{"t": datetime.time(microsecond=5)}, None]


def test_a_full_column_ends_before_the_record() -> None:
    decoder = AvroDecoder(record(("s", "string")))
    decoded = decoder._program.decode([b"\x08abcd"] * 5, bytes_max=11)
    assert (len(decoded), decoded.full, decoded.errors) == (2, True, [])
    assert not decoder.decode([b"\x08abcd"] * 5).is_full


def test_wrong_arguments_are_refused() -> None:
    decoder = AvroDecoder(record(("s", "string")))
    with pytest.raises(TypeError, match="bytes or None, not str"):
        decoder.decode(["x"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="on_error"):
        decoder.decode([], on_error="column")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Decoded is made by a program"):
        codec_core.Decoded(None)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="instruction 0"):
        codec_core.AvroProgram(decoder._program.layout, [(0, 0, 0, 0, 0)], [], b"")
    with pytest.raises(ValueError, match="isn't one tree"):
        codec_core.Layout([])


TEXTS = [b"\x02a", None, b"\x04bc", b"\x00", b"\x02d"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(TEXTS, pa.binary()),
        pa.array(TEXTS, pa.large_binary()),
        pa.array(TEXTS, pa.binary_view()),
        pa.array([b"before", *TEXTS], pa.binary())[1:],
        pa.array(TEXTS, pa.binary()).dictionary_encode(),
        pa.chunked_array([TEXTS[:2], [], TEXTS[2:]], pa.binary()),
    ],
    ids=lambda column: f"{type(column).__name__} of {column.type}",
)
def test_records_may_be_a_binary_column(column: Any) -> None:
    decoded = AvroDecoder(record(("s", "string"))).decode(column)
    values = ["a", None, "bc", "", "d"]
    assert pa.array(decoded).to_pylist() == [
        None if each is None else {"s": each} for each in values
    ]


def test_errors_in_a_column_count_the_rows_of_all_chunks() -> None:
    decoder = AvroDecoder(record(("s", "string")))
    column = pa.chunked_array([TEXTS, [b"\x04x", b"\x02y"], [b"\x08z"]], pa.binary())
    with pytest.raises(DecodeError, match="record 5, field s, byte 0"):
        decoder.decode(column)
    decoded = decoder.decode(column, on_error="null")
    assert [each.row for each in decoded.errors] == [5, 7]
    assert pa.array(decoded).to_pylist()[5:] == [None, {"s": "y"}, None]
    for wrong in (pa.array([1]), pa.chunked_array([[1.0]]), pa.array([[b"x"]])):
        with pytest.raises(TypeError, match="must be binary"):
            decoder.decode(wrong)


def test_a_column_outlives_its_decoder_and_its_thread() -> None:
    arrays: list[pa.Array] = []

    def work() -> None:
        decoder = AvroDecoder(record(("s", "string")))
        arrays.append(pa.array(decoder.decode([b"\x08abcd"] * 1000)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert arrays.pop().field("s").to_pylist() == ["abcd"] * 1000
