"""Arrow columns as Avro records: each pair of types, what is refused, and each error's field."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

import pyarrow as pa
import pytest

from kafka_native.codecs import AvroEncoder, EncodeError, SchemaError
from tests.codecs import avro_schemas as avro
from tests.harness.libraries import polars_or_skip

UTC = datetime.timezone.utc
UUID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
TIME = datetime.datetime(2026, 11, 28, 1, 2, 3, 456000)


def record(*fields: tuple[Any, ...], name: str = "R") -> dict[str, Any]:
    made = [
        {"name": each[0], "type": each[1], **(each[2] if len(each) > 2 else {})} for each in fields
    ]
    return {"type": "record", "name": name, "fields": made}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def fixed(size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size, **more}


def encoded(schema: Any, column: Any, **options: Any) -> list[bytes | None]:
    made = pa.chunked_array(AvroEncoder(schema, **options).encode(column))
    records: list[bytes | None] = made.to_pylist()
    return records


def bare_values(schema: Any, column: Any) -> list[Any]:
    """Return what fastavro reads, with logical types as plain numbers and bytes."""
    bare = avro.bare(schema)
    return [None if each is None else avro.decode(each, bare) for each in encoded(schema, column)]


def decimal_bytes(number: int, size: int = 0) -> bytes:
    return number.to_bytes(
        size or (number + (number < 0)).bit_length() // 8 + 1, "big", signed=True
    )


def decimals(kind: pa.DataType, *texts: str) -> pa.Array:
    return pa.array([decimal.Decimal(each) for each in texts], kind)


DATE = datetime.date(2026, 11, 28)
DAYS = (DATE - datetime.date(1970, 1, 1)).days
SECONDS = int(TIME.replace(tzinfo=UTC, microsecond=0).timestamp())
MICROS = SECONDS * 1_000_000 + 456_000
DECIMAL = {"logicalType": "decimal", "precision": 9, "scale": 2}
ENUM = {"type": "enum", "name": "E", "symbols": ["B", "A", "AA"]}
DURATION = fixed(12, logicalType="duration")


# --- types ---


@pytest.mark.parametrize(
    ("schema", "column", "expected"),
    [
        ("boolean", pa.array([True, False, True])[1:], [False, True]),
        *(
            ("int", pa.array([1, 100], kind), [1, 100])
            for kind in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32())
        ),
        ("int", pa.array([-(1 << 31), (1 << 31) - 1], pa.int64()), [-(1 << 31), (1 << 31) - 1]),
        ("long", pa.array([-(1 << 63), (1 << 63) - 1]), [-(1 << 63), (1 << 63) - 1]),
        ("long", pa.array([(1 << 63) - 1], pa.uint64()), [(1 << 63) - 1]),
        ("float", pa.array([1.5, -0.25], pa.float32()), [1.5, -0.25]),
        ("float", pa.array([1.5, 6e-8, 65504.0], pa.float16()), [1.5, 2.0**-24, 65504.0]),
        ("float", pa.array([1 << 24, -3], pa.int32()), [float(1 << 24), -3.0]),
        ("double", pa.array([1.1, float("inf")]), [1.1, float("inf")]),
        ("double", pa.array([1.5], pa.float32()), [1.5]),
        ("double", pa.array([1 << 63, 5], pa.uint64()), [float(1 << 63), 5.0]),
        ("double", pa.array([-(1 << 63)], pa.int64()), [-float(1 << 63)]),
        *(
            ("bytes", pa.array([b"", b"\xff" * 40], kind), [b"", b"\xff" * 40])
            for kind in (pa.binary(), pa.large_binary(), pa.binary_view())
        ),
        ("bytes", pa.array(["\u00e9"]), [b"\xc3\xa9"]),
        ("bytes", pa.array([b"ab"], pa.binary(2)), [b"ab"]),
        *(
            ("string", pa.array(["", "\u00e9" * 20], kind), ["", "\u00e9" * 20])
            for kind in (pa.string(), pa.large_string(), pa.string_view())
        ),
        ("string", pa.array([b"ab"]), ["ab"]),
        ("string", pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (fixed(2), pa.array([b"ab"], pa.binary(2)), [b"ab"]),
        (fixed(2), pa.array([b"ab"]), [b"ab"]),
        (ENUM, pa.array(["AA", "A", "B"]), ["AA", "A", "B"]),
        (ENUM, pa.array(["AA", "A", "AA"]).dictionary_encode(), ["AA", "A", "AA"]),
        (logical("string", "uuid"), pa.array([UUID.bytes], pa.binary(16)), [str(UUID)]),
        (logical("string", "uuid"), pa.array([str(UUID)]), [str(UUID)]),
        (fixed(16, logicalType="uuid"), pa.array([UUID.bytes], pa.binary(16)), [UUID.bytes]),
    ],
)
def test_values(schema: Any, column: Any, expected: list[Any]) -> None:
    assert bare_values(schema, column) == expected


@pytest.mark.parametrize(
    ("schema", "column", "expected"),
    [
        (logical("int", "date"), pa.array([DATE]), [DAYS]),
        (logical("int", "date"), pa.array([DATE], pa.date64()), [DAYS]),
        (logical("int", "time-millis"), pa.array([5], pa.time32("s")), [5000]),
        (logical("int", "time-millis"), pa.array([5], pa.time32("ms")), [5]),
        (logical("int", "time-millis"), pa.array([5_000_000], pa.time64("ns")), [5]),
        (logical("long", "time-micros"), pa.array([5], pa.time32("ms")), [5000]),
        (logical("long", "time-micros"), pa.array([7000], pa.time64("ns")), [7]),
        *(
            (
                logical("long", f"timestamp-{unit}"),
                pa.array([TIME.replace(tzinfo=UTC)], pa.timestamp(stored, "UTC")),
                [MICROS * 1000 // ticks],
            )
            for unit, ticks in (("millis", 1_000_000), ("micros", 1000), ("nanos", 1))
            for stored in ("ms", "us", "ns")
        ),
        (
            logical("long", "local-timestamp-millis"),
            pa.array([SECONDS], pa.timestamp("s")),
            [SECONDS * 1000],
        ),
        (
            DURATION,
            pa.array([(1, 2, 3_000_000)], pa.month_day_nano_interval()),
            [bytes([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])],
        ),
    ],
)
def test_times(schema: Any, column: Any, expected: list[Any]) -> None:
    assert bare_values(schema, column) == expected


@pytest.mark.parametrize(
    ("schema", "column", "expected"),
    [
        (
            {"type": "bytes", **DECIMAL},
            decimals(pa.decimal128(9, 2), "1.25", "-1.28", "-0.01", "0"),
            [125, -128, -1, 0],
        ),
        ({"type": "bytes", **DECIMAL}, decimals(pa.decimal256(60, 0), "-12", "7"), [-1200, 700]),
        (
            {"type": "bytes", **DECIMAL},
            decimals(pa.decimal128(20, 6), "1.250000", "-3"),
            [125, -300],
        ),
        ({"type": "bytes", **DECIMAL}, decimals(pa.decimal128(5, -3), "5000"), [500000]),
        ({"type": "bytes", **DECIMAL}, pa.array([3, -4], pa.int16()), [300, -400]),
        (fixed(5, **DECIMAL), decimals(pa.decimal128(9, 2), "-1.28", "9999999.99"), None),
        (
            logical("bytes", "decimal", precision=76, scale=0),
            decimals(pa.decimal256(76, 0), "9" * 76, "-" + "9" * 76),
            [10**76 - 1, 1 - 10**76],
        ),
    ],
)
def test_decimals_have_the_scale_of_the_schema(
    schema: Any, column: Any, expected: list[int] | None
) -> None:
    values = bare_values(schema, column)
    if expected is None:
        assert values == [decimal_bytes(-128, 5), decimal_bytes(10**9 - 1, 5)]
    else:
        assert values == [decimal_bytes(each) for each in expected]


@pytest.mark.parametrize(("precision", "scale"), [(77, 2), (78, 2), (1000, 60)])
def test_a_schema_may_have_longer_decimals_than_arrow(precision: int, scale: int) -> None:
    kind = logical("bytes", "decimal", precision=precision, scale=scale)
    column = decimals(pa.decimal128(9, 2), "1.25", "0")
    made = pa.chunked_array(AvroEncoder(kind).encode(column)).to_pylist()
    assert avro.decode(made[1], "bytes") == b"\0"
    number = int.from_bytes(avro.decode(made[0], "bytes"), "big")
    assert number == 125 * 10 ** (scale - 2)


def test_a_decimal_that_becomes_too_long_does_not_fit() -> None:
    kind = logical("bytes", "decimal", precision=1000, scale=2)
    [good, bad] = decimals(pa.decimal256(76, 0), "9" * 74, "9" * 75)
    records, errors = AvroEncoder(kind).encode_each(pa.array([good, bad]))
    assert [each is None for each in pa.chunked_array(records).to_pylist()] == [False, True]
    assert [each.problem for each in errors] == ["a decimal has too many digits"]
    far = logical("bytes", "decimal", precision=1000, scale=160)
    with pytest.raises(SchemaError, match="the decimal's scale of 160 is too large"):
        AvroEncoder(far).encode(decimals(pa.decimal128(9, 2), "0"))


def test_nested_values() -> None:
    schema = record(
        ("lists", {"type": "array", "items": {"type": "array", "items": "int"}}),
        ("map", {"type": "map", "values": ["null", "long"]}),
        ("inner", record(("a", "string"), name="I")),
    )
    rows = [
        {"lists": [[1], [], [2, 3]], "map": {"k": 1, "n": None}, "inner": {"a": "x"}},
        {"lists": [], "map": {}, "inner": {"a": ""}},
    ]
    inner = pa.array([row["inner"] for row in rows])
    keyed = pa.array([[{"key": k, "value": v} for k, v in row["map"].items()] for row in rows])
    mapped = pa.array([list(row["map"].items()) for row in rows], pa.map_(pa.string(), pa.int64()))
    for kind in (pa.list_(pa.list_(pa.int8())), pa.large_list(pa.large_list(pa.int64()))):
        for maps in (keyed, mapped):
            lists = pa.array([row["lists"] for row in rows], kind)
            table = pa.table({"inner": inner, "lists": lists, "map": maps})
            assert bare_values(schema, table) == rows
    pairs = pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int32(), 2))
    assert bare_values({"type": "array", "items": "int"}, pairs[1:]) == [[3, 4], [5, 6]]


def test_unions() -> None:
    schema = ["null", "int", {"type": "array", "items": "string"}, "string"]
    dense = pa.UnionArray.from_dense(
        pa.array([1, 0, 1], pa.int8()),
        pa.array([0, 0, 1], pa.int32()),
        [pa.array([5], pa.int32()), pa.array(["a", None])],
    )
    sparse = pa.UnionArray.from_sparse(
        pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, None]), pa.array(["x", "y", "z"])]
    )
    row = record(("u", schema))
    assert bare_values(row, pa.table({"u": dense})) == [{"u": "a"}, {"u": 5}, {"u": None}]
    assert bare_values(row, pa.table({"u": sparse[1:]})) == [{"u": "y"}, {"u": None}]
    numbered = pa.UnionArray.from_sparse(
        pa.array([5, 2, 5], pa.int8()),
        [pa.array(["x", "y", "z"]), pa.array([1, 2, None])],
        type_codes=[5, 2],
    )
    expected = [{"u": "x"}, {"u": 2}, {"u": "z"}]
    assert bare_values(row, pa.table({"u": numbered})) == expected
    lists = pa.array([["a"], None])
    assert bare_values(row, pa.table({"u": lists})) == [{"u": ["a"]}, {"u": None}]
    both = record(("u", ["double", "long"]))
    assert encoded(both, pa.table({"u": pa.array([1])})) == [b"\x02\x02"], "the column's own type"
    # A union for a type that is none: every child becomes that type.
    assert bare_values(
        "double",
        pa.UnionArray.from_sparse(
            pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array([1.5, 2.5])]
        ),
    ) == [1.0, 2.5]


def test_unions_as_structs() -> None:
    point = record(("x", "int"), name="ns.Point")
    schema = ["string", "null", "long", point]
    rows = [
        {"string": "a", "long": None, "ns.Point": None},
        {"string": None, "long": 5, "ns.Point": None},
        None,
        {"string": None, "long": None, "ns.Point": {"x": 1}},
        {"string": None, "long": None, "ns.Point": None},  # as libraries without null structs do
    ]
    kinds = pa.struct(
        {"string": pa.string(), "long": pa.int64(), "ns.Point": pa.struct({"x": pa.int32()})}
    )
    expected = [{"u": "a"}, {"u": 5}, {"u": None}, {"u": {"x": 1}}, {"u": None}]
    table = pa.table({"u": pa.array(rows, kinds)})
    assert bare_values(record(("u", schema)), table) == expected
    # What is below a null struct doesn't count.
    hidden = pa.StructArray.from_arrays(
        [pa.array(["a", "b"]), pa.array([None, 1], pa.int64())],
        names=["string", "long"],
        mask=pa.array([False, True]),
    )
    row = record(("u", ["null", "string", "long"]))
    assert bare_values(row, pa.table({"u": hidden})) == [{"u": "a"}, {"u": None}]
    # A branch may be missing, or be null as a whole.
    part = pa.array([{"string": "a"}, None])
    assert bare_values(row, pa.table({"u": part})) == [{"u": "a"}, {"u": None}]
    empty = pa.array([{"string": None, "long": 7}])
    assert empty.type.field("string").type == pa.null()
    assert bare_values(record(("u", ["string", "long"])), pa.table({"u": empty})) == [{"u": 7}]


def test_a_struct_for_a_record_of_a_union() -> None:
    """Fields with the names of some branches don't make a record a union."""
    named = record(("string", "string"), name="Named")
    schema = record(("u", ["null", "string", named]))
    table = pa.table({"u": pa.array([{"string": "a"}, None])})
    assert bare_values(schema, table) == [{"u": {"string": "a"}}, {"u": None}]
    with pytest.raises(SchemaError, match="no branch of the union takes a column of struct"):
        encoded(record(("u", ["int", "string"])), pa.table({"u": pa.array([{"x": 1}])}))
    nothing = pa.StructArray.from_arrays([pa.nulls(1)], names=["int"])
    with pytest.raises(SchemaError, match="no field of the union's struct can have a value"):
        encoded(record(("u", ["int", "string"])), pa.table({"u": nothing}))


