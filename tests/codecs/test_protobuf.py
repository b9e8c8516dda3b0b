"""Protobuf messages as columns: types, presence, defaults, oneofs, maps, and errors with fields."""

from __future__ import annotations

import base64
import struct
import subprocess
import sys
import threading
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    duration_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pool import DescriptorPool

from kafka_native.codecs import DecodeError, ProtobufDecoder, SchemaError, protobuf_descriptors
from tests.codecs import protobuf_schemas as schemas
from tests.harness.libraries import not_under_tsan

FIELD = descriptor_pb2.FieldDescriptorProto
TYPES = {name.removeprefix("TYPE_").lower(): number for name, number in FIELD.Type.items()}


def file_of(syntax: str = "proto3", *messages: Any) -> Any:
    """Return a file of messages: (name, fields). A field is (name, number, type, label, options).

    A type is a scalar's, the full name of a message with a dot, or that of an enum with "enum".
    """
    file = descriptor_pb2.FileDescriptorProto(name="test.proto", package="p", syntax=syntax)
    file.dependency.extend(each.name for each in schemas.BUILTIN_FILES)
    colors = file.enum_type.add(name="Color")
    for number, name in ((0, "RED"), (5, "BLUE"), (1, "GREEN")):
        colors.value.add(name=name, number=number)
    for name, fields in messages:
        message = file.message_type.add(name=name)
        for each in fields:
            _add_field(message, *each)
    return file


def _add_field(
    message: Any, name: str, number: int, kind: str, label: str = "optional", **more: Any
) -> None:
    field = message.field.add(
        name=name, number=number, label=FIELD.Label.Value(f"LABEL_{label.upper()}")
    )
    if kind in TYPES:
        field.type = TYPES[kind]
    else:
        field.type = TYPES["enum"] if kind == ".p.Color" else TYPES["message"]
        field.type_name = kind
    for key, value in more.items():
        setattr(field, key, value)


def set_of(file: Any) -> bytes:
    """Return the serialized descriptor set of a file."""
    builtin = [
        descriptor_pb2.FileDescriptorProto.FromString(each.serialized_pb)
        for each in schemas.BUILTIN_FILES
    ]
    return bytes(descriptor_pb2.FileDescriptorSet(file=[*builtin, file]).SerializeToString())


def decoder_of(*fields: Any, syntax: str = "proto3", **options: Any) -> ProtobufDecoder:
    return ProtobufDecoder(set_of(file_of(syntax, ("M", fields))), "p.M", **options)


def read(decoder: ProtobufDecoder, data: bytes) -> Any:
    array = pa.array(decoder.decode([data]))
    array.validate(full=True)
    return array[0].as_py()


def tag(number: int, wire: int) -> bytes:
    return schemas.varint(number << 3 | wire)


def delimited(number: int, data: bytes) -> bytes:
    return tag(number, 2) + schemas.varint(len(data)) + data


# --- types ---


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("double", pa.float64()),
        ("float", pa.float32()),
        ("int32", pa.int32()),
        ("sint32", pa.int32()),
        ("sfixed32", pa.int32()),
        ("uint32", pa.uint32()),
        ("fixed32", pa.uint32()),
        ("int64", pa.int64()),
        ("sint64", pa.int64()),
        ("sfixed64", pa.int64()),
        ("uint64", pa.uint64()),
        ("fixed64", pa.uint64()),
        ("bool", pa.bool_()),
        ("string", pa.string()),
        ("bytes", pa.binary()),
        (".p.Color", pa.dictionary(pa.int32(), pa.string())),
        (".google.protobuf.Timestamp", pa.timestamp("ns", "UTC")),
        (".google.protobuf.Duration", pa.duration("ns")),
        (".google.protobuf.UInt32Value", pa.uint32()),
        (".google.protobuf.BytesValue", pa.binary()),
    ],
)
def test_type_of_a_column(kind: str, expected: pa.DataType) -> None:
    decoder = decoder_of(("one", 1, kind), ("many", 2, kind, "repeated"))
    found = pa.DataType._import_from_c_capsule(decoder.__arrow_c_schema__())
    has_presence = kind.startswith(".google") or kind == ".p.Color"
    assert found.field("one").type == expected
    assert found.field("one").nullable == has_presence
    assert found.field("many").type.value_type == expected
    assert not found.field("many").nullable


def test_an_empty_record_has_the_default_of_each_field() -> None:
    decoder = decoder_of(
        ("a", 1, "int32"),
        ("b", 2, "string"),
        ("c", 3, ".p.Color"),
        ("d", 4, "bool"),
        ("e", 5, ".google.protobuf.Int32Value"),
        ("f", 6, "bytes", "repeated"),
    )
    assert read(decoder, b"") == {"a": 0, "b": "", "c": "RED", "d": False, "e": None, "f": []}


