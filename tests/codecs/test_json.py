"""JSON records: what each column accepts, what is an error, and where errors are."""

from __future__ import annotations

import datetime
import decimal
import math
import threading
import uuid
from typing import Any

import pyarrow as pa
import pytest

from kafka_native._native import codec_core
from kafka_native.codecs import DecodeError, JsonDecoder, SchemaError

pytestmark = pytest.mark.skipif(
    not codec_core.HAS_JSON, reason="this build has no simdjson (libsimdjson-dev)"
)
D = decimal.Decimal
UTC = datetime.timezone.utc


def read(kind: pa.DataType, text: str | bytes, *, nullable: bool = True) -> Any:
    """Return the value of a column for a JSON value. An extension type shows its storage."""
    array = column_of(kind, text, nullable=nullable)
    return array[0].as_py()


def column_of(kind: pa.DataType, text: str | bytes, *, nullable: bool = True) -> pa.Array:
    data = text.encode() if isinstance(text, str) else text
    decoder = JsonDecoder(pa.schema([pa.field("f", kind, nullable)]))
    array = pa.array(decoder.decode([b'{"f": ' + data + b"}"]))
    array.validate(full=True)
    return array.field("f")


def refused(kind: pa.DataType, text: str | bytes, *, nullable: bool = True) -> str:
    """Return the reason why a column doesn't accept a JSON value."""
    with pytest.raises(DecodeError) as caught:
        column_of(kind, text, nullable=nullable)
    assert caught.value.row == 0
    return caught.value.problem


