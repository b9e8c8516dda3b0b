"""Columns of random schemas, encoded: each record has the values that the column had."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_native.codecs import AvroDecoder, AvroEncoder
from kafka_native.codecs.avro_decoder import Unions
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


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    schema = draw(avro.records(avro.Names(), 3))
    return schema, draw(st.lists(st.one_of(st.none(), avro.values(schema)), max_size=6))


def column_of(
    schema: Any, rows: list[Any], unions: Unions = "dense"
) -> tuple[pa.Array, list[bytes | None]]:
    """Return a column with values, and the records that fastavro writes for them."""
    bare = avro.bare(schema)
    records = [None if row is None else avro.encode(bare, row) for row in rows]
    return pa.array(AvroDecoder(schema, unions=unions).decode(records)), records


def encoded(schema: Any, column: Any) -> list[bytes | None]:
    made = pa.chunked_array(AvroEncoder(json.dumps(schema)).encode(column))
    made.validate(full=True)
    assert made.type == pa.binary()
    records: list[bytes | None] = made.to_pylist()
    return records


def has_decimal(schema: Any) -> bool:
    return '"decimal"' in json.dumps(schema)


@QUIET
@given(cases(), st.sampled_from(["dense", "struct"]))
def test_a_decoded_column_becomes_its_records_again(
    case: tuple[Any, list[Any]], unions: Unions
) -> None:
    schema, rows = case
    column, records = column_of(schema, rows, unions)
    again = encoded(schema, column)
    assert pa.array(AvroDecoder(schema, unions=unions).decode(again)).equals(column)
    bare = avro.bare(schema)
    for old, new in zip(records, again, strict=True):
        assert (old is None) == (new is None)
        if old is None or new is None:
            continue
        if not has_decimal(schema):  # a decimal may have been written with more bytes than needed
            assert new == old
        avro.decode(new, bare)


@QUIET
@given(cases(), st.data())
def test_slices_and_chunks_are_encoded_like_the_whole(
    case: tuple[Any, list[Any]], data: st.DataObject
) -> None:
    schema, rows = case
    column, _ = column_of(schema, rows)
    whole = encoded(schema, column)
    first = data.draw(st.integers(0, len(rows)))
    last = data.draw(st.integers(first, len(rows)))
    parts = [column[:first], column[first:last], column[last:]]
    assert encoded(schema, column[first:last]) == whole[first:last]
    assert encoded(schema, pa.chunked_array(parts, column.type)) == whole
    # A slice of a table moves the start of each column, not of the struct.
    if column.null_count == 0 and column.type.num_fields:
        table = pa.Table.from_struct_array(column)
        assert encoded(schema, table[first:last]) == whole[first:last]
        batch = pa.RecordBatch.from_struct_array(column)
        assert encoded(schema, batch[first:last]) == whole[first:last]
