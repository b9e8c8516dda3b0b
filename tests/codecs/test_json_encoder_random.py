"""Random columns as JSON: JsonDecoder gives each back, and Python's parser reads each text."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kafka_native._native import codec_core
from kafka_native.codecs import EncodeError, JsonDecoder, JsonEncoder

pytestmark = pytest.mark.skipif(
    not codec_core.HAS_JSON, reason="this build has no simdjson (libsimdjson-dev)"
)
QUIET = settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NAMES = st.lists(TEXT.filter(lambda name: "\0" not in name), max_size=6, unique=True)
UTC = datetime.timezone.utc
SECONDS_MIN, SECONDS_MAX = -62_167_219_200, 253_402_300_799  # years 0000 and 9999

Typed = tuple[pa.DataType, st.SearchStrategy[Any]]


def integers(bits: int, signed: bool) -> Typed:
    low = -(2 ** (bits - 1)) if signed else 0
    kind = pa.type_for_alias(f"{'' if signed else 'u'}int{bits}")
    return kind, st.integers(low, low + 2**bits - 1)


def ticks(kind: pa.DataType, power: int, low_s: int, high_s: int) -> Typed:
    """Return a type of times, whose values are made of integers."""
    low, high = low_s * 10**power, high_s * 10**power + 10**power - 1
    limit = 2 ** (kind.bit_width - 1)
    return kind, st.integers(max(low, -limit), min(high, limit - 1))


def decimals(kind: Any) -> Typed:
    numbers = st.integers(-(10**kind.precision) + 1, 10**kind.precision - 1)
    context = decimal.Context(prec=80)
    return kind, numbers.map(lambda number: decimal.Decimal(number).scaleb(-kind.scale, context))


LEAVES: list[Typed] = [
    (pa.null(), st.none()),
    (pa.bool_(), st.booleans()),
    *(integers(bits, signed) for bits in (8, 16, 32, 64) for signed in (True, False)),
    (pa.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    (pa.string(), TEXT),
    (pa.binary(), st.binary(max_size=40)),
    (pa.binary(5), st.binary(min_size=5, max_size=5)),
    (pa.date32(), st.integers(-719528, 2932896)),
    *(ticks(pa.time32(unit), power, 0, 86399) for unit, power in (("s", 0), ("ms", 3))),
    *(ticks(pa.time64(unit), power, 0, 86399) for unit, power in (("us", 6), ("ns", 9))),
    *(
        ticks(pa.timestamp(unit, zone), power, SECONDS_MIN, SECONDS_MAX)
        for unit, power in (("s", 0), ("ms", 3), ("us", 6), ("ns", 9))
        for zone in (None, "UTC")
    ),
    (pa.duration("us"), st.integers(-(2**63), 2**63 - 1)),
    *(
        decimals(kind)
        for kind in (
            pa.decimal128(9, 2),
            pa.decimal128(38, 38),
            pa.decimal128(20, 0),
            pa.decimal128(6, -4),
            pa.decimal256(76, 30),
        )
    ),
]


def types_of(depth: int) -> st.SearchStrategy[Typed]:
    leaves = st.sampled_from(LEAVES)
    if not depth:
        return leaves
    inner = types_of(depth - 1)
    return st.one_of(leaves, inner.map(list_type), inner.map(map_type), struct_types(inner))


def list_type(item: Typed) -> Typed:
    return pa.list_(item[0]), st.lists(st.none() | item[1], max_size=5)


def map_type(value: Typed) -> Typed:
    values = st.dictionaries(TEXT, st.none() | value[1], max_size=5)
    return pa.map_(pa.string(), value[0]), values.map(lambda each: list(each.items()))


@st.composite
def struct_types(draw: Any, inner: Any) -> Typed:
    names = draw(NAMES)
    kinds = [draw(inner) for _ in names]
    kind = pa.struct([(name, each[0]) for name, each in zip(names, kinds, strict=True)])
    values = {name: st.none() | each[1] for name, each in zip(names, kinds, strict=True)}
    return kind, st.fixed_dictionaries(values)


def array_of(kind: pa.DataType, values: list[Any]) -> pa.Array:
    """Return an array; times are given as integers, which have more values than Python's types."""
    if pa.types.is_struct(kind):
        children = [
            array_of(field.type, [None if each is None else each[field.name] for each in values])
            for field in kind
        ]
        nulls = pa.array([each is None for each in values], pa.bool_())
        if not children:
            return pa.array(values, kind)
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=nulls)
    if pa.types.is_map(kind):
        keys = [pair[0] for each in values for pair in each or ()]
        items = array_of(kind.item_type, [pair[1] for each in values for pair in each or ()])
        return pa.MapArray.from_arrays(offsets(values), pa.array(keys, pa.string()), items)
    if pa.types.is_list(kind):
        items = array_of(kind.value_type, [item for each in values for item in each or ()])
        return pa.ListArray.from_arrays(offsets(values), items)
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return pa.array(values, kind)


def offsets(values: list[Any]) -> pa.Array:
    """Return the offsets of a list; null marks a null item."""
    found: list[int | None] = []
    count = 0
    for each in values:
        found.append(None if each is None else count)
        count += len(each or ())
    return pa.array([*found, count], pa.int32())