# --- types ---


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.null(), "null", None),
        (pa.bool_(), "true", True),
        (pa.bool_(), "false", False),
        (pa.bool_(), "null", None),
        (pa.int8(), "-128", -128),
        (pa.int16(), "32767", 32767),
        (pa.int32(), "-2147483648", -(2**31)),
        (pa.int64(), "9223372036854775807", 2**63 - 1),
        (pa.int64(), "-9223372036854775808", -(2**63)),
        (pa.int64(), "-0", 0),
        (pa.int64(), "1.0", 1),
        (pa.int64(), "12.50e1", 125),
        (pa.int64(), "1e18", 10**18),
        (pa.int64(), "0e999999999999", 0),
        (pa.int8(), "1200e-1", 120),
        (pa.uint8(), "255", 255),
        (pa.uint16(), "65535", 65535),
        (pa.uint32(), "4294967295", 2**32 - 1),
        (pa.uint64(), "18446744073709551615", 2**64 - 1),
        (pa.uint64(), "-0", 0),
        (pa.float32(), "0.1", 0.10000000149011612),
        (pa.float64(), "0.1", 0.1),
        (pa.float64(), "1", 1.0),
        (pa.float64(), "-1.5e-7", -1.5e-7),
        (pa.float64(), "0.8444218515250481e3", 844.4218515250481),
        (pa.float64(), "123456789012345678901234567890", 1.2345678901234568e29),
        (pa.float64(), "1.7976931348623157e308", 1.7976931348623157e308),
        (pa.float64(), "4.9e-324", 5e-324),
        (pa.float64(), "1e-400", 0.0),
        (pa.string(), '""', ""),
        (pa.string(), '"a"', "a"),
        (pa.string(), '"sixteen bytes..."', "sixteen bytes..."),
        (pa.string(), '"seventeen bytes.."', "seventeen bytes.."),
        (pa.string(), '"\\u00e9\\ud83d\\ude00\\u0000"', "é😀\0"),
        (pa.string(), r'"\"\\\/\b\f\n\r\t"', '"\\/\b\f\n\r\t'),
        (pa.string(), r'"more than sixteen bytes \n"', "more than sixteen bytes \n"),
        (pa.string(), '"héllo"', "héllo"),
        (pa.large_string(), '"a"', "a"),
        (pa.string_view(), '"a"', "a"),
        (pa.binary(), '""', b""),
        (pa.binary(), '"AAEC"', b"\0\1\2"),
        (pa.binary(), '"_-8="', b"\xff\xef"),
        (pa.binary(), '"/+8"', b"\xff\xef"),
        (pa.binary(), r'"A\u0041EC"', b"\0\1\2"),
        (pa.large_binary(), '"AA=="', b"\0"),
        (pa.binary(3), '"AAEC"', b"\0\1\2"),
        (pa.binary(3), r'"\u0041AEC"', b"\0\1\2"),
        (pa.decimal128(5, 2), "1.5", D("1.50")),
        (pa.decimal128(5, 2), '"-999.99"', D("-999.99")),
        (pa.decimal128(5, 2), "1e2", D("100.00")),
        (pa.decimal128(5, 2), "1.500", D("1.50")),
        (pa.decimal128(38, 0), "9" * 38, D("9" * 38)),
        (pa.decimal128(3, -2), "12300", D("12300")),
        (pa.decimal256(76, 0), "-" + "9" * 76, D("-" + "9" * 76)),
        (pa.decimal256(40, 10), '"0.0000000001"', D("0.0000000001")),
        (pa.date32(), '"2024-02-29"', datetime.date(2024, 2, 29)),
        (pa.date32(), "19782", datetime.date(2024, 2, 29)),
        (pa.date32(), '"0001-01-01"', datetime.date(1, 1, 1)),
        (pa.time32("s"), '"23:59:59"', datetime.time(23, 59, 59)),
        (pa.time32("ms"), '"00:00:00.007Z"', datetime.time(0, 0, 0, 7000)),
        (pa.time64("us"), '"12:30"', datetime.time(12, 30)),
        (pa.time64("us"), "1", datetime.time(0, 0, 0, 1)),
        (pa.timestamp("us"), '"2024-01-02T03:04:05.000006"', datetime.datetime(2024, 1, 2, 3, 4, 5, 6)),
        (pa.timestamp("ms"), '"2024-01-02 03:04:05.100000"', datetime.datetime(2024, 1, 2, 3, 4, 5, 100000)),
        (pa.timestamp("s"), '"1969-12-31T23:59:59"', datetime.datetime(1969, 12, 31, 23, 59, 59)),
        (pa.timestamp("us", "UTC"), '"2024-01-02t03:04:05z"', datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (pa.timestamp("us", "UTC"), '"2024-01-02T03:04:05+05:30"', datetime.datetime(2024, 1, 1, 21, 34, 5, tzinfo=UTC)),
        (pa.timestamp("us", "UTC"), '"2024-01-02T03:04-0100"', datetime.datetime(2024, 1, 2, 4, 4, tzinfo=UTC)),
        (pa.timestamp("us", "UTC"), '"1969-12-31T23:59:59.5Z"', datetime.datetime(1969, 12, 31, 23, 59, 59, 500000, tzinfo=UTC)),
        (pa.timestamp("ms", "UTC"), "1500", datetime.datetime(1970, 1, 1, 0, 0, 1, 500000, tzinfo=UTC)),
        (pa.duration("ms"), "1500", datetime.timedelta(seconds=1.5)),
        (pa.uuid(), '"12345678-9ABC-def0-1234-56789abcdef0"', uuid.UUID("12345678-9abc-def0-1234-56789abcdef0").bytes),
        (pa.list_(pa.int32()), "[]", []),
        (pa.list_(pa.int32()), "[1, null,2]", [1, None, 2]),
        (pa.large_list(pa.int32()), "[1]", [1]),
        (pa.list_(pa.list_(pa.string())), '[[], ["a"], null]', [[], ["a"], None]),
        (pa.struct([("a", pa.int32()), ("b", pa.string())]), '{"b": "x"}', {"a": None, "b": "x"}),
        (pa.struct([]), '{"b": "x"}', {}),
        (pa.map_(pa.string(), pa.int32()), '{"b": 1, "a": null}', [("b", 1), ("a", None)]),
        (pa.map_(pa.string(), pa.int32()), "{}", []),
        (pa.json_(), '{"a": [1 , 2.50]}', '{"a": [1 , 2.50]}'),
        (pa.json_(), '"text"', '"text"'),
        (pa.json_(), "null", None),
    ],
)  # fmt: skip
def test_value_of_a_type(kind: pa.DataType, text: str, value: Any) -> None:
    assert read(kind, text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.0000000596046447753906250000000000001", 1.0000001192092896),
        ("-1.0000000596046447753906249999999999999", -1.0),
        ("1.000000059604644775390625", 1.0),
        (f"{2.0**-150:.110e}", 0.0),
        (f"{2.0**-150:.110e}".replace("0e", "1e"), 2.0**-149),
        ("3.40282356779733661637539395458142568447999e38", 3.4028234663852886e38),
    ],
)
def test_a_float_is_the_nearest_one_to_its_text(text: str, value: float) -> None:
    # The double that is nearest to the text is in the middle between two floats.
    assert read(pa.float32(), text) == value


