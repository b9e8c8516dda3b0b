"""Arrow columns as Protobuf messages: protobuf's own parser reads what the columns had."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, duration_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToJson, Parse
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Value
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_native.codecs import EncodeError, ProtobufDecoder, ProtobufEncoder, SchemaError
from kafka_native.codecs.protobuf_descriptors import message_of

QUIET = settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
UTC = datetime.timezone.utc
FIELD = descriptor_pb2.FieldDescriptorProto
SIGNED_32 = st.integers(-(1 << 31), (1 << 31) - 1)
SIGNED_64 = st.integers(-(1 << 63), (1 << 63) - 1)
# name of a scalar type: its Arrow type, its values
SCALARS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "int64": (pa.int64(), SIGNED_64),
    "uint64": (pa.uint64(), st.integers(0, (1 << 64) - 1)),
    "int32": (pa.int32(), SIGNED_32),
    "fixed64": (pa.uint64(), st.integers(0, (1 << 64) - 1)),
    "fixed32": (pa.uint32(), st.integers(0, (1 << 32) - 1)),
    "bool": (pa.bool_(), st.booleans()),
    "string": (pa.string(), st.text(max_size=200)),
    "bytes": (pa.binary(), st.binary(max_size=200)),
    "uint32": (pa.uint32(), st.integers(0, (1 << 32) - 1)),
    "sfixed32": (pa.int32(), SIGNED_32),
    "sfixed64": (pa.int64(), SIGNED_64),
    "sint32": (pa.int32(), SIGNED_32),
    "sint64": (pa.int64(), SIGNED_64),
}
SPAN_MAX_US = 315_576_000_000 * 10**6  # of a Duration
ENUM_NAMES = ["ZERO", "LOW", "HIGH"]
WRAPPED = {"DoubleValue": "double", "UInt64Value": "uint64", "StringValue": "string"}


def add_field(message: Any, name: str, number: int, kind: str, **more: Any) -> Any:
    """Add a field. The kind is a scalar type or the name of a message or enum."""
    field = message.field.add(name=name, number=number, label=more.pop("label", 1))
    if kind in SCALARS:
        field.type = getattr(FIELD, f"TYPE_{kind.upper()}")
    else:
        field.type = FIELD.TYPE_ENUM if kind.endswith("Level") else FIELD.TYPE_MESSAGE
        field.type_name = kind
    for key, value in more.items():
        setattr(field, key, value)
    return field


def add_map(message: Any, name: str, number: int, key: str, value: str) -> None:
    entry = message.nested_type.add(name=f"{name.title()}Entry")
    entry.options.map_entry = True
    add_field(entry, "key", 1, key)
    add_field(entry, "value", 2, value)
    add_field(message, name, number, f".p.Row.{entry.name}", label=3)


def make_file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="row.proto", package="p", syntax="proto3")
    known = [each.DESCRIPTOR for each in (timestamp_pb2, duration_pb2, wrappers_pb2)]
    file.dependency.extend(each.name for each in known)
    enum = file.enum_type.add(name="Level")
    for name, number in zip(ENUM_NAMES, (0, 1, -7), strict=True):
        enum.value.add(name=name, number=number)
    inner = file.message_type.add(name="Inner")
    add_field(inner, "a", 1, "int32")
    add_field(inner, "text", 300, "string")
    row = file.message_type.add(name="Row")
    for number, kind in enumerate(SCALARS, 1):
        add_field(row, f"one_{kind}", number, kind)
        add_field(row, f"many_{kind}", 100 + number, kind, label=3)
    add_field(row, "level", 50, ".p.Level")
    add_field(row, "levels", 51, ".p.Level", label=3)
    add_field(row, "inner", 52, ".p.Inner")
    add_field(row, "inners", 53, ".p.Inner", label=3)
    add_map(row, "texts", 54, "string", "int64")
    add_map(row, "nested", 55, "sint32", ".p.Inner")
    add_field(row, "at", 56, ".google.protobuf.Timestamp")
    add_field(row, "span", 57, ".google.protobuf.Duration")
    for number, name in enumerate(WRAPPED, 60):
        add_field(row, f"w_{name}", number, f".google.protobuf.{name}")
    row.oneof_decl.add(name="choice")
    row.oneof_decl.add(name="_maybe")
    add_field(row, "left", 70, "int32", oneof_index=0)
    add_field(row, "right", 71, "string", oneof_index=0)
    add_field(row, "maybe", 72, "int32", oneof_index=1, proto3_optional=True)
    return file


def make_class(file: Any, name: str) -> Any:
    pool = DescriptorPool()
    for each in (timestamp_pb2, duration_pb2, wrappers_pb2):
        pool.AddSerializedFile(each.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(name))


ROW = make_class(make_file(), "p.Row")
INNER = pa.struct([("a", pa.int32()), ("text", pa.string())])
INNERS = st.fixed_dictionaries({"a": st.none() | SIGNED_32, "text": st.none() | st.text()})
TYPES: dict[str, pa.DataType] = {
    **{f"one_{name}": kind for name, (kind, _) in SCALARS.items()},
    **{f"many_{name}": pa.list_(kind) for name, (kind, _) in SCALARS.items()},
    "level": pa.dictionary(pa.int8(), pa.string()),
    "levels": pa.list_(pa.string()),
    "inner": INNER,
    "inners": pa.large_list(INNER),
    "texts": pa.map_(pa.string(), pa.int64()),
    "nested": pa.map_(pa.int32(), INNER),
    "at": pa.timestamp("us", "UTC"),
    "span": pa.duration("us"),
    **{f"w_{name}": SCALARS[kind][0] for name, kind in WRAPPED.items()},
    "left": pa.int32(),
    "right": pa.string(),
    "maybe": pa.int32(),
}
MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **{f"one_{name}": each for name, (_, each) in SCALARS.items()},
    **{f"many_{name}": st.lists(each, max_size=5) for name, (_, each) in SCALARS.items()},
    "level": st.sampled_from(ENUM_NAMES),
    "levels": st.lists(st.sampled_from(ENUM_NAMES), max_size=3),
    "inner": INNERS,
    "inners": st.lists(INNERS, max_size=3),
    "texts": st.dictionaries(st.text(max_size=5), SIGNED_64, max_size=3),
    "nested": st.dictionaries(SIGNED_32, INNERS, max_size=3),
    "at": MICROS,
    "span": st.integers(-SPAN_MAX_US, SPAN_MAX_US),
    **{f"w_{name}": SCALARS[kind][1] for name, kind in WRAPPED.items()},
    "maybe": SIGNED_32,
}


def fill(message: Any, row: dict[str, Any]) -> Any:
    """Set the fields of a message as the row has them."""
    for name, value in row.items():
        if value is None:
            continue
        if name == "inner":
            message.inner.SetInParent()
            fill(message.inner, value)
        elif name == "inners":
            for each in value:
                fill(message.inners.add(), each)
        elif name == "texts":
            message.texts.update(value)
        elif name == "nested":
            for key, each in value.items():
                fill(message.nested[key], each)
        elif name in ("at", "span"):
            getattr(message, name).FromMicroseconds(value)
        elif name.startswith("w_"):
            getattr(message, name).value = value
        elif isinstance(value, list):
            numbers = [ENUM_NUMBERS.get(each, each) if name == "levels" else each for each in value]
            getattr(message, name).extend(numbers)
        else:
            setattr(message, name, ENUM_NUMBERS.get(value, value) if name == "level" else value)
    return message


ENUM_NUMBERS: dict[Any, int] = dict(zip(ENUM_NAMES, (0, 1, -7), strict=True))


def column_of(rows: list[dict[str, Any] | None]) -> pa.Array:
    names = list(TYPES)
    arrays = []
    for name in names:
        values = [None if row is None else row.get(name) for row in rows]
        kind = TYPES[name]
        if pa.types.is_map(kind):
            values = [None if each is None else list(each.items()) for each in values]
        if pa.types.is_dictionary(kind):
            arrays.append(pa.array(values, pa.string()).dictionary_encode().cast(kind))
        else:
            arrays.append(pa.array(values, kind))
    mask = pa.array([row is None for row in rows], pa.bool_())
    return pa.StructArray.from_arrays(arrays, names, mask=mask)


def encoded(schema: Any, column: Any, **options: Any) -> list[bytes | None]:
    records: list[bytes | None] = pa.chunked_array(
        ProtobufEncoder(schema, **options).encode(column)
    ).to_pylist()
    return records


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any] | None:
    if draw(st.integers(0, 5)) == 0:
        return None
    names = draw(st.sets(st.sampled_from(sorted(VALUES)), max_size=8))
    row = {name: draw(VALUES[name]) for name in sorted(names)}
    side = draw(st.sampled_from([None, "left", "right"]))
    if side is not None:
        row[side] = draw(SIGNED_32 if side == "left" else st.text(max_size=5))
    return row


@QUIET
@given(st.lists(rows(), max_size=4))
def test_protobuf_reads_what_the_columns_had(rows: list[dict[str, Any] | None]) -> None:
    records = encoded(ROW, column_of(rows))
    assert [each is None for each in records] == [row is None for row in rows]
    for record, row in zip(records, rows, strict=True):
        if record is None or row is None:
            continue
        assert ROW.FromString(record) == fill(ROW(), row)
        # A default value is left out, as by Protobuf's own libraries.
        names = {field.name for field, _ in ROW.FromString(record).ListFields()}
        assert names == {field.name for field, _ in fill(ROW(), row).ListFields()}


def test_long_messages_have_long_sizes() -> None:
    for size in (0, 120, 126, 127, 128, 16383, 16384, 70_000, 3 << 20):
        row = {"inners": [{"a": 1, "text": "x" * size}] * 2, "right": "end"}
        assert encoded(ROW, column_of([row])) == [fill(ROW(), row).SerializeToString()]


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("one_int32", pa.array([5, -1], pa.int64())),
        ("one_uint64", pa.array([5, 6], pa.int8())),
        ("one_double", pa.array([5, -1], pa.int32())),
        ("one_float", pa.array([1.5, -0.0], pa.float16())),
        ("one_string", pa.array([b"a", b""])),
        ("one_bytes", pa.array([b"ab", b"\0\0"], pa.binary(2))),
        ("level", pa.array([1, -7], pa.int32())),
        ("inner", pa.array([{"a": 1}, {"a": 0}])),
        ("many_int32", pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2))),
        ("many_string", pa.array([["a"], []], pa.large_list(pa.large_string()))),
    ],
)
def test_other_types_of_columns(name: str, column: Any) -> None:
    records = encoded(ROW, pa.table({name: column}))
    expected = [fill(ROW(), {name: value}) for value in column.to_pylist()]
    assert [ROW.FromString(each or b"") for each in records] == expected


def test_times() -> None:
    at = datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)
    table = pa.table(
        {
            "at": pa.array([at], pa.timestamp("ms", "UTC")),
            "span": pa.array([-1500], pa.duration("ms")),
        }
    )
    [record] = encoded(ROW, table)
    row = ROW.FromString(record or b"")
    assert (row.at.seconds, row.at.nanos) == (-1, 999_000_000)
    assert (row.span.seconds, row.span.nanos) == (-1, -500_000_000)


def old_class() -> Any:
    """Return a proto2 message with a required field and a group."""
    file = descriptor_pb2.FileDescriptorProto(name="old.proto", package="p")
    row = file.message_type.add(name="Old")
    add_field(row, "id", 1, "int32", label=2)
    group = row.nested_type.add(name="Part")
    add_field(group, "n", 1, "int32")
    field = add_field(row, "part", 2, ".p.Old.Part", label=3)
    field.type = FIELD.TYPE_GROUP
    add_field(row, "unpacked", 3, "int32", label=3)
    return make_class(file, "p.Old")


def test_required_fields_and_groups() -> None:
    old = old_class()
    table = pa.table({"id": [0], "part": [[{"n": 1}, {"n": None}]], "unpacked": [[1, 2]]})
    [record] = encoded(old, table)
    expected = old(id=0, part=[{"n": 1}, {}], unpacked=[1, 2])
    assert record == expected.SerializeToString()
    with pytest.raises(SchemaError, match="id: there is no such column, and the field is required"):
        encoded(old, pa.table({"unpacked": [[1]]}))
    with pytest.raises(EncodeError, match="row 1, field id: the schema doesn't allow null"):
        encoded(old, pa.table({"id": pa.array([1, None], pa.int32())}))


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("odd", pa.int32(), "odd: the message has no such field"),
        ("one_int32", pa.string(), "a column of string can't be encoded as int32"),
        ("one_float", pa.float64(), "a float can't hold a column of float64"),
        ("many_int32", pa.int32(), "a column of int32 can't be encoded as repeated int32"),
        ("many_int32", pa.list_(pa.string()), "a column of string can't be encoded"),
        ("many_int32", pa.list_view(pa.int32()), "a column of list_view can't be encoded"),
        ("texts", pa.list_(pa.string()), "can't be encoded as repeated message p.Row.TextsEntry"),
        ("inner", pa.string(), "a column of string can't be encoded as message p.Inner"),
        ("inner", pa.struct([("b", pa.int32())]), "inner.b: the message has no such field"),
        ("at", pa.timestamp("ms"), "needs a time zone"),
        ("level", pa.float32(), "can't be encoded as enum p.Level"),
    ],
)
def test_types_that_do_not_fit(name: str, kind: pa.DataType, text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        encoded(ROW, pa.table({name: pa.array([], kind)}))


@pytest.mark.parametrize(
    ("columns", "path", "text"),
    [
        ({"one_int32": [1, 1 << 31]}, "one_int32", "out of the range of the field"),
        ({"one_uint32": [1, -1]}, "one_uint32", "out of the range of the field"),
        ({"one_fixed64": [1, -1]}, "one_fixed64", "out of the range of the field"),
        ({"one_int64": pa.array([1, 1 << 63], pa.uint64())}, "one_int64", "out of the range"),
        ({"one_sint32": [1, 1 << 31]}, "one_sint32", "out of the range"),
        ({"level": ["ZERO", "NONE"]}, "level", "the enum has no such symbol"),
        ({"many_int32": [[1], [None]]}, "many_int32", "the schema doesn't allow null here"),
        ({"left": [1, 2], "right": [None, "a"]}, "choice", "more than one field of the oneof"),
        (
            {"at": pa.array([0, 1 << 40], pa.timestamp("s", "UTC"))},
            "at",
            "the time is out of Protobuf's range",
        ),
        ({"one_string": [b"a", b"\xff"]}, "one_string", "the text isn't UTF-8"),
    ],
)
def test_values_that_do_not_fit(columns: dict[str, Any], path: str, text: str) -> None:
    with pytest.raises(EncodeError, match=text) as caught:
        encoded(ROW, pa.table(columns))
    assert (caught.value.row, caught.value.path) == (1, path)


def test_extra_columns_and_other_schemas() -> None:
    table = pa.table(
        {"left": [1], "right": pa.nulls(1), "odd": pa.array([[1]], pa.list_view(pa.int32()))}
    )
    expected = ROW(left=1).SerializeToString()
    assert encoded(ROW.DESCRIPTOR, table, ignore_extra=True, prefix=b"P") == [b"P" + expected]
    text = 'syntax = "proto3"; message A {} message M { int32 left = 70; }'
    encoder = ProtobufEncoder(text, "M")
    assert pa.chunked_array(encoder.encode(table.select(["left"]))).to_pylist() == [expected]
    with pytest.raises(SchemaError, match="no message N"):
        ProtobufEncoder(text, "N")
    with pytest.raises(TypeError, match="a Protobuf schema is a message class"):
        ProtobufEncoder(5)
    assert encoded(ROW, pa.nulls(2)) == [None, None]


# --- well-known types ---

KNOWN = """
syntax = "proto3";
import "google/protobuf/any.proto";
import "google/protobuf/empty.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
message Known {
  google.protobuf.Struct object = 1;
  google.protobuf.Value value = 2;
  google.protobuf.ListValue items = 3;
  repeated google.protobuf.Value values = 4;
  map<string, google.protobuf.Struct> objects = 5;
  google.protobuf.Any any = 6;
  google.protobuf.FieldMask mask = 7;
  google.protobuf.Empty empty = 8;
}
"""
JSON = '{"a":[1,-2.5e+30,true,false,null,"\\u0001\\"é"],"b":{"":{}}}'


def test_json_text_becomes_structs() -> None:
    row = {
        "object": JSON,
        "value": "[]",
        "items": f"[{JSON}]",
        "values": ["null", '"x"', "0"],
        "objects": [("k", JSON), ("l", "{}")],
        "any": {"type_url": "example.com/p.M", "value": b"\x08\x01"},
        "mask": {"paths": ["a.b", "c"]},
        "empty": {},
    }
    kinds = pa.array(ProtobufDecoder(KNOWN).decode([b""])).type
    column = pa.array([row, dict.fromkeys(row), None], kinds)
    messages = pa.chunked_array(ProtobufEncoder(KNOWN).encode(column))
    assert pa.array(ProtobufDecoder(KNOWN).decode(messages)).to_pylist() == [
        row,
        {**dict.fromkeys(row), "values": [], "objects": []},
        None,
    ]
    class_ = GetMessageClass(message_of(KNOWN, None, None))
    message = class_.FromString(messages[0].as_py())
    assert json.loads(MessageToJson(message.object)) == json.loads(JSON)
    assert json.loads(MessageToJson(message.values[2])) == 0


@given(
    st.recursive(
        st.none() | st.booleans() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=30,
    )
)
@QUIET
def test_each_value_of_json_is_that_of_protobuf(value: Any) -> None:
    """Python's parser of JSON text reads the same values."""
    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only, indent=1)
        made = pa.chunked_array(ProtobufEncoder(KNOWN).encode(pa.table({"value": [text]})))
        message = GetMessageClass(message_of(KNOWN, None, None)).FromString(made[0].as_py())
        assert Value.FromString(message.value.SerializeToString()) == Parse(text, Value())


