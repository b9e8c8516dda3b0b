"""The options of AvroDecoder for enums, unions and uuids give the same values in other types."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from kafka_native.codecs import Avro, AvroDecoder, DecodeError
from tests.codecs import avro_schemas as avro
from tests.codecs.consume_support import FakeRegistry, Topic, framed, table_of, values_of
from tests.codecs.test_avro_random import QUIET, cases, stored
from tests.harness.libraries import polars_or_skip
from tests.waiting import WAIT_S

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "Bé", ""]}
UUID = {"type": "string", "logicalType": "uuid"}
NUMBER = uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")


def record(*types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{index}", "type": kind} for index, kind in enumerate(types)]
    return {"type": "record", "name": "R", "fields": fields}


def column(writer: Any, records: list[bytes | None], **options: Any) -> pa.Array:
    array = pa.array(AvroDecoder(writer, **options).decode(records))
    array.validate(full=True)
    return array


def test_enums_as_strings() -> None:
    schema = record(ENUM, ["null", "E"])
    records = [b"\x02\x02\x00", b"\x00\x00", b"\x04\x02\x02"]
    array = column(schema, records, enums="string")
    assert [each.type for each in array.type] == [pa.string(), pa.string()]
    assert array.field(0).to_pylist() == ["Bé", "A", ""]
    assert array.field(1).to_pylist() == ["A", None, "Bé"]
    assert array.to_pylist() == column(schema, records).to_pylist()


def test_enums_as_strings_are_resolved_by_their_symbols() -> None:
    reader = record({**ENUM, "symbols": ["", "C", "A"], "default": "C"})
    array = column(record(ENUM), [b"\x00", b"\x02", b"\x04"], reader=reader, enums="string")
    assert array.field(0).to_pylist() == ["A", "C", ""]
    del reader["fields"][0]["type"]["default"]
    decoder = AvroDecoder(record(ENUM), reader, enums="string")
    with pytest.raises(DecodeError, match="the reader's enum lacks a symbol") as caught:
        decoder.decode([b"\x00", b"\x02"])
    assert (caught.value.row, caught.value.path) == (1, "f0")
    for symbol in (b"\x06", b"\x01"):
        with pytest.raises(DecodeError, match="an enum has no such symbol"):
            decoder.decode([symbol])


def test_strings_of_enums_count_as_output() -> None:
    symbol = "S" * 4000
    schema = {"type": "array", "items": {"type": "enum", "name": "E", "symbols": [symbol]}}
    good = b"\x04" + bytes(2) + b"\0"
    assert column(schema, [good], enums="string").to_pylist() == [[symbol, symbol]]
    with pytest.raises(DecodeError, match="arrays expand to too many bytes"):
        AvroDecoder(schema, enums="string").decode([b"\x80\x89\x7a" + bytes(1_000_000) + b"\0"])


def test_unions_as_structs() -> None:
    inner = {
        "type": "record",
        "name": "P",
        "namespace": "a",
        "fields": [{"name": "x", "type": "int"}],
    }
    schema = record(["null", "long", "string", inner], ["boolean", "int"])
    records = [
        avro.encode(schema, {"f0": first, "f1": second})
        for first, second in [(None, True), (7, 5), ("s", 6), (("a.P", {"x": 9}), False)]
    ]
    array = column(schema, records, unions="struct")
    nullable, certain = array.type
    assert nullable.nullable
    assert not certain.nullable
    assert [each.name for each in nullable.type] == ["long", "string", "a.P"]
    assert all(each.nullable for kind in (nullable, certain) for each in kind.type)
    assert array.field(0).to_pylist() == [
        None,
        {"long": 7, "string": None, "a.P": None},
        {"long": None, "string": "s", "a.P": None},
        {"long": None, "string": None, "a.P": {"x": 9}},
    ]
    assert [each["boolean"] for each in array.field(1).to_pylist()] == [True, None, None, False]
    frame = polars_or_skip().from_arrow(pa.Table.from_struct_array(array))
    assert frame["f1"].struct.field("int").to_list() == [None, 5, 6, None]


def test_records_that_are_unions_as_structs() -> None:
    schema = ["int", "string"]
    records = [avro.encode(schema, 5), None, avro.encode(schema, "x")]
    array = column(schema, records, unions="struct")
    assert array.to_pylist() == [{"int": 5, "string": None}, None, {"int": None, "string": "x"}]
    promoted = column("int", [b"\x0a"], reader=["null", "string", "double"], unions="struct")
    assert promoted.to_pylist() == [{"string": None, "double": 5.0}]


def test_uuids_as_extension() -> None:
    fixed = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
    schema = record(UUID, ["null", fixed], {"type": "array", "items": UUID})
    text = b"\x48" + str(NUMBER).encode()
    array = column(
        schema, [text + b"\x02" + NUMBER.bytes + b"\x02" + text + b"\0"], uuids="extension"
    )
    assert [each.type for each in array.type] == [
        pa.uuid(),
        pa.uuid(),
        pa.list_(pa.field("item", pa.uuid(), nullable=False)),
    ]
    assert array.to_pylist() == [{"f0": NUMBER, "f1": NUMBER, "f2": [NUMBER]}]
    plain = column(schema, [text + b"\x00\0"])
    assert plain.type.field("f0").metadata is None
    assert plain.to_pylist() == [{"f0": NUMBER.bytes, "f1": None, "f2": []}]


@pytest.mark.parametrize("option", ["enums", "unions", "uuids"])
def test_other_options_are_refused(option: str) -> None:
    with pytest.raises(ValueError, match=f'{option} must be "[a-z]+" or "[a-z]+", not \'other\''):
        AvroDecoder("int", **{option: "other"})


def merged(schema: Any, value: Any) -> Any:
    """Return a value without the structs of unions, and with uuids as bytes."""
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(schema, list):
        branches = [each for each in schema if each != "null"]
        if value is None or not branches:
            return None
        if len(branches) == 1:
            return merged(branches[0], value)
        (name,) = [name for name, each in value.items() if each is not None]
        return merged(next(each for each in schema if avro.branch_name(each) == name), value[name])
    if isinstance(schema, str) or value is None:
        return value
    if schema["type"] == "array":
        return [merged(schema["items"], each) for each in value]
    if schema["type"] == "map":
        return [(key, merged(schema["values"], each)) for key, each in value]
    if schema["type"] == "record":
        return {
            each["name"]: merged(each["type"], value[each["name"]]) for each in schema["fields"]
        }
    return value


@QUIET
@given(cases())
def test_random_values_are_the_same(case: tuple[Any, list[Any]]) -> None:
    schema, rows = case
    records = [avro.encode(avro.bare(schema), row) for row in rows]
    options = {"enums": "string", "unions": "struct", "uuids": "extension"}
    array = column(json.dumps(schema), records, **options)
    expected = [avro.shown(schema, row) for row in rows]
    assert [merged(schema, each) for each in stored(array)] == expected


def test_a_consumer_gets_the_same_columns(topic: Topic) -> None:
    """With two writers' schemas in one batch."""
    older = record(ENUM, ["int", "string"])
    newer = record({**ENUM, "symbols": ["", "A", "Bé"]}, ["int", "string"], UUID)
    newer["fields"][2]["default"] = str(NUMBER)
    registry = FakeRegistry()
    first = registry.add(older, f"{topic.name}-value")
    second = registry.add(newer, f"{topic.name}-value")
    text = b"\x48" + str(NUMBER).encode()
    topic.produce(framed(first, b"\x02\x00\x0a"), framed(second, b"\x02\x02\x02x" + text))
    codec = Avro(registry, enums="string", unions="struct", uuids="extension")
    with topic.consumer() as consumer:
        batch = consumer.consume_arrow(2, WAIT_S, columns=["value"], value=codec)
    kind = table_of(batch).schema.field("value").type
    assert kind.field("f0").type == pa.string()
    assert pa.types.is_struct(kind.field("f1").type)
    assert kind.field("f2").type == pa.uuid()
    assert values_of(batch) == [
        {"f0": "Bé", "f1": {"int": 5, "string": None}, "f2": NUMBER},
        {"f0": "A", "f1": {"int": None, "string": "x"}, "f2": NUMBER},
    ]
    with pytest.raises(ValueError, match='enums must be "dictionary" or "string"'):
        Avro(registry, enums="other")