def test_signs_of_zeros_and_long_numbers_are_exact() -> None:
    assert math.copysign(1, read(pa.float64(), "-0.0")) == -1
    assert math.copysign(1, read(pa.float64(), "-0e5")) == -1
    digits = "2." + "0" * 800 + "1"
    assert read(pa.float64(), digits) == 2.0
    assert read(pa.float64(), "9007199254740993") == 9007199254740992.0
    assert read(pa.int64(), "1" + "0" * 18 + "." + "0" * 500) == 10**18


def test_times_at_the_ends_of_their_range() -> None:
    for text, stored in [
        ("1677-09-21T00:12:43.145224193", -(2**63) + 1),
        ("1677-09-21T00:12:43.145224192", -(2**63)),
        ("2262-04-11T23:47:16.854775807", 2**63 - 1),
    ]:
        array = column_of(pa.timestamp("ns"), f'"{text}"')
        assert array.cast(pa.int64())[0].as_py() == stored
    for text in ("1677-09-21T00:12:43.145224191", "2262-04-11T23:47:16.854775808"):
        assert "beyond the range" in refused(pa.timestamp("ns"), f'"{text}"')
    assert read(pa.timestamp("ns"), "-9223372036854775808") is not None


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        (pa.null(), "1", "null is expected"),
        (pa.bool_(), "1", "true or false is expected"),
        (pa.bool_(), '"true"', "true or false is expected"),
        (pa.bool_(), "truer", "true or false is expected"),
        (pa.int8(), "128", "beyond the range"),
        (pa.int8(), "-129", "beyond the range"),
        (pa.int64(), "9223372036854775808", "beyond the range"),
        (pa.int64(), "-9223372036854775809", "beyond the range"),
        (pa.int64(), "1" + "0" * 400, "beyond the range"),
        (pa.int64(), "1e999999999999999999", "beyond the range"),
        (pa.int64(), "1.5", "has a fraction"),
        (pa.int64(), "1e-1", "has a fraction"),
        (pa.int64(), '"1"', "a number is expected"),
        (pa.int64(), "01", "begins with a zero"),
        (pa.int64(), "-", "a number is malformed"),
        (pa.int64(), "1.", "a number is malformed"),
        (pa.int64(), "1e", "a number is malformed"),
        (pa.int64(), "1x", "a number is malformed"),
        (pa.int64(), '1"x"', "a number is malformed"),
        (pa.int64(), "+1", "a number is expected"),
        (pa.int64(), ".5", "a number is expected"),
        (pa.int64(), "0x10", "a number is malformed"),
        (pa.uint8(), "256", "beyond the range"),
        (pa.uint64(), "18446744073709551616", "beyond the range"),
        (pa.uint64(), "-1", "beyond the range"),
        (pa.float64(), "1e400", "beyond the range"),
        (pa.float64(), "NaN", "a number is expected"),
        (pa.float64(), "nan", "a number is expected"),
        (pa.float64(), "Infinity", "a number is expected"),
        (pa.float64(), "-Infinity", "a number is malformed"),
        (pa.float64(), '"NaN"', "a number is expected"),
        (pa.float32(), "1e39", "beyond the range"),
        (pa.string(), "1", "a string is expected"),
        (pa.string(), '"\\ud800"', "half of a surrogate pair"),
        (pa.string(), '"\\udc00\\ud800"', "half of a surrogate pair"),
        (pa.string(), '"\\ud800\\u0041"', "half of a surrogate pair"),
        (pa.string(), '"\\u12"', "an escape is malformed"),
        (pa.string(), '"\\u00g0"', "an escape is malformed"),
        (pa.string(), '"\\x41"', "unknown escape"),
        (pa.string(), b'"\xff"', "isn't UTF-8"),
        (pa.string(), b'"\xed\xa0\x80"', "isn't UTF-8"),
        (pa.string(), b'"\xc0\x80"', "isn't UTF-8"),
        (pa.string(), b'"a\nb"', "control character"),
        (pa.binary(), '"A"', "base64 is malformed"),
        (pa.binary(), '"A==="', "base64 is malformed"),
        (pa.binary(), '"AAA=="', "base64 is malformed"),
        (pa.binary(), '"AB"', "base64 is malformed"),
        (pa.binary(), '"A A="', "base64 is malformed"),
        (pa.binary(), "1", "base64 is expected"),
        (pa.binary(3), '"AA=="', "wrong number of bytes"),
        (pa.binary(3), "1", "base64 is expected"),
        (pa.decimal128(5, 2), "1000", "too many digits"),
        (pa.decimal128(5, 2), "1.005", "behind the point"),
        (pa.decimal128(5, 2), "1e999999999", "too many digits"),
        (pa.decimal128(5, 2), '""', "a number is malformed"),
        (pa.decimal128(5, 2), '"1x"', "a decimal is malformed"),
        (pa.decimal128(5, 2), '" 1"', "a number is malformed"),
        (pa.decimal128(5, 2), '"NaN"', "a number is malformed"),
        (pa.date32(), '"2023-02-29"', "doesn't exist"),
        (pa.date32(), '"2023-13-01"', "doesn't exist"),
        (pa.date32(), '"2023-1-1"', "a date is malformed"),
        (pa.date32(), '"2023-01-01T"', "a date is malformed"),
        (pa.date32(), "2147483648", "beyond the range"),
        (pa.date32(), "1.5", "has a fraction"),
        (pa.time32("s"), '"24:00:00"', "doesn't exist"),
        (pa.time32("s"), '"12:00:60"', "doesn't exist"),
        (pa.time32("s"), '"12:00:00.5"', "more digits"),
        (pa.time32("s"), '"12"', "a time is malformed"),
        (pa.time32("s"), '"12:00:00+01:00"', "isn't in UTC"),
        (pa.time32("s"), "86400", "beyond the range"),
        (pa.time64("us"), "-1", "beyond the range"),
        (pa.timestamp("us"), '"2024-01-02T03:04:05Z"', "its column has none"),
        (pa.timestamp("us", "UTC"), '"2024-01-02T03:04:05"', "has no time zone"),
        (pa.timestamp("us", "UTC"), '"2024-01-02T03:04:05+1"', "time zone of a timestamp"),
        (pa.timestamp("us", "UTC"), '"2024-01-02T03:04:05+24:00"', "time zone of a timestamp"),
        (pa.timestamp("us", "UTC"), '"2024-01-02T03:04:05Zx"', "time zone of a timestamp"),
        (pa.timestamp("us"), '"2024-01-02"', "a timestamp is malformed"),
        (pa.timestamp("us"), '"2024-01-02T03:04:05.0000001"', "more digits"),
        (pa.timestamp("us"), '"2024-01-02T03:04:05."', "a time is malformed"),
        (pa.timestamp("us"), "true", "a timestamp, or a number"),
        (pa.uuid(), '"12345678-9abc-def0-1234-56789abcdef"', "a UUID is malformed"),
        (pa.uuid(), '"12345678x9abc-def0-1234-56789abcdef0"', "a UUID is malformed"),
        (pa.uuid(), "1", "a UUID is expected"),
        (pa.list_(pa.int32()), "{}", "an array is expected"),
        (pa.list_(pa.int32()), "[1 2]", "a comma or ] is expected"),
        (pa.list_(pa.int32()), "[1,]", "a number is expected"),
        (pa.struct([("a", pa.int32())]), "[]", "an object is expected"),
        (pa.struct([("a", pa.int32())]), '{"a" 1}', "a colon is expected"),
        (pa.struct([("a", pa.int32())]), '{"a": 1,}', "a name in quotes is expected"),
        (pa.struct([("a", pa.int32())]), '{"a": 1 "b": 2}', "a comma or } is expected"),
        (pa.struct([("a", pa.int32())]), "{a: 1}", "a name in quotes is expected"),
        (pa.struct([("a", pa.int32())]), '{"\\x": 1}', "unknown escape"),
        (pa.map_(pa.string(), pa.int32()), "[]", "an object is expected"),
        (pa.map_(pa.string(), pa.int32()), "{1: 1}", "a name in quotes is expected"),
        (pa.map_(pa.string(), pa.int32()), '{"a", 1}', "a colon is expected"),
        (pa.map_(pa.string(), pa.int32()), '{"a": 1; "b": 2}', "a number is malformed"),
        (pa.json_(), "[1, tru]", "a value is expected"),
        (pa.json_(), "[1, 2}", "a comma is expected"),
        (pa.json_(), '{"a"}', "a colon is expected"),
        (pa.json_(), '{"a": 1, 2}', "a name in quotes is expected"),
        (pa.json_(), "[01]", "begins with a zero"),
        (pa.json_(), '["\\ud800"]', "half of a surrogate pair"),
    ],
)  # fmt: skip
def test_refused_value(kind: pa.DataType, text: str | bytes, problem: str) -> None:
    assert problem in refused(kind, text)


