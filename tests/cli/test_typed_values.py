"""The JSON form of typed values: there and back through Avro, and what is refused."""

from __future__ import annotations

import io
import json
import math
import re
from typing import Any

import fastavro
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from kafka_native.cli import typed_values
from tests.codecs import avro_schemas


def logical(physical: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": physical, "logicalType": name, **more}


DECIMAL = logical("bytes", "decimal", precision=30, scale=3)
ENUM = {"type": "enum", "name": "n.Suit", "symbols": ["HEART", "CLUB"]}
PAIR = {"type": "fixed", "name": "n.Pair", "size": 2}
A = {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]}
B = {"type": "record", "name": "B", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int"}]}  # fmt: skip
TREE = {"type": "record", "name": "n.Tree", "fields": [{"name": "value", "type": "int"}, {"name": "next", "type": ["null", "Tree"], "default": None}]}  # fmt: skip


def there_and_back(schema: Any, line: str) -> str:
    """Return the JSON that is read after this JSON is written as Avro."""
    parsed = fastavro.parse_schema(schema)
    value = typed_values.avro_converter(parsed)(typed_values.parse(line.encode()))
    data = io.BytesIO()
    fastavro.schemaless_writer(data, parsed, value)
    data.seek(0)
    return typed_values.json_text(fastavro.schemaless_reader(data, parsed, None))


SAME = [
    ("null", "null"),
    ("boolean", "true"),
    ("int", "-2147483648"),
    ("long", "9223372036854775807"),
    ("float", "0.5"),
    ("double", "1e+300"),
    ("double", '"NaN"'),
    ("double", '"-Infinity"'),
    ("string", '"größe\\u0000"'),
    ("bytes", '"AP8="'),
    (PAIR, '"AP8="'),
    (ENUM, '"CLUB"'),
    ({"type": "array", "items": ["null", "long"]}, "[1,null]"),
    ({"type": "map", "values": "double"}, '{"a":1.5,"b":"Infinity"}'),
    (DECIMAL, '"123456789012345678901234567.890"'),
    (logical("int", "date"), '"1960-02-29"'),
    (logical("int", "time-millis"), '"23:59:59.999"'),
    (logical("long", "time-micros"), '"00:00:00.000001"'),
    (logical("long", "timestamp-millis"), '"2024-05-01T12:00:00Z"'),
    (logical("long", "timestamp-micros"), '"1969-12-31T23:59:59.999999Z"'),
    (logical("long", "timestamp-nanos"), "1714564800123456789"),
    (logical("long", "local-timestamp-millis"), '"2024-05-01T12:00:00.250"'),
    (logical("long", "local-timestamp-micros"), '"2024-05-01T12:00:00"'),
    (logical("string", "uuid"), '"12345678-1234-5678-1234-567812345678"'),
    (TREE, '{"value":1,"next":{"value":2,"next":null}}'),
    ([A, B], '{"x":1,"y":2}'),
    (["null", ENUM, PAIR], '"HEART"'),
    (["null", ENUM, PAIR], '"AP8="'),
    (["int", "string", DECIMAL], "5"),
    (["double", "long"], "9007199254740993"),
    (["float", "double"], "0.1"),
    (["long", "double"], "5.0"),
]


@pytest.mark.parametrize(("schema", "line"), SAME, ids=[f"{each[0]}"[:50] for each in SAME])
def test_there_and_back(schema: Any, line: str) -> None:
    assert there_and_back(schema, line) == line


@pytest.mark.parametrize(
    ("schema", "line", "result"),
    [
        (logical("long", "timestamp-millis"), '"2024-05-01T14:00:00+02:00"', '"2024-05-01T12:00:00Z"'),
        (logical("long", "timestamp-millis"), '"2024-05-01T12:00:00"', '"2024-05-01T12:00:00Z"'),
        (logical("long", "timestamp-millis"), "250", '"1970-01-01T00:00:00.250Z"'),
        (logical("long", "timestamp-nanos"), '"2024-05-01T12:00:00.123456789Z"', "1714564800123456789"),
        (logical("long", "timestamp-nanos"), '"1969-12-31T23:59:59.5Z"', "-500000000"),
        (DECIMAL, "12.3", '"12.300"'),
        (DECIMAL, "-7", '"-7.000"'),
        (["null", DECIMAL], '{"bytes":"1"}', '"1.000"'),
        (["string", "bytes"], '{"bytes":"AA=="}', '"AA=="'),
        ([A, B], '{"B":{"x":1,"y":2}}', '{"x":1,"y":2}'),
        (["null", ENUM], '{"n.Suit":"CLUB"}', '"CLUB"'),
        ("double", "5", "5.0"),
        (TREE, '{"value":1}', '{"value":1,"next":null}'),
    ],
)  # fmt: skip
def test_other_forms_of_input(schema: Any, line: str, result: str) -> None:
    assert there_and_back(schema, line) == result


@pytest.mark.parametrize(
    ("schema", "line", "reason"),
    [
        ("int", "2147483648", "the value: 2147483648 is no int"),
        ("int", "true", "the value: true is no int"),
        ("int", "1.0", "the value: 1.0 is no int"),
        ("boolean", "0", "the value: 0 is no boolean"),
        ("double", '"nan"', 'the value: "nan" is no double'),
        ("double", "9" * 400, "the value: the number is too large for double"),
        ("double", "9007199254740993", "double can't hold all digits of 9007199254740993"),
        ("bytes", '"ÿ"', 'the value: "\\u00ff" isn\'t base64'),
        ("bytes", '"A"', 'the value: "A" isn\'t base64'),
        (PAIR, '"AA=="', "the value: 1 bytes, and n.Pair has 2"),
        (ENUM, '"SPADE"', 'the value: "SPADE" is no symbol of n.Suit'),
        ({"type": "array", "items": "int"}, '[1,"x"]', '[1]: "x" is no int'),
        ({"type": "map", "values": "int"}, '{"a b":[]}', "['a b']: an array is no int"),
        (TREE, '{"value":1,"next":{"value":"x"}}', 'next.value: "x" is no int'),
        (TREE, "5", "the value: 5 is no record n.Tree"),
        ([A, "string"], "5", "the value: 5 fits no branch of the union A, string"),
        ([A, "string"], '{"A":{"x":"y"}}', 'x: "y" is no int'),
        (DECIMAL, "1234567890.1234567", "the value: a decimal with so many digits has to be a text"),
        (DECIMAL, '"NaN"', 'the value: "NaN" is no decimal'),
        (DECIMAL, "[]", "the value: an array is no decimal"),
        (logical("int", "date"), '"2024-02-30"', 'the value: "2024-02-30" is no date'),
        (logical("int", "time-millis"), '"12:00:00.0001"', 'the value: "12:00:00.0001" is no time-millis'),
        (logical("long", "timestamp-millis"), '"2024-05-01T12:00:00.0001Z"', "is no timestamp-millis"),
        (logical("long", "timestamp-micros"), '"2024-05-01T12:00:00.1234567Z"', "is no timestamp-micros"),
        (logical("long", "timestamp-nanos"), '"2024-05-01T12:00:00.1234567890Z"', "is no timestamp-nanos"),
        (logical("long", "local-timestamp-millis"), '"2024-05-01T12:00:00Z"', "is no local-timestamp-millis"),
        (logical("long", "timestamp-millis"), '"2024-05-01"', "is no timestamp-millis"),
        (logical("string", "uuid"), '"x"', 'the value: "x" is no uuid'),
        ("string", json.dumps("x" * 100), ""),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit(schema: Any, line: str, reason: str) -> None:
    if not reason:
        assert there_and_back(schema, line) == line
        return
    with pytest.raises(ValueError, match=f"{re.escape(reason)}$"):
        there_and_back(schema, line)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "not JSON: Expecting value at character 1"),
        (b'{"a":1,}', "not JSON: "),
        (b"\xff", "not JSON: not UTF-8"),
        (b'{"a":{"b":1,"c":2,"b":3}}', "the member 'b' is there twice"),
        (b"[Infinity]", 'Infinity is no JSON number: write "Infinity"'),
        (b"[" * 100_000, "it is nested too deeply"),
    ],
)
def test_text_that_is_no_json(text: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}"):
        typed_values.parse(text)