def test_presence_and_defaults_of_proto2() -> None:
    decoder = decoder_of(
        ("a", 1, "int32"),
        ("b", 2, "int32", "optional"),
        ("text", 3, "string"),
        ("color", 4, ".p.Color"),
        ("flag", 5, "bool"),
        ("ratio", 6, "double"),
        ("raw", 7, "bytes"),
        syntax="proto2",
    )
    file = file_of("proto2", ("M", [("a", 1, "int32"), ("b", 2, "int32")]))
    defaults = {"text": "é", "color": "BLUE", "flag": "true", "ratio": "inf", "raw": "\\001x"}
    for name, value in defaults.items():
        kind = (
            ".p.Color"
            if name == "color"
            else {"text": "string", "flag": "bool", "ratio": "double", "raw": "bytes"}[name]
        )
        _add_field(
            file.message_type[0],
            name,
            len(file.message_type[0].field) + 1,
            kind,
            default_value=value,
        )
    assert read(decoder, b"") == dict.fromkeys(["a", "b", *defaults])
    filled = read(ProtobufDecoder(set_of(file)), tag(2, 0) + b"\x00")
    assert filled == {
        "a": None,
        "b": 0,
        "text": "é",
        "color": "BLUE",
        "flag": True,
        "ratio": float("inf"),
        "raw": b"\x01x",
    }


def test_a_required_field_must_be_there() -> None:
    decoder = decoder_of(("a", 1, "int32", "required"), ("b", 2, "int32"), syntax="proto2")
    with pytest.raises(DecodeError, match="record 0, field a, byte 2: a required field is missing"):
        decoder.decode([tag(2, 0) + b"\x01"])
    assert read(decoder, tag(1, 0) + b"\x07") == {"a": 7, "b": None}


def test_the_numbers_of_enums() -> None:
    unknown = tag(1, 0) + b"\x09" + delimited(2, b"\x05\x09\x01")
    fields = (("one", 1, ".p.Color"), ("many", 2, ".p.Color", "repeated"))
    assert read(decoder_of(*fields), unknown) == {"one": None, "many": ["BLUE", None, "GREEN"]}
    assert read(decoder_of(*fields, enums="numbers"), unknown) == {"one": 9, "many": [5, 9, 1]}
    # proto2: a number without a name is an unknown field
    for enums, expected in (("names", ["BLUE", "GREEN"]), ("numbers", [5, 1])):
        decoder = decoder_of(*fields, syntax="proto2", enums=enums)
        assert read(decoder, unknown) == {"one": None, "many": expected}
        before = tag(1, 0) + b"\x05" + unknown
        assert read(decoder, before)["one"] == expected[0]


def test_times_have_a_unit_and_a_range() -> None:
    fields = (("at", 1, ".google.protobuf.Timestamp"), ("took", 2, ".google.protobuf.Duration"))
    data = delimited(1, timestamp_pb2.Timestamp(seconds=-2, nanos=1500).SerializeToString())
    data += delimited(2, duration_pb2.Duration(seconds=-2, nanos=-1500).SerializeToString())
    for unit, at, took in (
        ("ns", -1999998500, -2000001500),
        ("us", -1999999, -2000001),
        ("ms", -2000, -2000),
        ("s", -2, -2),
    ):
        array = pa.array(decoder_of(*fields, time_unit=unit).decode([data]))
        assert array.field("at").type == pa.timestamp(unit, "UTC")
        assert array.field("at").view(pa.int64()).to_pylist() == [at]
        assert array.field("took").view(pa.int64()).to_pylist() == [took]
    years = delimited(1, timestamp_pb2.Timestamp(seconds=253402300799).SerializeToString())
    assert decoder_of(*fields, time_unit="us").decode([years])
    with pytest.raises(DecodeError, match="field at, byte 1: a timestamp is out of its range"):
        decoder_of(*fields).decode([years])
    for seconds, nanos in ((0, -1), (0, 10**9), (253402300800, 0), (-62135596801, 0)):
        bad = timestamp_pb2.Timestamp(seconds=seconds, nanos=nanos).SerializeToString()
        with pytest.raises(DecodeError, match="a timestamp is out of its range"):
            decoder_of(*fields, time_unit="s").decode([delimited(1, bad)])
    for seconds, nanos in ((1, -1), (-1, 1), (0, 10**9), (315576000001, 0)):
        bad = duration_pb2.Duration(seconds=seconds, nanos=nanos).SerializeToString()
        with pytest.raises(DecodeError, match="a duration is out of its range"):
            decoder_of(*fields, time_unit="s").decode([delimited(2, bad)])


@pytest.mark.parametrize("nanoseconds", [-(2**63), 2**63 - 1, -1, 0])
def test_each_nanosecond_of_a_timestamp_fits(nanoseconds: int) -> None:
    seconds, nanos = divmod(nanoseconds, 10**9)
    data = timestamp_pb2.Timestamp(seconds=seconds, nanos=nanos).SerializeToString()
    array = pa.array(
        decoder_of(("at", 1, ".google.protobuf.Timestamp")).decode([delimited(1, data)])
    )
    assert array.field("at").view(pa.int64()).to_pylist() == [nanoseconds]