def test_a_branch_with_parts_that_do_not_fit_leaves_the_next_one() -> None:
    views = pa.array([[1]], pa.list_view(pa.int64()))
    choice = pa.StructArray.from_arrays([views, pa.array(["x"])], names=["int", "string"])
    column = pa.StructArray.from_arrays([choice, pa.array([5])], names=["f", "g"])
    union = [record(("f", ["int", "string"]), name="A"), record(("g", "long"), name="B")]
    assert encoded(union, column, ignore_extra=True) == [b"\x02\x0a"]


def test_null_rows_are_null_and_each_record_has_the_prefix() -> None:
    column = pa.array([{"a": 1}, None, {"a": 2}])
    made = AvroEncoder(record(("a", "long")), prefix=b"\0\0\0\0\7").encode(column)
    assert len(made) == 3
    assert made.nbytes > 10
    records = [b"\0\0\0\0\7\2", None, b"\0\0\0\0\7\4"]
    assert pa.chunked_array(made).to_pylist() == records
    assert encoded("string", pa.nulls(2)) == [None, None]


def test_columns_of_nulls_from_polars() -> None:
    # its arrays of nulls have an empty buffer
    frame = polars_or_skip().DataFrame({"n": [None], "list": [[None, None]]})
    schema = record(("n", ["int", "null"]), ("list", {"type": "array", "items": "null"}))
    assert encoded(schema, frame) == [b"\x02\x04\x00"]