def test_depth_is_limited() -> None:
    convert = typed_values.avro_converter(fastavro.parse_schema(TREE))
    value: dict[str, Any] = {"value": 1}
    for _ in range(5000):
        value = {"value": 1, "next": value}
    with pytest.raises(ValueError, match="nested too deeply"):
        convert(value)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested too deeply"):
        typed_values.json_text(deep)


def test_unknown_types_have_no_json_form() -> None:
    with pytest.raises(TypeError, match="complex has no JSON form"):
        typed_values.json_text(1j)


@st.composite
def schemas_with_values(draw: st.DrawFn) -> tuple[Any, Any]:
    schema = draw(avro_schemas.records(avro_schemas.Names(), 3))
    return schema, draw(avro_schemas.values(schema))


def has_choice(schema: Any) -> bool:
    """Return whether a schema has a union of several types beside null."""
    if isinstance(schema, list):
        branches = [each for each in schema if each != "null"]
        return len(branches) > 1 or any(has_choice(each) for each in branches)
    if not isinstance(schema, dict):
        return False
    parts = [
        schema.get("items"),
        schema.get("values"),
        *(each["type"] for each in schema.get("fields", [])),
    ]
    return any(has_choice(each) for each in parts)


def test_a_number_of_a_union_with_a_date_stays_a_number() -> None:
    schema = fastavro.parse_schema([{"type": "int", "logicalType": "date"}, "long"])
    convert = typed_values.avro_converter(schema)
    assert convert(0) == ("long", 0)
    assert convert("1970-01-01")[0] == "int"


