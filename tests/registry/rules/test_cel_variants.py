"""Variants in rules: confluent_kafka's executor returns the same."""

from __future__ import annotations

import json
import struct
import uuid
from functools import partial
from typing import Any

import pytest

pytest.importorskip("celpy", reason="rules in CEL need kafka-native[rules]")
pytest.importorskip("google.protobuf", reason="the tests need protobuf")

from google.protobuf import message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_native.codecs.protobuf_descriptors import message_of
from kafka_native.schema_registry import variants
from kafka_native.schema_registry.rules._interface import RuleError
from kafka_native.schema_registry.rules.cel.cel_executor import CelExecutor
from kafka_native.schema_registry.variants import Variant, VariantError, parse_json
from tests.registry.rules.contracts import RuleKind, context, rule

REASON = "needs confluent_kafka[rules] as the witness"
DOCUMENT = {
    "id": 7,
    "big": 2**63,
    "ratio": 1.5,
    "on": True,
    "none": None,
    "größe 'x'": "ü" * 70,
    "lines": [{"price": 1}, {"price": 300}, []],
}
MESSAGE = {"json": json.dumps(DOCUMENT), "number": 5}


def run(expr: str, message: Any = MESSAGE, executor: Any = None, kind: str = "TRANSFORM") -> Any:
    return (executor or CelExecutor()).transform(
        context(rule("CEL", expr, kind=RuleKind(kind))), message
    )


def theirs() -> Any:
    base = "confluent_kafka.schema_registry.rules.cel.cel_executor"
    return pytest.importorskip(base, reason=REASON).CelExecutor()


def their_variants() -> Any:
    base = "confluent_kafka.schema_registry.confluent.type.variant_utils"
    return pytest.importorskip(base, reason=REASON)


V = "variants.parseJson(message.json)"


@pytest.mark.parametrize(
    "expr",
    [
        f"variants.toJson({V})",
        f"variants.type({V}) + variants.type(variants.field({V}, 'lines'))",
        f"variants.type(variants.path({V}, '$.big')) + variants.type(variants.path({V}, '$.on'))",
        f"variants.as(variants.path({V}, '$.lines[1].price'), 'int') + 1",
        f"variants.as(variants.path({V}, '$.ratio'), 'double')",
        f"variants.as(variants.path({V}, '$.big'), 'decimal')",
        f"variants.as(variants.path({V}, '$.on'), 'boolean')",
        f"size(variants.as(variants.path({V}, '$[\"größe \\'x\\'\"]'), 'string'))",
        f"variants.tryAs(variants.path({V}, '$.id'), 'string')",
        f"variants.tryAs(variants.path({V}, '$.id'), 'nonsense')",
        f"[variants.isNull(variants.path({V}, '$.none')), variants.isNull(variants.path({V}, '$.x'))]",
        f"[variants.path({V}, '$.none') == null, variants.path({V}, '$.x') == null]",
        f"variants.path({V}, '$.lines[9].price') == null && variants.field({V}, 'lines') != null",
        f"variants.index({V}, 0) == null && variants.index(variants.field({V}, 'lines'), -1) == null",
        "variants.tryParseJson('{') == null && variants.isNull(variants.parseJson('null'))",
        "variants.toJson(null) == null && variants.type(null) == null && variant(null) == null",
        "variants.isNull(message.number)",
        "variants.parseJson('[1,2]') == variants.parseJson('[1, 2]')",
    ],
)  # fmt: skip
def test_results_are_those_of_confluent_kafka(expr: str) -> None:
    assert run(expr) == run(expr, executor=theirs())


