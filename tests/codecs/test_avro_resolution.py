"""Random pairs of writer's and reader's schemas: the values are those that fastavro resolves."""

from __future__ import annotations

from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_native.codecs import AvroDecoder, DecodeError, SchemaError
from tests.codecs import avro_schemas as avro

QUIET = settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
WIDER = {
    "int": ["long", "float", "double"],
    "long": ["float", "double"],
    "float": ["double"],
    "string": ["bytes"],
    "bytes": ["string"],
}
DEFAULTS: list[tuple[Any, Any, Any]] = [
    # type, default in JSON, value
    ("int", 5, 5),
    ("string", "d", "d"),
    (["null", "string"], None, None),
    ({"type": "array", "items": "long"}, [1, 2], [1, 2]),
    ({"type": "map", "values": "int"}, {"k": 3}, [("k", 3)]),
    ("boolean", False, False),
]


@st.composite
def evolved(draw: st.DrawFn, schema: Any) -> Any:
    """Draw a reader's schema for a writer's one."""
    if isinstance(schema, str):
        return draw(st.sampled_from([schema, *WIDER.get(schema, [])]))
    if isinstance(schema, list):
        branches = [draw(evolved(each)) for each in schema]
        names = [avro.branch_name(each) for each in branches]
        return draw(st.permutations(branches if len(set(names)) == len(names) else schema))
    if schema["type"] == "array":
        return {"type": "array", "items": draw(evolved(schema["items"]))}
    if schema["type"] == "map":
        return {"type": "map", "values": draw(evolved(schema["values"]))}
    if schema["type"] == "enum":
        return {**schema, "symbols": draw(st.permutations(schema["symbols"]))}
    if schema["type"] != "record":
        return schema
    fields = [{**each, "type": draw(evolved(each["type"]))} for each in schema["fields"]]
    fields = [each for each in fields if draw(st.integers(0, 3))]
    for index in range(draw(st.integers(0, 2))):
        kind, default, _ = draw(st.sampled_from(DEFAULTS))
        fields.append({"name": f"new{index}", "type": kind, "default": default})
    return {**schema, "fields": draw(st.permutations(fields))}


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, Any, list[Any]]:
    writer = avro.bare(draw(avro.records(avro.Names(), 3)))
    return writer, draw(evolved(writer)), draw(st.lists(avro.values(writer), max_size=4))


def as_arrow(schema: Any, value: Any) -> Any:
    """Return a value of fastavro as pyarrow shows it: maps are lists of pairs."""
    if isinstance(schema, list):
        branches = [each for each in schema if each != "null"]
        if value is None or len(branches) > 1:
            return value
        return as_arrow(branches[0], value)
    if isinstance(schema, str):
        return value
    if schema["type"] == "array":
        return [as_arrow(schema["items"], each) for each in value]
    if schema["type"] == "map":
        return [(key, as_arrow(schema["values"], each)) for key, each in value.items()]
    if schema["type"] == "record":
        return {
            each["name"]: as_arrow(each["type"], value[each["name"]]) for each in schema["fields"]
        }
    return value


def has_containers_in_unions(schema: Any) -> bool:
    """Return whether fastavro's value doesn't show which branch of a union it has."""
    if isinstance(schema, list):
        branches = [each for each in schema if each != "null"]
        nested = any(
            isinstance(each, dict) and each["type"] in ("record", "map", "array")
            for each in branches
        )
        return (len(branches) > 1 and nested) or any(map(has_containers_in_unions, branches))
    if not isinstance(schema, dict):
        return False
    inner = [
        schema.get("items"),
        schema.get("values"),
        *(each["type"] for each in schema.get("fields", ())),
    ]
    return any(has_containers_in_unions(each) for each in inner if each is not None)


def of_fastavro(record: bytes, writer: Any, reader: Any) -> tuple[bool, Any]:
    try:
        return True, avro.decode(record, writer, reader)
    except (fastavro.read.SchemaResolutionError, UnicodeDecodeError, ValueError, OverflowError):
        return False, None


@QUIET
@given(cases())
def test_resolved_values_are_those_of_fastavro(case: tuple[Any, Any, list[Any]]) -> None:
    writer, reader, rows = case
    if has_containers_in_unions(reader):
        return
    decoder = AvroDecoder(writer, reader)
    for row in rows:
        record = avro.encode(writer, row)
        is_good, value = of_fastavro(record, writer, reader)
        try:
            array = pa.array(decoder.decode([record]))
        except DecodeError:
            assert not is_good
            continue
        array.validate(full=True)
        assert is_good
        assert floats(array.to_pylist()) == floats([as_arrow(reader, value)])


def floats(value: Any) -> Any:
    """Return the value with floats of 32 bits, as a reader's float has only these."""
    if isinstance(value, (list, tuple)):
        return [floats(each) for each in value]
    if isinstance(value, dict):
        return {key: floats(each) for key, each in value.items()}
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return pa.scalar(float(value), pa.float32()).as_py()
    return value


@pytest.mark.parametrize(
    ("writer", "reader"),
    [("int", "string"), ("double", "float"), ("long", "int"), ("null", "int"), ("boolean", "int")],
)
def test_types_that_fastavro_does_not_resolve_are_refused(writer: str, reader: str) -> None:
    written, wanted = (
        {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}
        for kind in (writer, reader)
    )
    value = {"null": None, "boolean": True, "double": 1.0}.get(writer, 1)
    assert not of_fastavro(avro.encode(written, {"f": value}), written, wanted)[0]
    with pytest.raises(SchemaError):
        AvroDecoder(written, wanted)