def test_missing_columns_have_defaults_or_nulls() -> None:
    schema = record(
        ("a", "long"),
        ("b", {"type": "array", "items": "int"}, {"default": [1, 2]}),
        ("c", ["string", "null"]),
        ("d", ["string", "null"], {"default": "x"}),
        ("e", "null"),
    )
    expected = [{"a": 1, "b": [1, 2], "c": None, "d": "x", "e": None}]
    assert bare_values(schema, pa.table({"a": [1]})) == expected


def test_extra_columns_are_left_out_if_wanted() -> None:
    schema = record(("a", "long"), ("in", record(("b", "string"), name="I")))
    views = pa.array([[1]], pa.list_view(pa.int32()))
    inner = pa.StructArray.from_arrays([views, pa.array(["x"])], ["odd", "b"])
    table = pa.table({"odd": views, "in": inner, "a": [1]})
    made = encoded(schema, table, ignore_extra=True)
    assert made == [b"\2\2x"]
    with pytest.raises(SchemaError, match=r"odd: the schema has no such field"):
        encoded(schema, table)


def test_no_rows() -> None:
    assert encoded(record(("a", "long")), pa.table({"a": pa.array([], pa.int64())})) == []
    empty = pa.chunked_array([], pa.struct([("a", pa.int64())]))
    assert encoded(record(("a", "long")), empty) == []