@pytest.mark.parametrize(
    "kind",
    [pa.int32(), pa.string(), pa.struct([("a", pa.int32())]), pa.list_(pa.int32()), pa.uuid()],
)
def test_null_in_a_column_that_has_no_nulls(kind: pa.DataType) -> None:
    assert refused(kind, "null", nullable=False) == "the field must not be null"
    assert read(kind, "null") is None


# --- records ---

PAYMENT = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("address", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
        ("tags", pa.list_(pa.string())),
    ]
)


def rows(*records: bytes, schema: Any = PAYMENT, **options: Any) -> list[Any]:
    array = pa.array(JsonDecoder(schema, **options).decode(records))
    array.validate(full=True)
    return array.to_pylist()


def test_fields_come_in_any_order() -> None:
    first = {"id": 1, "name": "a", "address": {"city": "b", "zip": 2}, "tags": ["c"]}
    assert (
        rows(
            b'{"id":1,"name":"a","address":{"city":"b","zip":2},"tags":["c"]}',
            b' {"tags" : ["c"], "address":{ "zip":2,"city":"b" },"name":"a"\n,"id":1}\t',
            b'{"n\\u0061me":"a","id":1,"address":{"zip":2,"city":"b"},"tags":["c"]}',
        )
        == [first] * 3
    )


