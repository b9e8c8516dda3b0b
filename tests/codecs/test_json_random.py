"""Random JSON: values against Python's json, text against its parser, columns against pyarrow's."""

from __future__ import annotations

import decimal
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kafka_native._native import codec_core
from kafka_native.codecs import DecodeError, JsonDecoder
from tests.harness.libraries import not_under_tsan

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


# --- values: a random type, and values that it holds ---


def integers(bits: int, signed: bool) -> st.SearchStrategy[int]:
    low = -(2 ** (bits - 1)) if signed else 0
    return st.integers(low, low + 2**bits - 1)


LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.null(), st.none()),
    (pa.bool_(), st.booleans()),
    *((pa.type_for_alias(f"int{bits}"), integers(bits, True)) for bits in (8, 16, 32, 64)),
    *((pa.type_for_alias(f"uint{bits}"), integers(bits, False)) for bits in (8, 16, 32, 64)),
    (pa.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    (pa.string(), TEXT),
]


def types_of(depth: int) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    leaves = st.sampled_from(LEAVES)
    if not depth:
        return leaves
    inner = types_of(depth - 1)
    return st.one_of(leaves, inner.map(list_type), inner.map(map_type), struct_types(inner))


def list_type(item: tuple[pa.DataType, Any]) -> tuple[pa.DataType, Any]:
    return pa.list_(item[0]), st.lists(st.none() | item[1], max_size=5)


def map_type(value: tuple[pa.DataType, Any]) -> tuple[pa.DataType, Any]:
    return pa.map_(pa.string(), value[0]), st.dictionaries(TEXT, st.none() | value[1], max_size=5)


@st.composite
def struct_types(draw: Any, inner: Any) -> tuple[pa.DataType, Any]:
    names = draw(NAMES)
    kinds = [draw(inner) for _ in names]
    kind = pa.struct([(name, each[0]) for name, each in zip(names, kinds, strict=True)])
    values = {name: st.none() | each[1] for name, each in zip(names, kinds, strict=True)}
    return kind, st.fixed_dictionaries({}, optional=values)


def expected(kind: pa.DataType, value: Any) -> Any:
    """Return what Arrow shows for a value."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: expected(each.type, value.get(each.name)) for each in kind}
    if pa.types.is_map(kind):
        return [(key, expected(kind.item_type, each)) for key, each in value.items()]
    if pa.types.is_list(kind):
        return [expected(kind.value_type, each) for each in value]
    return value


@st.composite
def typed_records(draw: Any) -> tuple[pa.DataType, list[Any], list[bytes]]:
    kind, values = draw(struct_types(types_of(3)))
    records = draw(st.lists(values, min_size=1, max_size=8))
    options = draw(
        st.sampled_from([{}, {"ensure_ascii": False}, {"separators": (",", ":")}, {"indent": 1}])
    )
    texts = []
    for record in records:
        items = draw(st.permutations(list(record.items())))
        texts.append(json.dumps(dict(items), **options).encode())
    return kind, records, texts


@QUIET
@given(typed_records())
def test_values_come_back_as_python_has_written_them(
    case: tuple[pa.DataType, list[Any], list[bytes]],
) -> None:
    kind, records, texts = case
    array = pa.array(JsonDecoder(pa.schema(list(kind))).decode(texts))
    array.validate(full=True)
    assert array.type == kind
    assert repr(array.to_pylist()) == repr([expected(kind, record) for record in records])


@QUIET
@given(typed_records())
def test_inferred_columns_hold_all_records(
    case: tuple[pa.DataType, list[Any], list[bytes]],
) -> None:
    _, records, texts = case
    array = pa.array(JsonDecoder.infer(texts).decode(texts))
    array.validate(full=True)
    for found, record in zip(array.to_pylist(), records, strict=True):
        assert resembles(found, record), (found, record)


def resembles(found: Any, value: Any) -> bool:
    """Return whether a column of an inferred type holds a value, as it is or as JSON text."""
    if value is None or found is None:
        return value is found
    if isinstance(found, str) and found != value:
        return bool(json.loads(found) == value)
    if isinstance(found, dict):
        return set(value) <= set(found) and all(
            resembles(each, value.get(name)) for name, each in found.items()
        )
    if isinstance(found, list):
        return len(found) == len(value) and all(map(resembles, found, value))
    return bool(found == value)


# --- text: exactly what Python's parser accepts ---

TOKENS = st.sampled_from(
    ["{", "}", "[", "]", ",", ":", '"', '"a"', '"b":', "1", "-", "0", ".5", "e9", "-1.5e-3", "true",
     "null", "false", "nul", " ", "\n", "\t", "\r", "\\", '"\\u00e9"', '"\\ud83d\\ude00"', "\\u", "é",
     '{"a":1}', "[1,2]", '"\\n"', "\0", "\x0c", "NaN", "/**/"]
)  # fmt: skip


@st.composite
def nearly_json(draw: Any) -> str:
    if draw(st.booleans()):
        return "".join(draw(st.lists(TOKENS, max_size=12)))
    values = st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
        max_leaves=10,
    )
    text = json.dumps(draw(values), ensure_ascii=draw(st.booleans()))
    if draw(st.booleans()):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(TOKENS) + text[at + draw(st.integers(0, 3)) :]
    return text


def python_accepts(text: str) -> bool:
    """Return whether Python's parser accepts a text, without its extensions of JSON."""
    try:
        value = json.loads(text, parse_constant=lambda name: [][0])
    except (ValueError, IndexError):
        return False
    try:
        json.dumps(value, ensure_ascii=False).encode()  # it accepts half of a surrogate pair
    except UnicodeEncodeError:
        return False
    return True