def test_wrappers_are_nullable_values() -> None:
    decoder = decoder_of(
        ("one", 1, ".google.protobuf.Int32Value"),
        ("many", 2, ".google.protobuf.StringValue", "repeated"),
    )
    five = wrappers_pb2.Int32Value(value=5).SerializeToString()
    text = wrappers_pb2.StringValue(value="x").SerializeToString()
    assert read(decoder, b"") == {"one": None, "many": []}
    data = delimited(1, five) + delimited(2, b"") + delimited(2, text)
    assert read(decoder, data) == {"one": 5, "many": ["", "x"]}
    # a wrapper that comes again is merged
    assert read(decoder, data + delimited(1, b""))["one"] == 5


def test_a_class_a_descriptor_and_a_descriptor_set() -> None:
    data = any_pb2.Any(type_url="t", value=b"v").SerializeToString()
    expected = {"type_url": "t", "value": b"v"}
    assert read(ProtobufDecoder(any_pb2.Any), data) == expected
    assert read(ProtobufDecoder(any_pb2.Any.DESCRIPTOR), data) == expected
    with pytest.raises(TypeError, match="only a descriptor set"):
        ProtobufDecoder(any_pb2.Any, "google.protobuf.Any")
    with pytest.raises(TypeError, match="not int"):
        ProtobufDecoder(5)


PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "confluent/meta.proto";
import "money.proto";

message Order {
  option (confluent.message_meta).doc = "an order";
  enum State { NEW = 0; PAID = 1; }
  int64 id = 1 [(confluent.field_meta).tags = "PII"];
  State state = 2;
  Price price = 3;
  map<string, common.Money> fees = 4;
  google.protobuf.Timestamp at = 5;
  oneof note { string text = 6; bytes raw = 7; }
  optional int32 count = 8;
  message Line { string sku = 1; }
  repeated Line lines = 9;
}
message Price { common.Money money = 1; }
"""
MONEY = 'syntax = "proto3"; package common; message Money { int64 cents = 1; }'


def test_the_text_of_a_registrys_schema() -> None:
    data = (
        b"\x08\x07\x10\x01"
        + delimited(3, delimited(1, b"\x08\x05"))
        + delimited(4, delimited(1, b"vat") + delimited(2, b"\x08\x13"))
        + delimited(6, b"hi")
        + delimited(9, delimited(1, b"A1"))
    )
    expected = {
        "id": 7,
        "state": "PAID",
        "price": {"money": {"cents": 5}},
        "fees": [("vat", {"cents": 19})],
        "at": None,
        "text": "hi",
        "raw": None,
        "count": None,
        "lines": [{"sku": "A1"}],
    }
    assert read(ProtobufDecoder(PROTO, references={"money.proto": MONEY}), data) == expected
    pool = protobuf_descriptors.pool_of(
        protobuf_descriptors.read_file("default", PROTO),
        {"money.proto": protobuf_descriptors.read_file("money.proto", MONEY)},
    )
    serialized = base64.b64encode(pool.FindFileByName("default").serialized_pb).decode()
    again = ProtobufDecoder(serialized, [0], references={"money.proto": MONEY})
    assert read(again, data) == expected
    line = ProtobufDecoder(PROTO, "shop.Order.Line", references={"money.proto": MONEY})
    assert read(line, delimited(1, b"A1")) == {"sku": "A1"}


def test_the_text_of_a_schema_with_defaults_and_groups() -> None:
    text = """
message M {
  optional group G = 1 { optional int32 x = 1; repeated group H = 2 { required string y = 1; } }
  extensions 100 to 200;
  optional float f = 3 [default = -inf];
  optional bytes raw = 4 [default = "\\001" '\\xff'];
  optional E e = 5 [default = TWO];
  enum E { option allow_alias = true; ONE = 1; TWO = 2; UNO = 1; }
}
extend M { optional int32 more = 100; }
"""
    decoder = ProtobufDecoder(text)
    defaults = {"f": float("-inf"), "raw": b"\x01\xff", "e": "TWO"}
    assert read(decoder, b"") == {"g": None, **defaults}
    group = b"\x0b\x08\x01\x13\x0a\x01y\x14\x0c"
    data = group + b"\xa0\x06\x05" + b"\x28\x01"
    assert read(decoder, data) == {"g": {"x": 1, "h": [{"y": "y"}]}, **defaults, "e": "ONE"}


def test_the_text_of_a_schema_of_an_edition() -> None:
    text = """
