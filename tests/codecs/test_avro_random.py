"""Records of random schemas: fastavro writes them, and Arrow shows each value unchanged."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_native.codecs import AvroDecoder, DecodeError
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


def numbers_of_times(kind: pa.DataType, value: Any) -> Any:
    """Return times as the numbers that Arrow has stored, in microseconds or days."""
    if value is None:
        return None
    if pa.types.is_date32(kind):
        return value
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return value * (1000 if kind.unit == "ms" else 1)
    if pa.types.is_struct(kind):
        return {each.name: numbers_of_times(each.type, value[each.name]) for each in kind}
    if pa.types.is_map(kind):
        return [(key, numbers_of_times(kind.item_type, each)) for key, each in value]
    if pa.types.is_list(kind):
        return [numbers_of_times(kind.value_type, each) for each in value]
    return value


def stored(array: pa.Array) -> list[Any]:
    """Return the values, with times as stored numbers: Python's types don't hold all of them."""
    kind = array.type
    if pa.types.is_struct(kind):
        children = [stored(array.field(i)) for i in range(kind.num_fields)]
        names = [each.name for each in kind]
        rows = [dict(zip(names, each, strict=True)) for each in zip(*children, strict=True)]
        rows = rows if children else [{} for _ in range(len(array))]
        return masked(array, rows)
    if pa.types.is_map(kind):
        keys, items = stored(array.keys), stored(array.items)
        offsets = array.offsets.to_pylist()
        lists = [
            list(zip(keys[a:b], items[a:b], strict=True)) for a, b in itertools.pairwise(offsets)
        ]
        return masked(array, lists)
    if pa.types.is_list(kind):
        items, offsets = stored(array.values), array.offsets.to_pylist()
        return masked(array, [items[a:b] for a, b in itertools.pairwise(offsets)])
    if pa.types.is_union(kind):
        children = [stored(array.field(i)) for i in range(kind.num_fields)]
        codes, offsets = array.type_codes.to_pylist(), array.offsets.to_pylist()
        return [children[code][offset] for code, offset in zip(codes, offsets, strict=True)]
    if pa.types.is_date32(kind):
        return array.view(pa.int32()).to_pylist()
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        ticks = 1000 if kind.unit == "ms" else 1
        return [None if n is None else n * ticks for n in array.view(width).to_pylist()]
    return array.to_pylist()


def masked(array: pa.Array, rows: list[Any]) -> list[Any]:
    return [
        row if good else None for row, good in zip(rows, array.is_valid().to_pylist(), strict=True)
    ]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    schema = draw(avro.records(avro.Names(), 3))
    return schema, draw(st.lists(avro.values(schema), max_size=6))


@QUIET
@given(cases())
def test_each_value_arrives(case: tuple[Any, list[Any]]) -> None:
    schema, rows = case
    bare = avro.bare(schema)
    records = [avro.encode(bare, row) for row in rows]
    column = AvroDecoder(json.dumps(schema)).decode(records)
    array = pa.array(column)
    array.validate(full=True)
    assert stored(array) == [avro.shown(schema, row) for row in rows]


@QUIET
@given(cases(), st.data())
def test_a_projection_has_the_same_values(case: tuple[Any, list[Any]], data: st.DataObject) -> None:
    schema, rows = case
    names = [each["name"] for each in schema["fields"]]
    wanted = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    records = [avro.encode(avro.bare(schema), row) for row in rows]
    array = pa.array(AvroDecoder(schema, fields=wanted).decode(records))
    array.validate(full=True)
    shown = [avro.shown(schema, row) for row in rows]
    assert stored(array) == [{name: row[name] for name in names if name in wanted} for row in shown]


@QUIET
@given(cases(), st.data())
def test_a_bad_record_leaves_the_others_unchanged(
    case: tuple[Any, list[Any]], data: st.DataObject
) -> None:
    schema, rows = case
    records = [avro.encode(avro.bare(schema), row) for row in rows]
    decoder = AvroDecoder(schema)
    expected: list[Any] = []
    mixed: list[bytes | None] = []
    for record, row in zip(records, rows, strict=True):
        bad = record[: data.draw(st.integers(0, len(record)))]
        for each in (record, bad, None):
            mixed.append(each)
            good = each is not None and is_readable(decoder, each)
            expected.append(avro.shown(schema, row) if good else None)
    column = decoder.decode(mixed, on_error="null")
    array = pa.array(column)
    array.validate(full=True)
    assert stored(array) == expected
    failed = {error.row for error in column.errors}
    assert failed == {i for i, each in enumerate(mixed) if each is not None and expected[i] is None}


def is_readable(decoder: AvroDecoder, record: bytes) -> bool:
    try:
        decoder.decode([record])
    except DecodeError:
        return False
    return True


@QUIET
@given(cases(), st.binary(max_size=200))
def test_random_bytes_give_a_value_or_an_error(case: tuple[Any, list[Any]], noise: bytes) -> None:
    decoder = AvroDecoder(case[0])
    column = decoder.decode([noise, noise[:7]], on_error="null")
    array = pa.array(column)
    array.validate(full=False)
    assert len(array) == 2
    assert array.null_count == len(column.errors)