NOTE = {"type": "map", "values": "string"}
C = {"type": "record", "name": "n.C", "fields": [{"name": "x", "type": "int"}, {"name": "z", "type": "int", "default": 0}]}  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "line", "branches"),
    [
        (["string", "bytes"], '"abcd"', ["string", "bytes"]),
        (["string", logical("int", "date")], '"2024-05-01"', ["string", "int"]),
        ([logical("int", "date"), logical("long", "timestamp-millis")], "5", ["int", "long"]),
        ([logical("int", "date"), DECIMAL], "5", ["int", "bytes"]),
        (["null", "string", ENUM], '"CLUB"', ["string", "n.Suit"]),
        (["null", "string", "double"], '"NaN"', ["string", "double"]),
        ([A, C], '{"x":1}', ["A", "n.C"]),
        (["null", {"type": "array", "items": ["string", "bytes"]}], '["abcd"]', ["string", "bytes"]),
    ],
)  # fmt: skip
def test_a_value_for_several_branches_is_refused(
    schema: Any, line: str, branches: list[str]
) -> None:
    ways = " or ".join(f'{{"{each}": ...}}' for each in branches)
    reason = f"fits several branches of the union: write {ways}"
    with pytest.raises(typed_values.AmbiguousUnionError, match=f"{re.escape(reason)}$"):
        there_and_back(schema, line)
    if isinstance(schema[-1], dict) and schema[-1]["type"] == "array":
        return
    convert = typed_values.avro_converter(fastavro.parse_schema(schema))
    assert [convert({each: json.loads(line)})[0] for each in branches] == branches


def test_an_object_may_be_a_map_or_name_a_branch() -> None:
    convert = typed_values.avro_converter(["string", NOTE])
    with pytest.raises(typed_values.AmbiguousUnionError, match="several branches"):
        convert({"string": "x"})
    assert convert("x") == ("string", "x")
    assert convert({"map": {"string": "x"}}) == ("map", {"string": "x"})


@pytest.mark.parametrize(
    ("schema", "line", "branch"),
    [
        (["double", "long", DECIMAL], "5", "long"),
        (["long", "int"], "5", "long"),
        ([DECIMAL, "float", "double"], "5", "double"),
        ([DECIMAL, "float"], "0.5", "float"),
        ([DECIMAL, "double"], '"0.5"', "bytes"),
        ([logical("int", "date"), logical("long", "timestamp-millis")], '"2024-05-01"', "int"),
        ([A, B, C], '{"x":1,"z":2}', "n.C"),
        (["string", NOTE], '{"strings":"x"}', "map"),
    ],
)
def test_the_branch_of_a_union(schema: Any, line: str, branch: str) -> None:
    convert = typed_values.avro_converter(fastavro.parse_schema(schema))
    assert convert(typed_values.parse(line.encode()))[0] == branch


@settings(max_examples=100, deadline=None)
@given(schemas_with_values())
def test_random_values_come_back(drawn: tuple[Any, Any]) -> None:
    """What `consume -s` prints is what `produce -s` writes again, byte for byte.

    A union's branch isn't in the JSON. If several branches can hold a value, it is refused.
    """
    schema, value = drawn
    data = avro_schemas.encode(avro_schemas.bare(schema), value)
    try:
        decoded = avro_schemas.decode(data, schema)
    except (OverflowError, ValueError):  # a time that Python doesn't have
        reject()
    text = typed_values.json_text(decoded)
    convert = typed_values.avro_converter(fastavro.parse_schema(schema))
    try:
        converted = convert(typed_values.parse(text.encode()))
    except typed_values.AmbiguousUnionError:
        assert has_choice(schema)
        return
    again = avro_schemas.encode(schema, converted)
    if has_choice(schema):
        assert typed_values.json_text(avro_schemas.decode(again, schema)) == text
    else:
        assert again == data


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(VALUES)
def test_every_value_is_the_same_json_twice(value: Any) -> None:
    """The JSON form is JSON, and reading it gives the value, with texts for special numbers."""
    text = typed_values.json_text(value)
    assert typed_values.json_text(typed_values.parse(text.encode())) == text
    if isinstance(value, float) and not math.isfinite(value):
        assert json.loads(text) == {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