def test_a_long_record_makes_the_column_grow() -> None:
    rows = [{"a": ["x" * size for size in range(n % 300)]} for n in range(0, 900, 7)]
    schema = record(("a", {"type": "array", "items": "string"}))
    assert bare_values(schema, pa.array(rows, pa.struct([("a", pa.list_(pa.string()))]))) == rows


# --- refused ---


@pytest.mark.parametrize(
    ("schema", "kind", "text"),
    [
        ("int", pa.string(), "a column of string can't be encoded as int"),
        ("string", pa.int32(), "a column of int32 can't be encoded as string"),
        ("long", pa.float64(), "a column of float64 can't be encoded as long"),
        ("float", pa.float64(), "a float can't hold a column of float64"),
        ("boolean", pa.int8(), "can't be encoded as boolean"),
        (fixed(3), pa.binary(2), "a column of fixed_size_binary .w:2. can't be encoded as fixed F"),
        (DURATION, pa.binary(), "can't be encoded as duration F"),
        (DURATION, pa.duration("ms"), "a column of duration .tDm. can't be encoded"),
        (logical("string", "uuid"), pa.binary(15), "can't be encoded as uuid"),
        (logical("int", "date"), pa.int32(), "can't be encoded as date"),
        (logical("int", "time-millis"), pa.timestamp("ms"), "can't be encoded as time-millis"),
        (logical("long", "timestamp-millis"), pa.int64(), "can't be encoded as timestamp-millis"),
        (logical("long", "timestamp-millis"), pa.timestamp("ms"), "needs a time zone"),
        (
            logical("long", "local-timestamp-millis"),
            pa.timestamp("ms", "UTC"),
            "can't have a time zone",
        ),
        ({"type": "bytes", **DECIMAL}, pa.float64(), "can't be encoded as decimal"),
        ({"type": "array", "items": "int"}, pa.list_(pa.string()), r"f\.?\[\]: a column of string"),
        ({"type": "array", "items": "int"}, pa.list_view(pa.int32()), "list_view can't be encoded"),
        ("int", pa.run_end_encoded(pa.int32(), pa.int32()), "run_end_encoded can't be encoded"),
        ({"type": "map", "values": "int"}, pa.list_(pa.int32()), "can't be encoded as map"),
        (["null", "int", "string"], pa.bool_(), "no branch of the union takes a column of bool"),
        (["null", "int"], pa.string(), "a column of string can't be encoded as int"),
        (record(("x", "int"), name="I"), pa.struct([("y", pa.int32())]), "f.y: the schema has no"),
        (record(("x", "int"), name="I"), pa.struct([]), "f.x: there is no such column"),
        ("null", pa.int32(), "can't be encoded as null"),
    ],
)
def test_types_that_do_not_fit(schema: Any, kind: Any, text: str) -> None:
    empty = (
        pa.table({"f": pa.array([], kind)})
        if not pa.types.is_run_end_encoded(kind)
        else (
            pa.table(
                {
                    "f": pa.RunEndEncodedArray.from_arrays(
                        pa.array([], pa.int32()), pa.array([], pa.int32())
                    )
                }
            )
        )
    )
    with pytest.raises(SchemaError, match=text) as caught:
        encoded(record(("f", schema)), empty)
    assert caught.value.path.startswith("f")