edition = "2023";
option features.field_presence = IMPLICIT;
enum Closed { option features.enum_type = CLOSED; A = 0; B = 1; }
message M {
  int32 a = 1;
  int32 b = 2 [features.field_presence = EXPLICIT, default = 5];
  string s = 3 [features.field_presence = LEGACY_REQUIRED];
  I i = 4 [features.message_encoding = DELIMITED];
  Closed c = 5 [features.field_presence = EXPLICIT];
  repeated int32 r = 6 [features.repeated_field_encoding = EXPANDED];
}
message I { int32 x = 1; }
"""
    decoder = ProtobufDecoder(text)
    data = b"\x1a\x01z" + b"\x23\x08\x05\x24" + b"\x28\x07" + b"\x30\x01\x32\x02\x02\x03"
    expected = {"a": 0, "b": 5, "s": "z", "i": {"x": 5}, "c": None, "r": [1, 2, 3]}
    assert read(decoder, data) == expected
    with pytest.raises(DecodeError, match="field s, byte 0: a required field is missing"):
        decoder.decode([b""])


@pytest.mark.parametrize(
    ("text", "references", "problem"),
    [
        (PROTO, None, "imports money.proto, which is not among its references"),
        ("message {", None, "the Protobuf schema default is malformed: expected a name"),
        (PROTO, {"money.proto": "?"}, "the Protobuf schema money.proto is malformed: line 1"),
        ("message M { X x = 1; }", None, "the Protobuf schema is invalid"),
        ("", None, "point at no message"),
    ],
)
def test_a_bad_text_is_refused(text: str, references: Any, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        ProtobufDecoder(text, references=references)
    with pytest.raises(TypeError, match="only the text of a schema has references"):
        ProtobufDecoder(any_pb2.Any, references={})


def test_message_indexes_choose_a_message() -> None:
    file = file_of("proto3", ("A", [("x", 1, "int32")]), ("B", [("y", 1, "int32")]))
    inner = file.message_type[1].nested_type.add(name="C")
    _add_field(inner, "z", 1, "int32")
    for message, expected in ((None, "x"), ([0], "x"), ([1], "y"), ([1, 0], "z"), ("p.B.C", "z")):
        assert read(ProtobufDecoder(set_of(file), message), b"\x08\x01") == {expected: 1}
    for bad in ([2], [0, 0], [-1], "p.D"):
        with pytest.raises(SchemaError):
            ProtobufDecoder(set_of(file), bad)


def test_structs_are_json_text() -> None:
    decoder = decoder_of(
        ("one", 1, ".google.protobuf.Struct"),
        ("value", 2, ".google.protobuf.Value"),
        ("many", 3, ".google.protobuf.ListValue", "repeated"),
    )
    one = struct_pb2.Struct()
    one.update({"z": 1, "a": ['q"\\\n\x01é', None, True, 2.5, -0.0, 1e300], "": {}})
    data = delimited(1, one.SerializeToString()) + delimited(2, b"") + delimited(3, b"")
    text = '{"":{},"a":["q\\"\\\\\\n\\u0001é",null,true,2.5,-0.0,1e+300],"z":1}'
    assert read(decoder, data) == {"one": text, "value": "null", "many": ["[]"]}
    assert read(decoder, b"") == {"one": None, "value": None, "many": []}
    assert read(map_decoder("string", ".google.protobuf.Value"), delimited(1, b""))["m"] == [
        ("", "null")
    ]


def test_pieces_of_a_struct_are_merged() -> None:
    decoder = decoder_of(("one", 1, ".google.protobuf.Struct"), ("n", 2, "int32"))
    entry = [
        delimited(1, b"\x0a\x01k" + delimited(2, value)) for value in (b"\x20\x01", b"\x20\x00")
    ]
    data = delimited(1, entry[0]) + b"\x10\x05" + delimited(1, entry[1])
    assert read(decoder, data) == {"one": '{"k":false}', "n": 5}
    # the same for the value of an entry, and for a struct in a value
    inner = [delimited(5, each) for each in entry]
    both = (
        b"\x0a\x01m"
        + delimited(2, inner[0])
        + delimited(2, delimited(5, delimited(1, b"\x0a\x01x")))
    )
    assert read(decoder, delimited(1, delimited(1, both)))["one"] == '{"m":{"k":true,"x":null}}'
    ended = b"\x0a\x01m" + delimited(2, inner[0] + b"\x20\x01" + inner[1])
    assert read(decoder, delimited(1, delimited(1, ended)))["one"] == '{"m":{"k":false}}'


def test_a_struct_that_json_cant_have_is_refused() -> None:
    decoder = decoder_of(("one", 1, ".google.protobuf.Value"), ("n", 2, "int32"))
    deep = b"\x20\x01"
    for _ in range(101):
        deep = delimited(6, delimited(1, deep))
    for value, text in (
        (b"\x11" + struct.pack("<d", float("inf")), "a number isn't finite"),
        (b"\x1a\x01\xff", "a string isn't UTF-8"),
        (deep, "values are nested too deeply"),
        (b"\x2a\x02\x0a\x05", "the record ends too early"),
        (b"\x20", "the record ends too early"),
        (b"\x0c", "a group ends"),
    ):
        with pytest.raises(DecodeError, match=text) as caught:
            decoder.decode([delimited(1, value) + b"\x10\x05"])
        assert caught.value.path == "one"
    with pytest.raises(SchemaError, match="JSON text has no fields"):
        decoder_of(("one", 1, ".google.protobuf.Value"), fields=["one.null_value"])


# --- order, merging, oneofs, maps ---


def test_fields_in_any_order_are_replaced_merged_and_continued() -> None:
    inner = ("I", [("x", 1, "int32"), ("list", 2, "int32", "repeated"), ("y", 3, "string")])
    outer = (
        "M",
        [("i", 1, ".p.I"), ("n", 2, "int64"), ("s", 3, "string"), ("many", 4, ".p.I", "repeated")],
    )
    decoder = ProtobufDecoder(set_of(file_of("proto3", inner, outer)), "p.M")
    first, again = b"\x08\x01\x12\x02\x07\x08", b"\x10\x09\x1a\x01y"
    data = (
        delimited(3, b"long text of the first one")
        + delimited(1, first)
        + delimited(4, first)
        + tag(2, 0)
        + b"\x05"
        + delimited(1, again)
        + delimited(3, b"b")
        + delimited(4, b"")
        + tag(2, 0)
        + b"\x06"
    )
    assert read(decoder, data) == {
        "i": {"x": 1, "list": [7, 8, 9], "y": "y"},
        "n": 6,
        "s": "b",
        "many": [{"x": 1, "list": [7, 8], "y": ""}, {"x": 0, "list": [], "y": ""}],
    }


def oneof_set() -> bytes:
    inner = ("I", [("list", 1, "int32", "repeated"), ("map", 2, ".p.I.MapEntry", "repeated")])
    members = [("a", 1, "int32"), ("b", 2, "string"), ("i", 3, ".p.I")]
    file = file_of("proto3", inner, ("M", [*members, ("n", 4, "int32")]))
    entry = file.message_type[0].nested_type.add(name="MapEntry")
    entry.options.map_entry = True
    _add_field(entry, "key", 1, "string")
    _add_field(entry, "value", 2, "int32")
    file.message_type[1].oneof_decl.add(name="choice")
    for field in file.message_type[1].field[:3]:
        field.oneof_index = 0
    return set_of(file)


def test_the_last_member_of_a_oneof_wins() -> None:
    decoder = ProtobufDecoder(oneof_set(), "p.M")
    a, b = tag(1, 0) + b"\x00", delimited(2, b"text")
    inner = delimited(3, b"\x0a\x01\x05" + delimited(2, delimited(1, b"k")))
    unset = {"a": None, "b": None, "i": None, "n": 0}
    full = {"list": [5], "map": [("k", 0)]}
    assert read(decoder, b"") == unset
    assert read(decoder, b + a) == {**unset, "a": 0}
    assert read(decoder, a + inner + b) == {**unset, "b": "text"}
    assert read(decoder, inner + b + inner) == {**unset, "i": full}
    # the same member again is merged
    twice = {"list": [5, 5], "map": [("k", 0)]}
    assert read(decoder, inner + tag(4, 0) + b"\x02" + inner) == {**unset, "i": twice, "n": 2}
    # each record begins anew
    rows = pa.array(decoder.decode([inner + b, inner, b, a, inner])).to_pylist()
    assert rows == [
        {**unset, **each}
        for each in ({"b": "text"}, {"i": full}, {"b": "text"}, {"a": 0}, {"i": full})
    ]


def test_a_member_of_a_oneof_that_isnt_wanted_ends_the_others() -> None:
    a, inner = tag(1, 0) + b"\x07", delimited(3, b"")
    decoder = ProtobufDecoder(oneof_set(), "p.M", fields=["a", "n"])
    assert read(decoder, inner + a) == {"a": 7, "n": 0}
    assert read(decoder, a + inner) == {"a": None, "n": 0}
    assert read(ProtobufDecoder(oneof_set(), "p.M", fields=["n"]), a + inner) == {"n": 0}


def map_decoder(key: str, value: str, **options: Any) -> ProtobufDecoder:
    file = file_of(
        options.pop("syntax", "proto3"),
        ("M", [("m", 1, ".p.M.MEntry", "repeated")]),
        ("V", [("x", 1, "int32"), ("tags", 2, "string", "repeated")]),
    )
    entry = file.message_type[0].nested_type.add(name="MEntry")
    entry.options.map_entry = True
    _add_field(entry, "key", 1, key)
    _add_field(entry, "value", 2, value)
    return ProtobufDecoder(set_of(file), **options)


@pytest.mark.parametrize("count", [3, 8, 9, 500])
def test_the_last_entry_of_a_key_wins(count: int) -> None:
    decoder = map_decoder("string", ".p.V")
    keys = [f"key {i % (count // 2 + 1)}" for i in range(count)]
    entries = [
        delimited(
            1,
            delimited(1, key.encode())
            + delimited(2, b"\x08" + bytes([i % 100]) + delimited(2, b"t") * (i % 3)),
        )
        for i, key in enumerate(keys)
    ]
    expected = {key: {"x": i % 100, "tags": ["t"] * (i % 3)} for i, key in enumerate(keys)}
    rows = pa.array(decoder.decode([b"".join(entries), entries[0], b"".join(entries)]))
    rows.validate(full=True)
    for row in (rows[0], rows[2]):
        assert len(row["m"]) == len(expected)
        assert dict(row.as_py()["m"]) == expected


@pytest.mark.parametrize(
    ("key", "wire"), [("bool", 0), ("int32", 0), ("fixed64", 1), ("string", 2)]
)
def test_parts_of_an_entry_may_be_missing(key: str, wire: int) -> None:
    zero = {"bool": False, "string": ""}.get(key, 0)
    decoder = map_decoder(key, ".p.V")
    empty = {"x": 0, "tags": []}
    assert read(decoder, delimited(1, b"") * 2) == {"m": [(zero, empty)]}
    assert read(map_decoder(key, ".google.protobuf.Int32Value"), delimited(1, b"")) == {
        "m": [(zero, 0)]
    }
    encoded = tag(1, wire) + {0: b"\x01", 1: struct.pack("<Q", 1), 2: b"\x01a"}[wire]
    both = delimited(1, encoded) + delimited(1, b"") + delimited(1, encoded)
    assert [each for each, _ in read(decoder, both)["m"]] == [
        zero,
        {"bool": True, "string": "a"}.get(key, 1),
    ]


def test_an_entry_with_an_unknown_number_of_a_closed_enum_is_no_entry() -> None:
    good, bad = delimited(1, b"\x0a\x01a\x10\x05"), delimited(1, b"\x0a\x01a\x10\x09")
    assert read(map_decoder("string", ".p.Color"), good + bad) == {"m": [("a", None)]}
    decoder = map_decoder("string", ".p.Color", syntax="proto2")
    assert read(decoder, good + bad) == {"m": [("a", "BLUE")]}
    assert read(decoder, bad) == {"m": []}


def test_packed_and_unpacked_lists_are_both_read() -> None:
    decoder = decoder_of(
        ("n", 1, "sint32", "repeated"), ("f", 2, "float", "repeated"), ("b", 3, "bool", "repeated")
    )
    data = (
        delimited(1, b"\x01\x02")
        + tag(1, 0)
        + b"\x03"
        + delimited(1, b"")
        + tag(2, 5)
        + struct.pack("<f", 1.5)
        + delimited(2, struct.pack("<2f", 2.5, -1))
        + tag(3, 0)
        + b"\x01"
        + delimited(3, b"\x00\x02")
    )
    assert read(decoder, data) == {
        "n": [-1, 1, -2],
        "f": [1.5, 2.5, -1.0],
        "b": [True, False, True],
    }


def test_a_field_with_another_wire_type_is_unknown() -> None:
    decoder = decoder_of(("n", 1, "int32"), ("s", 2, "string"))
    data = tag(1, 0) + b"\x07" + delimited(1, b"\x08") + tag(2, 0) + b"\x05" + tag(1, 5) + bytes(4)
    assert read(decoder, data) == {"n": 7, "s": ""}


# --- projection ---


def test_a_projection_goes_into_messages_lists_and_maps() -> None:
    inner = ("I", [("x", 1, "int32"), ("y", 2, "string")])
    outer = ("M", [("i", 1, ".p.I"), ("many", 2, ".p.I", "repeated"), ("n", 3, "int32")])
    data = delimited(1, b"\x08\x05\x12\x01y") + delimited(2, b"\x08\x06") + tag(3, 0) + b"\x02"
    schema = set_of(file_of("proto3", inner, outer))
    for fields, expected in (
        (["n"], {"n": 2}),
        (["many.x", "i.y"], {"i": {"y": "y"}, "many": [{"x": 6}]}),
        (["i", "i.x"], {"i": {"x": 5, "y": "y"}}),
        (["i.x", "i"], {"i": {"x": 5, "y": "y"}}),
    ):
        assert read(ProtobufDecoder(schema, "p.M", fields=fields), data) == expected
    assert read(map_decoder("string", ".p.V", fields=["m.x"]), delimited(1, b"")) == {
        "m": [("", {"x": 0})]
    }


@pytest.mark.parametrize(
    ("fields", "path"), [(["z"], "z"), (["i.z"], "i.z"), (["n.z"], "n"), (["i.x", "i.x.y"], "")]
)
def test_a_field_that_isnt_there_is_refused(fields: list[str], path: str) -> None:
    inner = ("I", [("x", 1, "int32")])
    schema = set_of(file_of("proto3", inner, ("M", [("i", 1, ".p.I"), ("n", 2, "int32")])))
    if not path:
        assert ProtobufDecoder(schema, "p.M", fields=fields)
        return
    with pytest.raises(SchemaError) as caught:
        ProtobufDecoder(schema, "p.M", fields=fields)
    assert caught.value.path == path


def test_a_message_in_itself_can_be_left_out() -> None:
    node = ("M", [("value", 1, "int32"), ("next", 2, ".p.M")])
    schema = set_of(file_of("proto3", node))
    with pytest.raises(SchemaError, match=r"next: the message p.M contains itself"):
        ProtobufDecoder(schema)
    data = b"\x08\x07" + delimited(2, b"\x08\x08")
    assert read(ProtobufDecoder(schema, fields=["value"]), data) == {"value": 7}


def test_a_message_in_itself_can_stay_encoded() -> None:
    tree = (
        "Tree",
        [("value", 1, "int32"), ("left", 2, ".p.Tree"), ("more", 3, ".p.Tree", "repeated")],
    )
    schema = set_of(file_of("proto3", tree))
    decoder = ProtobufDecoder(schema, recursive="bytes")
    leaf, again = b"\x08\x08", b"\x08\x09"
    data = b"\x08\x07" + delimited(2, leaf) + delimited(3, leaf) + delimited(3, b"")
    assert read(decoder, b"") == {"value": 0, "left": None, "more": []}
    assert read(decoder, data) == {"value": 7, "left": leaf, "more": [leaf, b""]}
    # pieces of a message in a row mean the same as the merged message
    merged = read(decoder, data + delimited(2, again))["left"]
    assert read(decoder, merged)["value"] == 9
    with pytest.raises(SchemaError, match="no fields to choose"):
        ProtobufDecoder(schema, recursive="bytes", fields=["left.value"])
    entry_value = map_decoder("string", ".p.M", recursive="bytes")
    assert read(entry_value, delimited(1, b"")) == {"m": [("", b"")]}


def test_many_threads_use_one_decoder() -> None:
    decoder = ProtobufDecoder(oneof_set(), "p.M")
    inner = delimited(3, delimited(2, delimited(1, b"k")) * 3)
    records = [delimited(2, b"text"), inner, inner + tag(1, 0) + b"\x05"] * 2000
    expected = pa.array(decoder.decode(records)).to_pylist()
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(pa.array(decoder.decode(records)).to_pylist()))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


@not_under_tsan
def test_the_package_needs_protobuf_only_for_protobuf() -> None:
    program = """