@pytest.mark.parametrize(
    ("expr", "reason"),
    [
        ("variants.parseJson('{')", "variants.parseJson: not JSON: "),
        ("variants.parseJson(1)", "variants.parseJson: a string is expected, not int"),
        ("variants.tryParseJson(1)", "variants.tryParseJson: a string is expected, not int"),
        ("variant('x')", "variant: string is no variant; variants.parseJson() reads a text"),
        ("variants.field(message, 'x')", "variants.field: map is no variant"),
        ("variants.field(null, 1)", "variants.field: a string is expected, not int"),
        ("variants.index(null, 1.5)", "variants.index: an int is expected, not double"),
        ("variants.path(null, 'a')", "variants.path: the path 'a' isn't like $.name[0]"),
        ("variants.path(null, '$[-1]')", "variants.path: the path '$[-1]' isn't like"),
        ("variants.path(null, '$.a[')", "from character 3 on"),
        ("variants.path(null, '$[2147483648]')", "isn't like"),
        (f"variants.as({V}, 'object')", "variants.as: CEL has no values of the kind object"),
        (f"variants.tryAs({V}, 'object')", "variants.tryAs: CEL has no values of the kind object"),
        (f"variants.as({V}, 'x')", "variants.as: there is no kind 'x', only string, int, "),
        (f"variants.as({V}, 'int')", "variants.as: the variant is of the kind object, not int"),
        ("variant(b'', b'')", "variant: the variant's metadata doesn't begin with version 1"),
        (f"variants.parseJson('{10**38}')", "a number has more than 38 digits"),
        (f"variants.parseJson('{'1' * 5000}')", "a number has more than 38 digits"),
        ("variants.parseJson('\"\\\\ud800\"')", "half a surrogate pair"),
        (f"variants.parseJson('{'[' * 100_000}')", "the JSON is nested too deeply"),
    ],
)
def test_errors_name_the_function(expr: str, reason: str) -> None:
    with pytest.raises(RuleError) as caught:
        run(expr)
    assert reason in str(caught.value)


SECONDS = 1_700_000_000


@pytest.mark.parametrize(
    ("code", "data", "kind", "text"),
    [
        (8, b"\x02" + struct.pack("<i", -1234), "decimal", "-12.34"),
        (9, b"\x00" + struct.pack("<q", 12), "decimal", "12"),
        (10, b"\x26" + (10**38 - 1).to_bytes(16, "little", signed=True), "decimal", f"0.{'9' * 38}"),
        (11, struct.pack("<i", 10), "date", '"1970-01-11"'),
        (12, struct.pack("<q", SECONDS * 10**6 + 120_000), "timestamp", '"2023-11-14T22:13:20.120Z"'),
        (13, struct.pack("<q", -1), "timestamp", '"1969-12-31T23:59:59.999999"'),
        (14, struct.pack("<f", 0.1), "double", "0.1"),
        (14, struct.pack("<f", 3.4028235e38), "double", "3.4028235e+38"),
        (7, struct.pack("<d", float("-inf")), "double", "-Infinity"),
        (15, b"\x02\0\0\0\0\xff", "bytes", '"AP8="'),
        (16, b"\x02\0\0\0ok", "string", '"ok"'),
        (17, struct.pack("<q", 3_600_000_001), "time", '"01:00:00.000001"'),
        (18, struct.pack("<q", SECONDS * 10**9 + 1), "timestamp", '"2023-11-14T22:13:20.000000001Z"'),
        (19, struct.pack("<q", SECONDS * 10**9), "timestamp", '"2023-11-14T22:13:20"'),
        (20, uuid.UUID(int=5).bytes, "uuid", f'"{uuid.UUID(int=5)}"'),
    ],
)  # fmt: skip
def test_types_that_json_lacks(code: int, data: bytes, kind: str, text: str) -> None:
    found = Variant(b"\x01\0\0", bytes([code << 2]) + data)
    assert (found.kind, found.to_json()) == (kind, text)
    theirs = their_variants().Variant(found.value, found.metadata).to_json()
    assert json.loads(theirs) == json.loads(text)
    with pytest.raises(VariantError, match="ends too early"):
        Variant(b"\x01\0\0", (bytes([code << 2]) + data)[:-1]).to_json()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (bytes([63 << 2]), "the unknown type 63"),
        (bytes([11 << 2]) + struct.pack("<i", 2**31 - 1), "outside of the years 1 to 9999"),
        (bytes([12 << 2]) + struct.pack("<q", 2**63 - 1), "outside of the years 1 to 9999"),
        (bytes([17 << 2]) + struct.pack("<q", -1), "no time of day"),
        (bytes([8 << 2, 39, 0, 0, 0, 0]), "more than 38 digits"),
        (b"\x05\xff", "isn't UTF-8"),
        (b"\x02\x01\x05\x00\x01\x00", "the variant has no name 5"),
        (b"\x13\xff\xff\xff\xff", "ends too early"),
        (b"\x03\x01\xf0\x01", "ends too early"),
    ],
)
def test_malformed_variants(data: bytes, reason: str) -> None:
    with pytest.raises(VariantError, match=reason):
        Variant(b"\x01\0\0", data).to_json()


