"""Compatibility by the rules of each language: old schema, new schema, and the difference."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_native.mock.schema_registry import (
    avro,
    json_schema,
    protobuf,
    protobuf_compatibility,
)
from kafka_native.mock.schema_registry.errors import InvalidSchemaError
from tests.mock.registry_calls import optional, record


def kinds(problems: list[str]) -> list[str]:
    """Return the types of the reported differences."""
    return [each.split("'")[1] for each in problems]


def enum(*symbols: str, **more: Any) -> str:
    return json.dumps({"type": "enum", "name": "E", "symbols": symbols, **more})


AVRO = [
    ('"int"', '"long"', []),
    ('"int"', '"double"', []),
    ('"long"', '"int"', ["TYPE_MISMATCH"]),
    ('"float"', '"double"', []),
    ('"double"', '"float"', ["TYPE_MISMATCH"]),
    ('"string"', '"bytes"', []),
    ('"bytes"', '"string"', []),
    ('"int"', '["null", "int"]', []),
    ('["null", "int"]', '"int"', ["TYPE_MISMATCH"]),
    ('["null", "int"]', '["long", "null"]', []),
    ('"string"', '["null", "int"]', ["MISSING_UNION_BRANCH"]),
    ('{"type": "array", "items": "int"}', '{"type": "array", "items": "long"}', []),
    ('{"type": "map", "values": "long"}', '{"type": "map", "values": "int"}', ["TYPE_MISMATCH"]),
    (enum("A"), enum("A", "B"), []),
    (enum("A", "B"), enum("A"), ["MISSING_ENUM_SYMBOLS"]),
    (enum("A", "B"), enum("A", default="A"), []),
    (
        '{"type": "fixed", "name": "F", "size": 4}',
        '{"type": "fixed", "name": "F", "size": 5}',
        ["FIXED_SIZE_MISMATCH"],
    ),
    (record("a"), record("a", optional("b")), []),
    (record("a"), record("a", "b"), ["READER_FIELD_MISSING_DEFAULT_VALUE"]),
    (record("a", "b"), record("a"), []),
    (record("a"), record("a", name="Other"), ["NAME_MISMATCH"]),
    (record("a"), record("a", name="space.Order"), []),
    (record("old"), record({"name": "new", "type": "string", "aliases": ["old"]}), []),
    (record("a"), record({"name": "a", "type": "int"}), ["TYPE_MISMATCH"]),
    (
        record("a", {"name": "next", "type": ["null", "Order"]}),
        record("a", optional("b"), {"name": "next", "type": ["null", "Order"]}),
        [],
    ),
]


@pytest.mark.parametrize(("old", "new", "expected"), AVRO)
def test_avro(old: str, new: str, expected: list[str]) -> None:
    assert kinds(avro.incompatibilities(avro.parse(new), avro.parse(old))) == expected
    assert avro.incompatibilities(avro.parse(old), avro.parse(old)) == []


PRIMITIVES = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "string"])


def avro_types(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        parts.map(lambda items: {"type": "array", "items": items}),
        parts.map(lambda values: {"type": "map", "values": values}),
        st.lists(PRIMITIVES, min_size=1, max_size=3, unique=True),
    )


AVRO_TYPES = st.recursive(PRIMITIVES, avro_types, max_leaves=4)


def sample(schema: Any) -> Any:
    """Return data that uses the last branch and one item everywhere."""
    if isinstance(schema, list):
        return sample(schema[-1])
    if isinstance(schema, dict):
        kind = schema["type"]
        return [sample(schema["items"])] if kind == "array" else {"k": sample(schema["values"])}
    values = {"null": None, "boolean": True, "string": "s", "float": 1.0, "double": 1.0}
    return values.get(schema, 1)


@settings(max_examples=200, deadline=None)
@given(AVRO_TYPES, AVRO_TYPES)
def test_avro_data_can_be_read_where_the_check_says_so(old: Any, new: Any) -> None:
    problems = avro.incompatibilities(avro.parse(json.dumps(new)), avro.parse(json.dumps(old)))
    if not problems:
        data = io.BytesIO()
        fastavro.schemaless_writer(data, old, sample(old))
        data.seek(0)
        fastavro.schemaless_reader(data, old, new)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"type": "record", "name": "1x", "fields": []}',
        '{"type": "record", "name": "X"}',
        '["int", "int"]',
        '["int", ["string"]]',
        '{"type": "array"}',
        '{"type": "fixed", "name": "F", "size": -1}',
        enum("A", "A"),
        enum("A", default="B"),
        record("a", "a"),
        record({"name": "a", "type": "int", "default": "x"}),
        record({"name": "a", "type": {"type": "array", "items": "int"}, "default": ["x"]}),
        record({"name": "a", "type": "Unknown"}),
        record({"name": "a", "type": "int", "order": "sideways"}),
        "12",
    ],
)
def test_avro_that_is_not_valid(text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        avro.parse(text)


def test_avro_keeps_what_it_reads() -> None:
    document = {
        "type": "record",
        "name": "A",
        "namespace": "x.y",
        "doc": "text",
        "fields": [
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["P"], "default": "P"}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "again", "type": ["null", "E"], "default": None, "order": "ignore"},
            {"name": "f", "type": {"type": "fixed", "name": "F", "namespace": "z", "size": 3}},
            {"name": "m", "type": {"type": "map", "values": "z.F"}, "aliases": ["n"], "tag": [1]},
        ],
        "aliases": ["B"],
    }
    text = avro.text_of(avro.parse(json.dumps(document)))
    assert json.loads(text) == document
    assert avro.text_of(avro.parse('{"type": {"type": "string"}}')) == '"string"'


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def opened(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


TEXT, INT, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
REF = {"$ref": "#/definitions/part"}
JSON: list[tuple[Any, Any, list[str]]] = [
    (TEXT, {"type": ["string", "null"]}, []),
    ({"type": ["string", "null"]}, TEXT, ["TYPE_NARROWED"]),
    (TEXT, INT, ["TYPE_CHANGED"]),
    (INT, NUMBER, []),
    (NUMBER, INT, ["TYPE_CHANGED"]),
    (TEXT, True, []),
    (TEXT, False, ["SCHEMA_REMOVED"]),
    ({}, TEXT, ["TYPE_NARROWED"]),
    (TEXT, TEXT | {"title": "t", "description": "d", "default": "x"}, []),
    (TEXT, TEXT | {"maxLength": 5}, ["MAX_LENGTH_ADDED"]),
    (TEXT | {"maxLength": 5}, TEXT | {"maxLength": 6}, []),
    (TEXT | {"maxLength": 5}, TEXT | {"maxLength": 4}, ["MAX_LENGTH_DECREASED"]),
    (TEXT | {"minLength": 5}, TEXT | {"minLength": 6}, ["MIN_LENGTH_INCREASED"]),
    (TEXT | {"pattern": "a"}, TEXT, []),
    (TEXT, TEXT | {"pattern": "a"}, ["PATTERN_ADDED"]),
    (TEXT | {"pattern": "b"}, TEXT | {"pattern": "a"}, ["PATTERN_CHANGED"]),
    (NUMBER | {"minimum": 0}, NUMBER | {"minimum": -1}, []),
    (NUMBER | {"minimum": 0}, NUMBER | {"minimum": 1}, ["MINIMUM_INCREASED"]),
    (NUMBER, NUMBER | {"exclusiveMaximum": 9}, ["EXCLUSIVE_MAXIMUM_ADDED"]),
    (INT | {"multipleOf": 4}, INT | {"multipleOf": 2}, []),
    (INT | {"multipleOf": 2}, INT | {"multipleOf": 4}, ["MULTIPLE_OF_EXPANDED"]),
    (INT | {"multipleOf": 2}, INT | {"multipleOf": 3}, ["MULTIPLE_OF_CHANGED"]),
    ({"enum": ["a"]}, {"enum": ["a", "b"]}, []),
    ({"enum": ["a", "b"]}, {"enum": ["a"]}, ["ENUM_ARRAY_NARROWED"]),
    ({"enum": ["a", "b"]}, {"enum": ["a", "c"]}, ["ENUM_ARRAY_CHANGED"]),
    (TEXT, TEXT | {"enum": ["a"]}, ["ENUM_ARRAY_ADDED"]),
    (TEXT | {"enum": ["a"]}, TEXT, []),
    (opened(a=TEXT), opened(a=TEXT, b=TEXT), ["PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
    (opened(a=TEXT), opened(a=TEXT, b={}), []),
    (opened(a=TEXT, b=TEXT), opened(a=TEXT), []),
    (closed(a=TEXT), closed(a=TEXT, b=TEXT), []),
    (closed(a=TEXT, b=TEXT), closed(a=TEXT), ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
    (
        closed(a=TEXT),
        closed(a=TEXT, b=TEXT) | {"required": ["b"]},
        ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"],
    ),
    (closed(a=TEXT), closed(a=TEXT, b=TEXT | {"default": "x"}) | {"required": ["b"]}, []),
    (opened(a=TEXT), opened(a=TEXT) | {"required": ["a"]}, ["REQUIRED_ATTRIBUTE_ADDED"]),
    (opened(a=TEXT) | {"required": ["a"]}, opened(a=TEXT), []),
    (closed(a=TEXT), opened(a=TEXT), []),
    (opened(a=TEXT), closed(a=TEXT), ["ADDITIONAL_PROPERTIES_REMOVED"]),
    (
        opened(a=TEXT),
        opened(a=TEXT) | {"additionalProperties": INT},
        ["ADDITIONAL_PROPERTIES_NARROWED"],
    ),
    (
        closed(a=TEXT) | {"additionalProperties": TEXT},
        closed(a=TEXT, b=TEXT) | {"additionalProperties": TEXT},
        [],
    ),
    (
        closed(a=TEXT) | {"additionalProperties": TEXT},
        closed(a=TEXT, b=INT) | {"additionalProperties": TEXT},
        ["PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
    ),
    (
        closed(a=TEXT, b=INT) | {"additionalProperties": TEXT},
        closed(a=TEXT) | {"additionalProperties": TEXT},
        ["PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
    ),
    (
        closed(a=TEXT) | {"patternProperties": {"^x": TEXT}},
        closed(a=TEXT, x1=INT) | {"patternProperties": {"^x": TEXT}},
        ["PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
    ),
    (opened(a=opened(b=TEXT)), opened(a=opened(b=INT)), ["TYPE_CHANGED"]),
    ({"type": "array", "items": INT}, {"type": "array", "items": NUMBER}, []),
    ({"type": "array", "items": NUMBER}, {"type": "array", "items": INT}, ["TYPE_CHANGED"]),
    ({"type": "array"}, {"type": "array", "maxItems": 3}, ["MAX_ITEMS_ADDED"]),
    ({"type": "array"}, {"type": "array", "uniqueItems": True}, ["UNIQUE_ITEMS_ADDED"]),
    (
        {"type": "array", "items": [TEXT], "additionalItems": False},
        {"type": "array", "items": [TEXT, INT], "additionalItems": False},
        [],
    ),
    (
        {"type": "array", "items": [TEXT, INT], "additionalItems": False},
        {"type": "array", "items": [TEXT], "additionalItems": False},
        ["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"],
    ),
    (
        {"type": "array", "prefixItems": [TEXT]},
        {"type": "array", "prefixItems": [TEXT, INT]},
        ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL"],
    ),
    ({"oneOf": [TEXT, INT]}, {"oneOf": [INT, TEXT, {"type": "null"}]}, []),
    ({"oneOf": [TEXT, INT]}, {"oneOf": [TEXT]}, ["SUM_TYPE_NARROWED"]),
    (
        {"oneOf": [TEXT, INT]},
        {"oneOf": [TEXT, {"type": "boolean"}]},
        ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"],
    ),
    (TEXT, {"oneOf": [TEXT, INT]}, []),
    ({"oneOf": [TEXT, INT]}, {"type": ["string", "number"]}, []),
    ({"anyOf": [TEXT, INT]}, {"oneOf": [TEXT, INT]}, ["COMBINED_TYPE_CHANGED"]),
    ({"oneOf": [TEXT, INT]}, {"anyOf": [TEXT, INT]}, []),
    ({"allOf": [opened(a=TEXT), opened(b=TEXT)]}, {"allOf": [opened(a=TEXT)]}, []),
    (
        {"allOf": [opened(a=TEXT)]},
        {"allOf": [opened(a=TEXT), opened(b=INT)]},
        ["PRODUCT_TYPE_EXTENDED"],
    ),
    ({"not": TEXT}, {}, []),
    (NUMBER, NUMBER | {"not": {"const": 1}}, ["NOT_TYPE_EXTENDED"]),
    (
        opened(a=REF) | {"definitions": {"part": TEXT}},
        opened(a=REF) | {"definitions": {"part": INT}},
        ["TYPE_CHANGED"],
    ),
    (
        {"type": "object", "properties": {"next": {"$ref": "#"}}},
        {"type": "object", "properties": {"next": {"$ref": "#"}}},
        [],
    ),
    (
        opened() | {"dependentRequired": {"a": ["b"]}},
        opened() | {"dependentRequired": {"a": ["b", "c"]}},
        ["DEPENDENCY_ARRAY_EXTENDED"],
    ),
]


@pytest.mark.parametrize(("old", "new", "expected"), JSON)
def test_json(old: Any, new: Any, expected: list[str]) -> None:
    before, after = (json_schema.parse(json.dumps(each)) for each in (old, new))
    assert kinds(json_schema.incompatibilities(after, before)) == expected
    assert json_schema.incompatibilities(before, before) == []


def proto(body: str, package: str = "shop", syntax: str = "proto3") -> str:
    return f'syntax = "{syntax}"; package {package}; {body}'


M = "message M { %s }"
PROTOBUF = [
    (M % "int32 a = 1;", M % "int32 b = 1;", []),
    (M % "int32 a = 1;", M % "int64 a = 1;", []),
    (M % "int32 a = 1;", M % "bool a = 1;", []),
    (M % "string a = 1;", M % "bytes a = 1;", []),
    (M % "int32 a = 1;", M % "sint32 a = 1;", ["FIELD_SCALAR_KIND_CHANGED"]),
    (M % "int32 a = 1;", M % "string a = 1;", ["FIELD_SCALAR_KIND_CHANGED"]),
    (M % "fixed32 a = 1;", M % "fixed64 a = 1;", ["FIELD_SCALAR_KIND_CHANGED"]),
    (M % "int32 a = 1;", M % "int32 a = 1; int32 b = 2;", []),
    (M % "int32 a = 1; int32 b = 2;", M % "int32 a = 1;", []),
    (M % "int32 a = 1;", M % "repeated int32 a = 1;", ["FIELD_NUMERIC_LABEL_CHANGED"]),
    (M % "string a = 1;", M % "repeated string a = 1;", []),
    (M % "N a = 1; message N {}", M % "int32 a = 1; message N {}", ["FIELD_KIND_CHANGED"]),
    (M % "N a = 1; message N {} message O {}", M % "O a = 1; message N {} message O {}",
     ["FIELD_NAMED_TYPE_CHANGED"]),
    (M % "E a = 1; enum E { Z = 0; }", M % "int32 a = 1;", []),
    ("message A {} message B {}", "message A {}", ["MESSAGE_REMOVED"]),
    ("message A {}", "message A {} message B {}", []),
    (M % "N n = 1; message N { int32 a = 1; }", M % "N n = 1; message N { string a = 1; }",
     ["FIELD_SCALAR_KIND_CHANGED"]),
    (M % "map<string, int32> a = 1;", M % "map<string, int64> a = 1;", []),
    (M % "map<string, int32> a = 1;", M % "map<string, string> a = 1;",
     ["FIELD_SCALAR_KIND_CHANGED"]),
    (M % "oneof o { int32 a = 1; int32 b = 2; }", M % "oneof o { int32 a = 1; }",
     ["ONEOF_FIELD_REMOVED"]),
    (M % "oneof o { int32 a = 1; }", M % "oneof o { int32 a = 1; int32 b = 2; }", []),
    (M % "int32 a = 1; int32 b = 2;", M % "oneof o { int32 a = 1; int32 b = 2; }",
     ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"]),
    (M % "int32 a = 1;", M % "oneof o { int32 a = 1; }", []),
    (M % "int32 a = 1; oneof o { int32 b = 2; }", M % "oneof o { int32 a = 1; int32 b = 2; }",
     ["FIELD_MOVED_TO_EXISTING_ONEOF"]),
    (M % "int32 a = 1;", M % "optional int32 a = 1;", []),
    (M % "M next = 1;", M % "M next = 1; int32 a = 2;", []),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), PROTOBUF)
def test_protobuf(old: str, new: str, expected: list[str]) -> None:
    before, after = protobuf.parse(proto(old)), protobuf.parse(proto(new))
    assert kinds(protobuf_compatibility.incompatibilities(after, before)) == expected
    assert protobuf_compatibility.incompatibilities(before, before) == []


def test_protobuf_packages_and_required_fields() -> None:
    def compared(old: str, new: str) -> list[str]:
        parsed = protobuf.parse(new), protobuf.parse(old)
        return kinds(protobuf_compatibility.incompatibilities(*parsed))

    assert compared(proto("message M {}"), proto("message M {}", "other")) == ["PACKAGE_CHANGED"]
    bare, one = M % "", M % "required int32 a = 1;"
    two = {"syntax": "proto2"}
    assert compared(proto(bare, **two), proto(one, **two)) == ["REQUIRED_FIELD_ADDED"]
    assert compared(proto(one, **two), proto(bare, **two)) == ["REQUIRED_FIELD_REMOVED"]


@pytest.mark.parametrize(
    "body",
    [
        "message {}",
        M % "int32 a = 0;",
        M % "int32 a = 1; int32 b = 1;",
        M % "int32 a = 19000;",
        M % "Unknown a = 1;",
        M % "map<double, int32> a = 1;",
        "message A {} message A {}",
        "enum E {}",
        "enum E { A = 1; }",
        "enum E { A = 0; B = 0; }",
        'import "missing.proto";',
        M % "int32 a = 1",
        "option = 5;",
        'option java_multiple_files = "x";',
        "message M { int32 a = 1; } }",
        '"',
    ],
)
def test_protobuf_that_is_not_valid(body: str) -> None:
    with pytest.raises(InvalidSchemaError):
        protobuf.parse(proto(body))


@pytest.mark.parametrize(
    "text",
    [
        proto(
            "option java_package = 'a.b'; message M { reserved 9, 20 to max; reserved 'q';"
            "int32 a = 1 [deprecated = true, json_name = 'x', (my.tag) = 'PII'];"
            "optional string b = 2; repeated In c = 3; map<string, In> d = 4;"
            "oneof o { int64 e = 5; In f = 6; } .shop.E g = 7; message In { M m = 1; } }"
            "enum E { option allow_alias = true; Z = 0; Y = 0; X = -5; }"
            "service S { rpc Do (stream M) returns (M.In) { option deprecated = true; } }"
        ),
        proto(
            "message M { required int32 a = 1 [default = -5]; optional string b = 2 [default = 'x'];"
            "optional group G = 3 { optional E e = 1; } extensions 100 to 199; enum E { P = 4; } }"
            "extend M { optional int32 more = 100; }",
            syntax="proto2",
        ),
        'edition = "2023"; package p; message M { int32 a = 1 [features.field_presence = IMPLICIT]; }',
        (
            'syntax = "proto3"; import "google/protobuf/struct.proto";'
            "message M { google.protobuf.Struct s = 1; google.protobuf.NullValue n = 2; }"
        ),
    ],
    ids=["proto3", "proto2", "editions", "well-known"],
)
def test_protobuf_text_is_stable(text: str) -> None:
    first = protobuf.parse(text)
    written = protobuf.text_of(first)
    again = protobuf.parse(written)
    assert again.file == first.file
    assert protobuf.text_of(again) == written
    normal = protobuf.text_of(first, normalize=True)
    assert protobuf.text_of(protobuf.parse(normal), normalize=True) == normal