import sys
sys.modules["google.protobuf"] = None
from kafka_native.codecs import ProtobufDecoder
try:
    ProtobufDecoder(b"")
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == ("Protobuf columns need protobuf: pip install 'kafka-native[protobuf]'\n")


def test_messages_that_become_too_many_columns_are_refused() -> None:
    messages = [(f"M{i}", [(f"f{k}", k, f".p.M{i + 1}") for k in range(1, 11)]) for i in range(12)]
    schema = set_of(file_of("proto3", *messages, ("M12", [("x", 1, "int32")])))
    with pytest.raises(SchemaError, match="more than 65536 columns"):
        ProtobufDecoder(schema, "p.M0")


# --- errors ---


@pytest.mark.parametrize(
    ("data", "path", "position", "text"),
    [
        (b"\x08", "n", 1, "the record ends too early"),
        (b"\x08\x80", "n", 1, "the record ends too early"),
        (b"\x08" + b"\x80" * 11, "n", 1, "a number has too many bits"),
        (b"\x80", "", 0, "the record ends too early"),
        (b"\x00", "", 0, "a field has an impossible number"),
        (b"\x80" * 5 + b"\x01", "", 0, "a field has an impossible number"),
        (b"\xff\xff\xff\xff\x1f\x01", "", 0, "a field has an impossible number"),
        (b"\x0e\x01", "", 1, "a field has an impossible wire type"),
        (b"\x0c", "", 1, "a group ends that isn't open"),
        (b"\x7b\x84\x01", "", 3, "a group ends that isn't open"),
        (b"\x7b\x08\x01", "", 3, "the record ends too early"),
        (b"\x7b" * 101 + b"\x7c" * 101, "", 101, "groups are nested too deeply"),
        (b"\x12\x05abc", "s", 1, "the record ends too early"),
        (b"\x12\x02\xc3\x28", "s", 1, "a string isn't UTF-8"),
        (b"\x12" + b"\xff" * 9 + b"\x01", "s", 1, "the record ends too early"),
        (b"\x1a\x02\x08\x80", "i.x", 3, "the record ends too early"),
        (b"\x1a\x01\x00", "i", 2, "a field has an impossible number"),
        (b"\x1a\x02\x08\x01\x22\x05\x01", "list", 5, "the record ends too early"),
        (b"\x2a\x03abc", "floats", 1, "a packed list ends inside of an item"),
        (b"\x22\x02\x01\x80", "list", 3, "the record ends too early"),
    ],
)
def test_an_error_has_the_field_and_the_byte(
    data: bytes, path: str, position: int, text: str
) -> None:
    fields = [
        ("n", 1, "int32"),
        ("s", 2, "string"),
        ("i", 3, ".p.I"),
        ("list", 4, "int32", "repeated"),
        ("floats", 5, "float", "repeated"),
    ]
    schema = set_of(file_of("proto3", ("M", fields), ("I", [("x", 1, "int32")])))
    decoder = ProtobufDecoder(schema)
    with pytest.raises(DecodeError, match=text) as caught:
        decoder.decode([b"", data])
    assert (caught.value.row, caught.value.path, caught.value.position) == (1, path, position)
    column = decoder.decode([b"\x08\x05", data, b"\x08\x06"], on_error="null")
    array = pa.array(column)
    array.validate(full=True)
    assert [row and row["n"] for row in array.to_pylist()] == [5, None, 6]
    assert [each.row for each in column.errors] == [1]