@settings(QUIET, max_examples=300)
@given(nearly_json())
@example('{"a":1,"a":2}')
@example('"\\ud800"')
@example(" [ 1 , 2 ] ")
def test_text_is_accepted_as_by_python(text: str) -> None:
    accepted = python_accepts(text)
    kept = JsonDecoder({}).decode([text.encode()], on_error="null")
    assert (not kept.errors) == accepted
    ignored = JsonDecoder(pa.schema([])).decode([f'{{"x":{text}}}'.encode()], on_error="null")
    assert (not ignored.errors) == python_accepts(f'{{"x":{text}}}')
    if accepted and text.strip(" \t\r\n") != "null":
        assert pa.array(kept)[0].as_py() == text.strip(" \t\r\n")


@settings(QUIET, max_examples=300)
@given(st.binary(max_size=60), st.integers(0, 3))
def test_any_bytes_are_a_value_or_an_error(data: bytes, wrapped: int) -> None:
    record = [data, b'"' + data + b'"', b'{"a":' + data + b"}", b'{"' + data + b'":1}'][wrapped]
    try:
        text = record.decode()
        accepted = python_accepts(text) and not text.startswith("\ufeff")
    except UnicodeDecodeError:
        accepted = False
    column = JsonDecoder({}).decode([record], on_error="null")
    assert (not column.errors) == accepted
    for error in column.errors:
        assert 0 <= error.position <= len(record)


# --- numbers ---


@settings(QUIET, max_examples=300)
@given(
    st.decimals(allow_nan=False, allow_infinity=False)
    | st.tuples(st.integers(-(10**30), 10**30), st.integers(-40, 40)).map(
        lambda pair: decimal.Decimal(pair[0]).scaleb(pair[1])
    )
)
def test_numbers_are_exact_or_refused(number: decimal.Decimal) -> None:
    text = str(number)
    record = f'{{"d":{text},"f":{text},"i":{text}}}'.encode()
    scaled = number.scaleb(6, decimal.Context(prec=200))
    for name, kind, fits, value in [
        (
            "d",
            pa.decimal128(30, 6),
            scaled == scaled.to_integral_value() and abs(scaled) < 10**30,
            number,
        ),
        ("f", pa.float64(), abs(float(number)) != float("inf"), float(number)),
        (
            "i",
            pa.int64(),
            number == number.to_integral_value() and -(2**63) <= number < 2**63,
            number,
        ),
    ]:
        column = JsonDecoder(pa.schema([(name, kind)])).decode([record], on_error="null")
        assert (not column.errors) == fits, (name, number)
        if fits:
            assert pa.array(column)[0].as_py()[name] == value


# --- pyarrow's reader ---

FLAT = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("ok", pa.bool_()),
        ("ratio", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
    ]
)
FLAT_VALUES = st.fixed_dictionaries(
    {},
    optional={
        "id": st.none() | integers(64, True),
        "name": st.none() | TEXT,
        "ok": st.none() | st.booleans(),
        "ratio": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "at": st.datetimes().map(lambda time: f"{time:%Y-%m-%dT%H:%M:%S}".zfill(19) + "Z"),
        "tags": st.none() | st.lists(st.none() | TEXT, max_size=4),
        "place": st.none()
        | st.fixed_dictionaries({}, optional={"city": TEXT, "zip": integers(32, True)}),
        "unknown": st.lists(st.dictionaries(TEXT, st.booleans(), max_size=2), max_size=2),
    },
)


@not_under_tsan
@QUIET
@given(st.lists(FLAT_VALUES, min_size=1, max_size=20))
def test_columns_equal_those_of_pyarrow(records: list[dict[str, Any]]) -> None:
    texts = [json.dumps(record).encode() for record in records]
    found = pa.Table.from_struct_array(pa.array(JsonDecoder(FLAT).decode(texts)))
    options = pyarrow.json.ParseOptions(explicit_schema=FLAT, unexpected_field_behavior="ignore")
    wanted = pyarrow.json.read_json(io.BytesIO(b"\n".join(texts)), parse_options=options)
    assert found.equals(wanted)


# --- simdjson without the processor's instructions ---


@not_under_tsan
def test_plain_simdjson_gives_the_same(tmp_path: Path) -> None:
    script = tmp_path / "decode.py"
    script.write_text(
        "import sys\n"
        "import pyarrow as pa\n"
        "from kafka_native.codecs import JsonDecoder\n"
        "records = sys.stdin.buffer.read().split(b'\\0')\n"
        "column = JsonDecoder({}).decode(records, on_error='null')\n"
        "print(pa.array(column).to_pylist(), [(e.row, e.position) for e in column.errors])\n"
    )
    pieces = [b'{"a":[1,"\\\\\\"x"]}', b"[", b'"\xc3"', b'"\xe2\x82\xac"', b'"a\nb"', b"", b'"', b"tru",
              b'{"a" : 1 }  ', b'[1,2]]', b'"\\ud800"', b"1" * 200, b'["' + b"x" * 130 + b'"]']  # fmt: skip
    outputs = []
    for name in ("fallback", None):
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        if name:
            environment["SIMDJSON_FORCE_IMPLEMENTATION"] = name
        done = subprocess.run(
            [sys.executable, str(script)],
            input=b"\0".join(pieces),
            env=environment,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].count(b"None") >= 8


def test_errors_have_a_field_of_the_schema() -> None:
    with pytest.raises(DecodeError) as caught:
        JsonDecoder(FLAT).decode([b'{"place":{"zip":2147483648}}'])
    assert caught.value.path == "place.zip"