def test_missing_fields_are_null_and_unknown_ones_are_skipped() -> None:
    empty = {"id": 7, "name": None, "address": None, "tags": None}
    assert rows(
        b'{"id":7}',
        b'{"x":{"id":[1,{"a":null}],"y":"\\n"},"id":7,"Name":"no","z":[[],{}]}',
        b'{"id":7,"address":{}}',
    ) == [empty, empty, {**empty, "address": {"city": None, "zip": None}}]
    with pytest.raises(DecodeError) as caught:
        rows(b'{"name":"a"}')
    assert (caught.value.path, caught.value.problem) == ("id", "the field is missing")


def test_the_last_of_equal_names_wins() -> None:
    assert rows(
        b'{"id":1,"name":"first","tags":["x","y"],"address":{"city":"a","zip":1},"id":2,'
        b'"tags":[],"name":null,"address":{"zip":3},"name":"last"}',
        b'{"id":5}',
    ) == [
        {"id": 2, "name": "last", "address": {"city": None, "zip": 3}, "tags": []},
        {"id": 5, "name": None, "address": None, "tags": None},
    ]
    kind = pa.map_(pa.string(), pa.int32())
    assert dict(read(kind, '{"a": 1, "b": 2, "a": 3}')) == {"a": 3, "b": 2}