def test_a_small_record_must_not_become_a_huge_column() -> None:
    wide = ("W", [(f"f{i}", i, "int64") for i in range(1, 500)])
    schema = set_of(file_of("proto3", wide, ("M", [("many", 1, ".p.W", "repeated")])))
    decoder = ProtobufDecoder(schema, "p.M")
    assert len(decoder.decode([b"\x0a\x00" * 1000])) == 1
    with pytest.raises(DecodeError, match=r"field many, byte .*expands to too many bytes"):
        decoder.decode([b"\x0a\x00" * 20000])


@pytest.mark.parametrize(("levels", "is_refused"), [(4, False), (12, True)])
def test_maps_in_maps_whose_keys_come_again_have_a_limit(levels: int, is_refused: bool) -> None:
    """The last entry of a key is read again, and so are the maps in it, at each level."""
    maps = "".join(
        f"message M{i} {{ map<int32, M{i - 1}> m = 1; }}\n" for i in range(1, levels + 1)
    )
    text = f'syntax = "proto3"; message M0 {{ string s = 1; }}\n{maps}'
    data = delimited(1, b"x" * (1 << 18))
    for _ in range(levels):
        data = delimited(1, b"\x08\x01\x12\x00") + delimited(1, b"\x08\x01" + delimited(2, data))
    decoder = ProtobufDecoder(text, f"M{levels}")
    if is_refused:
        with pytest.raises(DecodeError, match="expands to too many bytes"):
            decoder.decode([data])
    else:
        found = pa.array(decoder.decode([data]))[0].as_py()
        for _ in range(levels):
            ((_, found),) = found["m"]
        assert found == {"s": "x" * (1 << 18)}


