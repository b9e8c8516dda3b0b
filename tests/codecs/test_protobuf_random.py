"""Messages of random schemas: protobuf writes them, and Arrow shows each value unchanged."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import struct_pb2
from google.protobuf.message import DecodeError as ParseError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_native.codecs import ProtobufDecoder, ProtobufEncoder
from tests.codecs import protobuf_schemas as schemas

QUIET = settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)


NUMBERS = """
syntax = "proto3";
import "google/protobuf/struct.proto";
message Numbers { google.protobuf.Value one = 1; }
"""


def stored(array: pa.Array) -> list[Any]:
    """Return the values, with times as stored numbers, and maps as sorted lists."""
    kind = array.type
    if pa.types.is_struct(kind):
        children = [stored(array.field(i)) for i in range(kind.num_fields)]
        names = [each.name for each in kind]
        rows = [dict(zip(names, each, strict=True)) for each in zip(*children, strict=True)]
        return masked(array, rows if children else [{} for _ in range(len(array))])
    if pa.types.is_map(kind):
        entries = list(zip(stored(array.keys), stored(array.items), strict=True))
        offsets = array.offsets.to_pylist()
        return [
            sorted(entries[a:b], key=schemas.first_repr) for a, b in itertools.pairwise(offsets)
        ]
    if pa.types.is_list(kind):
        items, offsets = stored(array.values), array.offsets.to_pylist()
        return [items[a:b] for a, b in itertools.pairwise(offsets)]
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return array.view(pa.int64()).to_pylist()
    return array.to_pylist()


def masked(array: pa.Array, rows: list[Any]) -> list[Any]:
    return [
        row if good else None for row, good in zip(rows, array.is_valid().to_pylist(), strict=True)
    ]


def rows_of(decoder: ProtobufDecoder, records: list[bytes | None], **options: Any) -> list[Any]:
    array = pa.array(decoder.decode(records, **options))
    array.validate(full=True)
    return stored(array)


def is_message(class_: Any, data: bytes) -> bool:
    """Return whether data is a message. In proto2 its strings may be no UTF-8; columns refuse it."""
    try:
        message = class_.FromString(data)
        schemas.shown(message)
        return bool(message.IsInitialized())
    except (ParseError, UnicodeDecodeError):
        return False


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, list[bytes]]:
    """Return a class and encoded messages, which are whole, in pieces, and in another order."""
    class_ = schemas.class_of(draw(schemas.files()))
    records = []
    for _ in range(draw(st.integers(1, 4))):
        data = b""
        for _ in range(draw(st.sampled_from([1, 1, 2, 3]))):
            message = class_()
            schemas.fill(draw, message)
            data += message.SerializePartialToString()
        if draw(st.booleans()):
            data = schemas.shuffled(draw, class_.DESCRIPTOR, data)
        if is_message(class_, data):
            records.append(data)
    return class_, records


def check_each_value(case: tuple[Any, list[bytes]]) -> None:
    class_, records = case
    expected = [schemas.shown(class_.FromString(each)) for each in records]
    assert rows_of(ProtobufDecoder(class_), records) == expected


@QUIET
@given(cases())
def test_each_value_arrives(case: tuple[Any, list[bytes]]) -> None:
    check_each_value(case)


@QUIET
@given(cases())
def test_decoded_columns_become_messages_again(case: tuple[Any, list[bytes]]) -> None:
    class_, records = case
    # An open enum's number without a name would be null.
    decoder = ProtobufDecoder(class_, enums="numbers")
    column = pa.array(decoder.decode([*records, None]))
    again = pa.chunked_array(ProtobufEncoder(class_).encode(column)).to_pylist()
    assert again.pop() is None
    assert rows_of(decoder, again) == rows_of(decoder, records)
    for each in again:
        assert class_.FromString(each).IsInitialized()


@QUIET
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_each_number_survives_json(number: float) -> None:
    value = struct_pb2.Value(number_value=number).SerializeToString()
    data = bytes([0x0A, len(value)]) + value
    column = pa.array(ProtobufDecoder(NUMBERS).decode([data]))
    text = json.loads(column.field("one")[0].as_py())
    assert (float(text), str(float(text))) == (number, str(number))
    again = pa.chunked_array(ProtobufEncoder(NUMBERS).encode(column)).to_pylist()
    assert again == [data]


@pytest.mark.slow
@settings(QUIET, max_examples=1000)
@given(cases())
def test_each_value_of_many_schemas_arrives(case: tuple[Any, list[bytes]]) -> None:
    check_each_value(case)


@QUIET
@given(cases(), st.data())
def test_a_projection_has_the_same_values(
    case: tuple[Any, list[bytes]], data: st.DataObject
) -> None:
    class_, records = case
    names = [each.name for each in class_.DESCRIPTOR.fields]
    wanted = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    expected = [schemas.shown(class_.FromString(each), wanted) for each in records]
    assert rows_of(ProtobufDecoder(class_, fields=wanted), records) == expected


@QUIET
@given(cases(), st.data())
def test_a_bad_record_leaves_the_others_unchanged(
    case: tuple[Any, list[bytes]], data: st.DataObject
) -> None:
    class_, records = case
    expected: list[Any] = []
    mixed: list[bytes | None] = []
    decoder = ProtobufDecoder(class_)
    for record in records:
        cut = record[: data.draw(st.integers(0, len(record)))]
        for each in (record, cut, cut + b"\x0c", None):
            mixed.append(each)
            is_good = each is not None and not decoder.decode([each], on_error="null").errors
            expected.append(schemas.shown(class_.FromString(each)) if is_good else None)
            if each is not None:
                assert is_good == is_message(class_, each)
    assert rows_of(decoder, mixed, on_error="null") == expected


@QUIET
@given(cases(), st.binary(max_size=200))
def test_random_bytes_give_a_value_or_an_error(case: tuple[Any, list[bytes]], noise: bytes) -> None:
    column = ProtobufDecoder(case[0]).decode([noise, noise[:7]], on_error="null")
    array = pa.array(column)
    array.validate(full=True)
    assert len(array) == 2
    assert array.null_count == len(column.errors)