@pytest.mark.parametrize(
    ("field", "text", "problem"),
    [
        ("object", "[]", "the text is no JSON object"),
        ("object", "", "the text is no JSON object"),
        ("items", "{}", "the text is no JSON list"),
        ("value", " ", "the JSON text ends within a value"),
        ("value", "nul", "an unknown word"),
        ("value", "NaN", "an unknown word"),
        ("value", "-", "a number of the JSON text is malformed"),
        ("value", "01", "a number of the JSON text begins with a zero"),
        ("value", "1e999", "out of the range of a double"),
        ("value", "1 2", "more text follows the JSON value"),
        ("value", "{}\0", "more text follows the JSON value"),
        ("value", '{"a":1,}', "lacks a key"),
        ("value", '{"a" 1}', "lacks a colon"),
        ("value", "[1 2]", "doesn't end"),
        ("value", "[1,", "ends within a value"),
        ("value", "[1,]", "the JSON text lacks a value"),
        ("value", '"a', "a string of the JSON text doesn't end"),
        ("value", '"\n"', "a control character"),
        ("value", '"\\x"', "an unknown escape"),
        ("value", '"\\ud800"', "half of a surrogate pair"),
        ("value", "[" * 101 + "]" * 101, "nested too deeply"),
    ],
)
def test_text_that_is_no_json(field: str, text: str, problem: str) -> None:
    table = pa.table({field: [None, text]})
    with pytest.raises(EncodeError, match=problem) as caught:
        ProtobufEncoder(KNOWN).encode(table)
    assert (caught.value.row, caught.value.path) == (1, field)


def test_encoded_messages_are_copied() -> None:
    """A decoder leaves messages in themselves encoded. So is any binary column for a message."""
    tree = 'syntax = "proto3"; message Tree { int32 value = 1; Tree left = 2; repeated Tree more = 3; }'
    decoder = ProtobufDecoder(tree, recursive="bytes")
    rows = [
        {"value": 1, "left": b"\x08\x02", "more": [b"", b"\x12\x02\x08\x03"]},
        {"value": 0, "left": None, "more": []},
    ]
    column = pa.array(rows, pa.array(decoder.decode([b""])).type)
    messages = pa.chunked_array(ProtobufEncoder(tree).encode(column))
    assert messages[0].as_py() == b"\x08\x01\x12\x02\x08\x02\x1a\x00\x1a\x04\x12\x02\x08\x03"
    assert pa.array(decoder.decode(messages)).to_pylist() == rows