@st.composite
def tables(draw: Any) -> pa.Array:
    kind, values = draw(struct_types(types_of(2)))
    rows = draw(st.lists(st.none() | values, min_size=1, max_size=8))
    return array_of(kind, rows)


@QUIET
@given(tables(), st.booleans())
def test_columns_come_back_equal(array: pa.Array, has_schema: bool) -> None:
    schema = pa.schema(list(array.type))
    records = pa.chunked_array(JsonEncoder(schema if has_schema else None).encode(array))
    found = pa.array(JsonDecoder(schema).decode(records))
    found.validate(full=True)
    assert found.type == array.type
    assert found.equals(array)


@QUIET
@given(tables(), st.integers(0, 3), st.integers(1, 8))
def test_slices_are_encoded_like_the_whole(array: pa.Array, first: int, count: int) -> None:
    whole = pa.chunked_array(JsonEncoder().encode(array)).to_pylist()
    part = pa.chunked_array(JsonEncoder().encode(array.slice(first, count))).to_pylist()
    assert part == whole[first : first + count]


PLAIN: list[Typed] = [each for each in LEAVES if str(each[0]) in ("bool", "string", "double")]
PLAIN += [integers(64, True), integers(8, False)]


@st.composite
def plain_values(draw: Any) -> tuple[pa.DataType, list[Any]]:
    depth = draw(st.integers(0, 2))
    inner = st.sampled_from(PLAIN)
    for _ in range(depth):
        inner = inner | inner.map(list_type) | struct_types(inner)
    kind, values = draw(struct_types(inner))
    return kind, draw(st.lists(values, min_size=1, max_size=8))


@QUIET
@given(plain_values())
def test_python_reads_the_same_values(case: tuple[pa.DataType, list[Any]]) -> None:
    kind, values = case
    records = pa.chunked_array(JsonEncoder().encode(pa.array(values, kind))).to_pylist()
    for record, value in zip(records, values, strict=True):
        assert_same(json.loads(record), without_nulls(value))


def assert_same(found: Any, wanted: Any) -> None:
    """Check values and their types, as 1 == 1.0 == True."""
    assert type(found) is type(wanted)
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        found, wanted = [found[name] for name in wanted], list(wanted.values())
    if isinstance(wanted, list):
        for pair in zip(found, wanted, strict=True):
            assert_same(*pair)
    else:
        assert repr(found) == repr(wanted)


@QUIET
@given(st.lists(TEXT, min_size=1, max_size=5))
@example(["\x7f\x1f\u2028/<", '"' * 9, "12345678\\", "1234567\\", "123\\", "é1234567"])
def test_text_has_no_escape_that_it_need_not_have(values: list[str]) -> None:
    records = pa.chunked_array(JsonEncoder().encode(pa.array(values))).to_pylist()
    assert records == [json.dumps(each, ensure_ascii=False).encode() for each in values]


def without_nulls(value: Any) -> Any:
    """Return a value without the fields that are null."""
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


# --- numbers ---


@settings(QUIET, max_examples=200)
@given(st.floats())
@example(5e-324)
@example(-0.0)
@example(9007199254740993.0)
@example(1e15)
@example(999999999999999.0)
def test_doubles_are_as_short_as_pythons(number: float) -> None:
    column = pa.array([number])
    if not math.isfinite(number):
        with pytest.raises(EncodeError, match="JSON has neither NaN nor infinity"):
            JsonEncoder().encode(column)
        return
    text = pa.chunked_array(JsonEncoder().encode(column))[0].as_py().decode()
    found = json.loads(text)
    assert isinstance(found, float)
    assert repr(found) == repr(number)
    assert len(text) <= len(repr(number)) + len(".0")


@settings(QUIET, max_examples=200)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@example(7.038530691851209e-26)
def test_floats_come_back_through_a_double(number: float) -> None:
    array = pa.array([number], pa.float32())
    record = pa.chunked_array(JsonEncoder().encode(array))
    assert pa.array([json.loads(record[0].as_py())], pa.float32()).equals(array)


# --- JSON text ---


@settings(QUIET, max_examples=200)
@given(
    st.text(max_size=30)
    | st.lists(st.sampled_from('{}[]:,"\\ 1e-.u0tfn'), max_size=12).map("".join)
)
@example('"\ud800"')
@example('{"a":[1,{}],"b":"\\ud83d\\ude00"} ')
def test_json_text_is_copied_if_python_accepts_it(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    column = pa.array([data], pa.binary()).view(pa.string())
    try:
        json.loads(data.decode(), parse_constant=lambda name: [][0])
        json.dumps(json.loads(data), ensure_ascii=False).encode()  # no half of a surrogate pair
        is_json = not data.startswith(b"\xef\xbb\xbf")
    except (ValueError, IndexError):
        is_json = False
    try:
        records = pa.chunked_array(JsonEncoder({}).encode(column)).to_pylist()
    except EncodeError:
        records = None
    assert records == ([data] if is_json else None)