def test_names_that_look_alike() -> None:
    names = ["", "a", "aa", "b" * 8, "b" * 9, "b" * 16, "b" * 17, "b" * 40, 'q"', "b\\", "é", "\n"]
    schema = pa.schema([(name, pa.int32()) for name in names])
    keys = ["", "a", "aa", "b" * 8, "b" * 9, "b" * 16, "b" * 17, "b" * 40, 'q\\"', "b\\\\", "é", "\\n"]  # fmt: skip
    for order in (1, -1):
        pairs = [f'"{key}":{number}' for number, key in enumerate(keys)][::order]
        expected = {name: number for number, name in enumerate(names)}
        assert rows(f"{{{','.join(pairs)}}}".encode(), schema=schema) == [expected]
    others = ["c", "ab", "b" * 7, "b" * 10, "b" * 15, "b" * 18, "b" * 41, "e"]
    assert rows(
        f"{{{','.join(f'{chr(34)}{key}{chr(34)}:1' for key in others)}}}".encode(), schema=schema
    ) == [dict.fromkeys(names)]


def test_null_records_and_null_values() -> None:
    assert rows(None, b"null", b" null ", b'{"id":1}')[:3] == [None, None, None]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("record", "position", "problem"),
    [
        (b"", 0, "the record has no value"),
        (b"  ", 2, "the record has no value"),
        (b"{", 1, "the record ends too early"),
        (b'{"id"', 5, "the record ends too early"),
        (b'{"id":', 6, "the record ends too early"),
        (b'{"id":1', 7, "the record ends too early"),
        (b'{"id":1,', 8, "the record ends too early"),
        (b'{"id":1,"x":[{"a":', 18, "the record ends too early"),
        (b'{"id":1,"tags":["a"', 19, "the record ends too early"),
        (b'{"id":1,"name":"a', 17, "a string doesn't end"),
        (b'{"id":1,"name":"a\\"', 19, "a string doesn't end"),
        (b'{"id":1} 2', 9, "more text follows the value"),
        (b'{"id":1}}', 8, "more text follows the value"),
        (b'{"id":1}x', 8, "more text follows the value"),
        (b"[]", 0, "an object is expected"),
        (b"\xef\xbb\xbf{}", 0, "an object is expected"),
        (b'{"id":1}\0', 8, "more text follows the value"),
        (b'\x0c{"id":1}', 0, "an object is expected"),
        (b'{"id":1\x0c}', 6, "a number is malformed"),
        (b'{"id":1,"x":"\xc3"}', 13, "the record isn't UTF-8"),
        (b'{"id":1,"x":"\\\\\x01"}', 15, "a string has a control character"),
    ],
)  # fmt: skip
def test_malformed_record(record: bytes, position: int, problem: str) -> None:
    with pytest.raises(DecodeError) as caught:
        rows(record)
    assert (caught.value.position, caught.value.problem) == (position, problem)


def test_every_cut_of_a_record_is_an_error_and_leaves_the_others() -> None:
    whole = b'{"id":1,"x":{"y":[1,"\\u00e9"]},"tags":["a","b"],"address":{"city":"c","zip":3}}'
    records = [piece for cut in range(len(whole)) for piece in (whole[:cut], whole)]
    column = JsonDecoder(PAYMENT).decode(records, on_error="null")
    array = pa.array(column)
    array.validate(full=True)
    value = {"id": 1, "name": None, "address": {"city": "c", "zip": 3}, "tags": ["a", "b"]}
    assert array.to_pylist() == [None, value] * len(whole)
    assert [error.row for error in column.errors] == list(range(0, len(records), 2))
    assert all(error.position <= len(whole) for error in column.errors)