def test_members_of_a_oneof_that_are_cleared_again_and_again_have_a_limit() -> None:
    wide = ("W", [(f"f{i}", i, "int64") for i in range(1, 500)])
    file = file_of("proto3", wide, ("M", [("w", 1, ".p.W"), ("n", 2, "int32")]))
    file.message_type[1].oneof_decl.add(name="choice")
    for field in file.message_type[1].field:
        field.oneof_index = 0
    decoder = ProtobufDecoder(set_of(file), "p.M")
    both = b"\x0a\x00\x10\x05"
    assert read(decoder, both * 100) == {"w": None, "n": 5}
    with pytest.raises(DecodeError, match=r"field n, byte .* expands to too many bytes"):
        decoder.decode([both * 20000])


def test_messages_without_fields_are_structs_without_columns() -> None:
    empty = ("E", [])
    outer = ("M", [("one", 1, ".p.E"), ("many", 2, ".p.E", "repeated")])
    decoder = ProtobufDecoder(set_of(file_of("proto3", empty, outer)), "p.M")
    assert read(decoder, b"") == {"one": None, "many": []}
    assert read(decoder, b"\x0a\x00\x12\x02\x08\x01\x12\x00") == {"one": {}, "many": [{}, {}]}
    nothing = ProtobufDecoder(set_of(file_of("proto3", empty)))
    assert pa.array(nothing.decode([b"", None, b"\x08\x01"])).to_pylist() == [{}, None, {}]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (b"\xff", "aren't a descriptor set"),
        (b"", "has no files"),
        (
            b"\x0a\x04\x1a\x02xy",
            "which is not among",
        ),
        (set_of(file_of()), "point at no message"),
    ],
)
def test_a_bad_descriptor_set_is_refused(schema: bytes, text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        ProtobufDecoder(schema)


def test_a_bad_descriptor_is_refused() -> None:
    text = 'syntax = "proto3"; message A { map<string, int32> m = 1; }'
    entry = protobuf_descriptors.read_file("a.proto", text)
    entry.message_type[0].nested_type[0].field[0].number = 3
    for data, problem in (
        (b"\x1a\x02\xff\xff", "the name of an imported file isn't UTF-8"),
        (entry.SerializeToString(), "the map entry MEntry has other fields than 1 and 2"),
    ):
        with pytest.raises(SchemaError, match=problem):
            ProtobufDecoder(base64.b64encode(data).decode())
        whole = descriptor_pb2.FileDescriptorSet(
            file=[descriptor_pb2.FileDescriptorProto.FromString(data)]
        )
        with pytest.raises(SchemaError, match=problem):
            ProtobufDecoder(whole.SerializeToString())


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"fields": "n"}, TypeError),
        ({"enums": "x"}, ValueError),
        ({"time_unit": "h"}, ValueError),
        ({"recursive": "x"}, ValueError),
    ],
)
def test_wrong_options_are_refused(options: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        decoder_of(("n", 1, "int32"), **options)


def test_groups_of_proto2_are_messages() -> None:
    file = file_of("proto2", ("M", [("n", 2, "int32")]))
    group = file.message_type[0].nested_type.add(name="G")
    _add_field(group, "x", 1, "int32")
    for name, number, label in (("one", 1, "optional"), ("many", 3, "repeated")):
        _add_field(file.message_type[0], name, number, "group", label)
        file.message_type[0].field[-1].type_name = ".p.M.G"
    pool = DescriptorPool()
    for each in schemas.BUILTIN_FILES:
        pool.AddSerializedFile(each.serialized_pb)
    pool.Add(file)
    decoder = ProtobufDecoder(pool.FindMessageTypeByName("p.M"))
    data = b"\x0b\x08\x05\x0c" + b"\x10\x07" + b"\x1b\x1c\x1b\x08\x01\x1c"
    assert read(decoder, data) == {"n": 7, "one": {"x": 5}, "many": [{"x": None}, {"x": 1}]}
    for bad in (b"\x0b", b"\x0b\x08\x05", b"\x0b\x14"):
        with pytest.raises(DecodeError):
            decoder.decode([bad])