def test_a_variant_that_contains_a_part_many_times_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each array has the next one 200 times: 200 to the power of 8 values in 1.6 kB."""
    monkeypatch.setattr(variants, "PARTS_MAX", 1000)
    data = b"\0"
    for _ in range(8):
        data = b"\x03\xc8" + b"\0" * 201 + data
    with pytest.raises(VariantError, match="too large for JSON"):
        Variant(b"\x01\0\0", data).to_json()
    assert Variant(b"\x01\0\0", data).item(199) is not None
    for _ in range(200):
        data = b"\x03\x01\0\0" + data
    with pytest.raises(VariantError, match="nested too deeply"):
        Variant(b"\x01\0\0", data).to_json()


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=60), st.binary(max_size=300), st.binary(max_size=60))
def test_any_bytes_are_a_variant_or_an_error(metadata: bytes, data: bytes, noise: bytes) -> None:
    good = parse_json(MESSAGE["json"])
    for one, other in ((b"\1" + metadata, data), (good.metadata, noise + good.value[len(noise) :])):
        found = Variant(one, other)
        for read in (
            found.to_json,
            found.scalar,
            partial(found.field, "id"),
            partial(found.item, 1),
        ):
            try:
                read()
            except VariantError:
                continue


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**38) + 1, 10**38 - 1) | st.text(max_size=80)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(), inner, max_size=6),
    max_leaves=30,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_bytes_are_those_of_confluent_kafka(value: Any) -> None:
    text = json.dumps(value)
    found, expected = parse_json(text), their_variants().parse_json(text)
    assert (found.metadata, found.value) == (expected.metadata, expected.value)
    assert json.loads(found.to_json()) == value
    assert json.loads(expected.to_json()) == value


def test_large_containers() -> None:
    value = {f"name {number}": list(range(300)) for number in range(300)}
    found, expected = (
        each(json.dumps(value)) for each in (parse_json, their_variants().parse_json)
    )
    assert (found.metadata, found.value) == (expected.metadata, expected.value)
    assert json.loads(found.to_json()) == value


EVENTS = """syntax = "proto3";
import "confluent/type/variant.proto";
message Event { confluent.type.Variant body = 1; }
"""


def test_variants_in_messages() -> None:
    message = message_factory.GetMessageClass(message_of(EVENTS, None, None))()
    expr = "variants.path(message.body, '$.id')"
    assert run(f"{expr} == null", message, kind="CONDITION") is True
    body = parse_json(MESSAGE["json"])
    message.body.metadata, message.body.value = body.metadata, body.value
    assert run(f"variants.as({expr}, 'int') == 7", message, kind="CONDITION") is True
    found = run("{'body': variants.field(message.body, 'lines')}", message)
    assert json.loads(Variant(found.body.metadata, found.body.value).to_json()) == DOCUMENT["lines"]


def test_variants_in_avro_records() -> None:
    body = parse_json('{"a":[1]}')
    message = {"body": {"metadata": body.metadata, "value": body.value}}
    assert run("variants.toJson(message.body)", message) == '{"a":[1]}'
    found = run("{'body': variants.field(message.body, 'a')}", message)
    part = Variant(found["body"]["metadata"], found["body"]["value"])
    assert part.to_json() == "[1]"
    with pytest.raises(RuleError, match="map is no variant"):
        run("variant({'value': b'x'})", message)