@pytest.mark.parametrize(
    ("record", "path"),
    [
        (b'{"id":true}', "id"),
        (b'{"id":1,"address":{"city":1}}', "address.city"),
        (b'{"id":1,"address":{"zip":1e10}}', "address.zip"),
        (b'{"id":1,"tags":["a",5]}', "tags[]"),
        (b'{"id":1,"tags":{}}', "tags"),
        (b'{"id":1,"address":{"city":"a" "zip":1}}', "address"),
        (b'{"id":1,"other":nope}', ""),
        (b'{"id":1,"counts":{"a":"b"}}', "counts[]"),
        (b'{"id":1,"items":[{"price":"1"},{"price":"x"}]}', "items[].price"),
        (b'{"id":1,"stock":{"a":{"n":[null,false]}}}', "stock[].n[]"),
    ],
)
def test_errors_name_the_field(record: bytes, path: str) -> None:
    schema = pa.schema(
        [
            *PAYMENT,
            ("counts", pa.map_(pa.string(), pa.int32())),
            ("items", pa.list_(pa.struct([("price", pa.decimal128(9, 2))]))),
            ("stock", pa.map_(pa.string(), pa.struct([("n", pa.list_(pa.int32()))]))),
        ]
    )
    with pytest.raises(DecodeError) as caught:
        rows(b'{"id":0}', record, schema=schema)
    assert (caught.value.row, caught.value.path) == (1, path)


def test_numbers_at_the_end_of_a_record() -> None:
    assert pa.array(
        JsonDecoder({"type": "integer"}).decode([b"12", b" 7 ", b"-1"])
    ).to_pylist() == [
        12,
        7,
        -1,
    ]
    for record in (b"12x", b"1 2", b"-", b"1e"):
        with pytest.raises(DecodeError):
            JsonDecoder({"type": "integer"}).decode([record])


def test_large_records_between_small_ones() -> None:
    text = "x\\n" * 100_000
    records = [b'{"id":1}', f'{{"id":2,"name":"{text}"}}'.encode(), b'{"id":3,"name":"y"}'] * 3
    found = rows(*records)
    assert [each["id"] for each in found] == [1, 2, 3] * 3
    assert found[1]["name"] == "x\n" * 100_000
    assert found[8]["name"] == "y"


# --- limits ---


def test_depth_of_values_that_no_column_wants() -> None:
    for depth, is_good in [(512, True), (513, False)]:
        record = b'{"id":1,"x":' + b"[" * depth + b"1" + b"]" * depth + b"}"
        column = JsonDecoder(PAYMENT).decode([record, b'{"id":2}'], on_error="null")
        assert [error.problem for error in column.errors] == (
            [] if is_good else ["values are nested too deeply"]
        )
        assert pa.array(column)[1].as_py()["id"] == 2


def test_small_items_that_become_large_structs() -> None:
    wide = pa.struct([(f"f{number}", pa.decimal256(70, 0)) for number in range(3000)])
    decoder = JsonDecoder(pa.schema([("items", pa.list_(wide))]))
    assert len(pa.array(decoder.decode([b'{"items":[{},{}]}']))[0].as_py()["items"]) == 2
    with pytest.raises(DecodeError, match="arrays expand to too many bytes") as caught:
        decoder.decode([b'{"items":[' + b"{}," * 2000 + b"{}]}"])
    assert caught.value.path == "items"


# --- schemas ---


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (pa.float16(), "isn't supported"),
        (pa.date64(), "isn't supported"),
        (pa.month_day_nano_interval(), "isn't supported"),
        (pa.list_(pa.int32(), 3), "isn't supported"),
        (pa.decimal64(5, 2), "isn't supported"),
        (pa.dense_union([pa.field("a", pa.int32())]), "isn't supported"),
        (pa.run_end_encoded(pa.int32(), pa.int32()), "isn't supported"),
        (pa.dictionary(pa.int32(), pa.string()), "a dictionary's values"),
        (pa.map_(pa.int32(), pa.int32()), "keys of a map must be strings"),
        (pa.struct([("b", pa.int32()), ("b", pa.int32())]), "twice"),
    ],
)
def test_arrow_types_that_json_cannot_fill(kind: pa.DataType, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem) as caught:
        JsonDecoder(pa.schema([pa.field("a", kind)]))
    assert caught.value.path.startswith("a")


