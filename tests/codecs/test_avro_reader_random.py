"""Records of random schemas: objects are those of fastavro, type for type."""

from __future__ import annotations

import json
from typing import Any

import fastavro
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_native.codecs import AvroReader, DecodeError
from tests.codecs import avro_schemas as avro

QUIET = settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)
WIDER = {
    "int": ["long", "float", "double"],
    "long": ["float", "double"],
    "float": ["double"],
    "string": ["bytes"],
    "bytes": ["string"],
}
DEFAULTS: list[tuple[Any, Any]] = [
    ("int", 5),
    ("string", "d"),
    (["null", "string"], None),
    ({"type": "array", "items": "long"}, [1, 2]),
    ({"type": "map", "values": "int"}, {"k": 3}),
    ("bytes", "\xff"),
    ({"type": "int", "logicalType": "date"}, 3),
]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    schema = draw(avro.records(avro.Names(), 3))
    return schema, draw(st.lists(avro.values(schema), max_size=4))


@st.composite
def evolved(draw: st.DrawFn, schema: Any) -> Any:
    """Draw a reader's schema for a writer's one."""
    if isinstance(schema, str):
        return draw(st.sampled_from([schema, *WIDER.get(schema, [])]))
    if isinstance(schema, list):
        branches = [draw(evolved(each)) for each in schema]
        names = [avro.branch_name(each) for each in branches]
        return draw(st.permutations(branches if len(set(names)) == len(names) else schema))
    if schema["type"] in ("array", "map"):
        part = "items" if schema["type"] == "array" else "values"
        return {"type": schema["type"], part: draw(evolved(schema[part]))}
    if schema["type"] == "enum":
        return {**schema, "symbols": draw(st.permutations(schema["symbols"]))}
    if schema["type"] != "record":
        return draw(st.sampled_from([schema, avro.bare(schema)]))
    fields = [{**each, "type": draw(evolved(each["type"]))} for each in schema["fields"]]
    fields = [each for each in fields if draw(st.integers(0, 3))]
    for index in range(draw(st.integers(0, 2))):
        kind, default = draw(st.sampled_from(DEFAULTS))
        fields.append({"name": f"new{index}", "type": kind, "default": default})
    return {**schema, "fields": draw(st.permutations(fields))}


@QUIET
@given(cases())
def test_each_value_is_that_of_fastavro(case: tuple[Any, list[Any]]) -> None:
    schema, rows = case
    program = AvroReader(json.dumps(schema))
    for row in rows:
        data = avro.encode(avro.bare(schema), row)
        # repr() shows each type, the order of dicts, time zones and the digits of decimals
        assert repr(program.read(data)) == repr(avro.decode(data, schema))


@QUIET
@given(cases(), st.data())
def test_a_reader_schema(case: tuple[Any, list[Any]], data: st.DataObject) -> None:
    writer, rows = case
    reader = data.draw(evolved(writer))
    program = AvroReader(writer, reader)
    for row in rows:
        record = avro.encode(avro.bare(writer), row)
        try:
            expected = avro.decode(record, writer, reader)
        except (fastavro.read.SchemaResolutionError, UnicodeDecodeError):
            continue
        try:
            value = program.read(record)
        except DecodeError:
            assert program._is_disputed
            continue
        assert program._is_disputed or repr(value) == repr(expected)


def outcome(program: AvroReader[Any], record: bytes) -> tuple[bool, Any]:
    """Return whether a record is good, and its value or the position of the problem."""
    try:
        return True, program.read(record)
    except DecodeError as error:
        return False, error.position


@QUIET
@given(cases(), st.data())
def test_a_record_that_is_cut_off(case: tuple[Any, list[Any]], data: st.DataObject) -> None:
    schema, rows = case
    program = AvroReader(schema)
    for row in rows:
        record = avro.encode(avro.bare(schema), row)
        cut = record[: data.draw(st.integers(0, len(record)))]
        is_good, found = outcome(program, cut)
        assert is_good == (cut == record)
        assert is_good or 0 <= found <= len(cut)


@QUIET
@given(cases(), st.binary(max_size=200))
def test_random_bytes_give_a_value_or_an_error(case: tuple[Any, list[Any]], noise: bytes) -> None:
    schema = case[0]
    is_good, found = outcome(AvroReader(schema), noise)
    if is_good:
        assert AvroReader(schema, {**schema, "fields": []}).read(noise) == {}
    else:
        assert 0 <= found <= len(noise)