@pytest.mark.parametrize(
    ("schema", "column", "text"),
    [
        ("int", pa.array([1, None]), "the schema doesn't allow null here"),
        ("int", pa.array([1, 1 << 31]), "the number is out of the range of an int"),
        ("int", pa.array([1, 1 << 31], pa.uint32()), "the number is out of the range of an int"),
        ("long", pa.array([1, 1 << 63], pa.uint64()), "the number is out of the range of a long"),
        ("float", pa.array([1, (1 << 24) + 1]), "too many digits for a float"),
        ("double", pa.array([1, (1 << 53) + 1]), "too many digits for a double"),
        ("string", pa.array([b"a", b"\xff"]), "the text isn't UTF-8"),
        (fixed(2), pa.array([b"ab", b"abc"]), "the value has another size than the fixed"),
        (ENUM, pa.array(["A", "AB"]), "the enum has no such symbol"),
        (logical("string", "uuid"), pa.array([str(UUID), "x" * 36]), "the text isn't a UUID"),
        (logical("string", "uuid"), pa.array([str(UUID), "0"]), "the text isn't a UUID"),
        (
            logical("int", "date"),
            pa.array([0, 1], pa.int64()).view(pa.date64()),
            "the schema's unit is too coarse",
        ),
        (
            logical("long", "timestamp-millis"),
            pa.array([1000, 1], pa.timestamp("us", "UTC")),
            "the schema's unit is too coarse",
        ),
        (
            logical("long", "timestamp-nanos"),
            pa.array([0, 1 << 60], pa.timestamp("s", "UTC")),
            "the time is out of range",
        ),
        (
            {"type": "bytes", **DECIMAL},
            decimals(pa.decimal128(9, 3), "1", "0.001"),
            "too few digits",
        ),
        (
            {"type": "bytes", **DECIMAL},
            decimals(pa.decimal128(30, 2), "1", "-10000000.00"),
            "a decimal has too many digits",
        ),
        (
            {"type": "bytes", **DECIMAL},
            decimals(pa.decimal256(76, 0), "1", "9" * 76),
            "a decimal has too many digits",
        ),
        (
            DURATION,
            pa.array([(0, 0, 0), (0, 0, 1)], pa.month_day_nano_interval()),
            "whole milliseconds",
        ),
        (DURATION, pa.array([(0, 0, 0), (-1, 0, 0)], pa.month_day_nano_interval()), "negative"),
        (
            record(("x", "int"), name="I"),
            pa.array([{"x": 1}, None]),
            "the schema doesn't allow null here",
        ),
        (
            {"type": "array", "items": "null"},
            pa.array([[None], [None] * 65537], pa.list_(pa.null())),
            "arrays have too many empty items",
        ),
        (
            ["int", "string"],
            pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.nulls(2)]),
            "the schema has no type for this item of the union",
        ),
        (
            ["int", "string"],
            pa.array([{"int": 1, "string": None}, {"int": 1, "string": "a"}]),
            "more than one field of the union's struct is set",
        ),
        (
            ["int", "string"],
            pa.array([{"int": 1, "string": None}, {"int": None, "string": None}]),
            "no field of the union's struct is set",
        ),
        (
            ["int", "string"],
            pa.array([{"int": 1, "string": None}, None]),
            "the schema doesn't allow null here",
        ),
        (
            "string",
            pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None])),
            "the schema doesn't allow null here",
        ),
    ],
)
def test_values_that_do_not_fit(schema: Any, column: Any, text: str) -> None:
    table = pa.table({"f": pa.chunked_array([column[:1], column])})
    with pytest.raises(EncodeError, match=text) as caught:
        encoded(record(("f", schema)), table)
    assert caught.value.row == 2
    assert caught.value.path == "f"
    assert f"row 2, field f: {caught.value.problem}" == str(caught.value)