def test_type_of_the_result_is_the_schema() -> None:
    fields = [
        pa.field("a", pa.int32(), nullable=False),
        pa.field("b", pa.map_(pa.string(), pa.list_(pa.timestamp("ms", "Europe/Berlin")))),
        pa.field("c", pa.decimal128(20, 3)),
    ]
    decoder = JsonDecoder(pa.schema(fields))
    assert pa.DataType._import_from_c_capsule(decoder.__arrow_c_schema__()) == pa.struct(fields)


def test_fields_choose_columns() -> None:
    schema = pa.schema(
        [
            *PAYMENT,
            ("items", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.int32())]))),
            ("stock", pa.map_(pa.string(), pa.struct([("a", pa.int32()), ("b", pa.int32())]))),
        ]
    )
    record = b'{"id":1,"address":{"city":"c","zip":2},"items":[{"a":1,"b":2}],"stock":{"k":{"a":3,"b":4}}}'
    fields = ["stock.b", "address.zip", "items.a"]
    assert rows(record, schema=schema, fields=fields) == [
        {"address": {"zip": 2}, "items": [{"a": 1}], "stock": [("k", {"b": 4})]}
    ]
    assert rows(record, schema=schema, fields=[]) == [{}]
    for wrong, path in [("no", "no"), ("address.no", "address.no"), ("id.x", "id")]:
        with pytest.raises(SchemaError) as caught:
            JsonDecoder(schema, fields=[wrong])
        assert caught.value.path == path
    with pytest.raises(TypeError, match="fields"):
        JsonDecoder(schema, fields="id")
    with pytest.raises(DecodeError, match="comma"):
        rows(b'{"id":1,"name":"a" "tags":[]}', schema=schema, fields=["id"])


def test_a_schema_that_is_too_deep() -> None:
    kind: pa.DataType = pa.int32()
    for _ in range(70):
        kind = pa.list_(kind)
    with pytest.raises(SchemaError, match="nested too deeply"):
        JsonDecoder(pa.schema([("a", kind)]))


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (("TEXT", 0, 0), "node 1"),
        (("NO", 0, 0), "node 1"),
        (("DECIMAL", 0, 0), "node 1"),
        (("TIMESTAMP", 5, 0), "node 1"),
        (("TIMESTAMP", 3, 2), "node 1"),
        (("TIME", 3, 0), "node 1"),
    ],
)
def test_programs_that_do_not_fit_their_layout(rule: tuple[str, int, int], problem: str) -> None:
    codes = codec_core.JSON_CODES
    kinds = codec_core.NODE_KINDS
    layout = codec_core.Layout(
        [(kinds["struct"], 0, 1, 0, "+s", "", ()), (kinds["fixed"], 8, 0, 0, "l", "a", ())]
    )
    code = codes.get(rule[0], 99)
    with pytest.raises(ValueError, match=problem):
        codec_core.JsonProgram(layout, [(codes["STRUCT"], 0, 0), (code, *rule[1:])])
    with pytest.raises(ValueError, match="2 nodes"):
        codec_core.JsonProgram(layout, [(codes["STRUCT"], 0, 0)])


def test_threads_share_a_decoder() -> None:
    decoder = JsonDecoder(PAYMENT)
    records = [b'{"name":"a","id":%d}' % number for number in range(2000)]
    results: list[Any] = [None] * 4

    def run(at: int) -> None:
        results[at] = pa.array(decoder.decode(records if at % 2 else records[::-1])).to_pylist()

    threads = [threading.Thread(target=run, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each["id"] for each in results[1]] == list(range(2000))
    assert results[0] == results[2] == results[1][::-1]
    assert results[3] == results[1]