@pytest.mark.parametrize(
    ("schema", "kind", "day"),
    [
        (logical("int", "time-millis"), pa.time32("s"), 86_400),
        (logical("int", "time-millis"), pa.time32("ms"), 86_400_000),
        (logical("int", "time-millis"), pa.time64("ns"), 86_400_000_000_000),
        (logical("long", "time-micros"), pa.time32("s"), 86_400),
        (logical("long", "time-micros"), pa.time64("us"), 86_400_000_000),
    ],
)
def test_a_time_outside_of_the_day_does_not_fit(schema: Any, kind: pa.DataType, day: int) -> None:
    stored = pa.int32() if kind.bit_width == 32 else pa.int64()
    column = pa.array([0, day, -1, None], stored).view(kind)
    records, errors = AvroEncoder(["null", schema]).encode_each(column)
    assert pa.chunked_array(records).to_pylist() == [b"\x02\x00", None, None, None]
    assert [(each.row, each.problem) for each in errors] == [
        (1, "the time isn't within a day"),
        (2, "the time isn't within a day"),
    ]


def test_each_row_that_does_not_fit_is_a_null_and_an_error() -> None:
    """The first chunk has a tombstone, the last rows of both chunks are bad."""
    encoder = AvroEncoder(record(("f", "int")), prefix=b"p")
    rows = [{"f": 1}, None, {"f": None}], [{"f": 1 << 40}, {"f": 5}, {"f": None}]
    kind = pa.struct([("f", pa.int64())])
    column = pa.chunked_array([pa.array(each, kind) for each in rows])
    found, errors = encoder.encode_each(column)
    table = pa.chunked_array(found)
    table.validate(full=True)
    assert table.to_pylist() == [b"p\2", None, None, None, b"p\n", None]
    assert [each.row for each in errors] == [2, 3, 5]
    assert {each.path for each in errors} == {"f"}
    assert errors[0].problem == "the schema doesn't allow null here"
    assert errors[1].problem != errors[0].problem
    found, errors = encoder.encode_each(column.slice(3, 1))
    assert (pa.chunked_array(found).to_pylist(), [each.row for each in errors]) == ([None], [0])
    found, errors = encoder.encode_each(column.slice(0, 0))
    assert (len(found), errors) == (0, [])


def test_errors_name_items() -> None:
    schema = record(("f", {"type": "array", "items": record(("x", "int"), name="I")}))
    with pytest.raises(EncodeError) as caught:
        encoded(schema, pa.array([{"f": [{"x": 1}, {"x": None}]}]))
    assert caught.value.path == "f[].x"


def test_bad_arguments() -> None:
    with pytest.raises(SchemaError, match="contains itself"):
        AvroEncoder(record(("next", ["null", "R"])))
    with pytest.raises(TypeError, match="__arrow_c_stream__"):
        AvroEncoder("int").encode([1, 2])
    table = pa.table([[1], [2]], names=["a", "a"])
    with pytest.raises(SchemaError, match="two columns of the struct have one name"):
        AvroEncoder(record(("a", "long"))).encode(table)


def test_an_encoder_serves_several_types_of_columns() -> None:
    encoder = AvroEncoder("long")
    for kind in (pa.int8(), pa.int64(), pa.int8()):
        column = pa.array([3], kind)
        assert pa.chunked_array(encoder.encode(column)).to_pylist() == [b"\6"]
