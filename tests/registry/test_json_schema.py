"""JSON serializers and deserializers: bytes, values and errors, beside confluent_kafka's."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import struct
import sys
import typing
from typing import Any

import msgspec
import pytest
from confluent_kafka.schema_registry import json_schema as theirs
from confluent_kafka.serialization import SerializationContext as TheirContext
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_native.schema_registry import Schema, SchemaReference, record_subject_name_strategy
from kafka_native.schema_registry import json_schema as ours
from kafka_native.schema_registry.rule_registry import RuleRegistry
from kafka_native.schema_registry.rule_types import RuleContext, RuleExecutor
from kafka_native.serialization import MessageField, SerializationContext, SerializationError
from tests.registry.memory_registry import MemoryRegistry
from tests.registry.test_avro import raised

USER = {
    "title": "User",
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "home": {"type": "object", "properties": {"door": {"type": "integer"}}},
    },
    "required": ["name"],
}
TEXT = json.dumps(USER)
ADA = {"name": "Ada Ü", "tags": ["a"], "home": {"door": 7}}
CONTEXT = SerializationContext("users", MessageField.VALUE)
ANYTHING = "{}"


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


def both(registry: MemoryRegistry, schema: str, value: Any) -> bytes:
    """Serialize with both packages, check that the bytes are equal, and return them."""
    own = ours.JSONSerializer(schema, registry.client())(value, CONTEXT)
    other = theirs.JSONSerializer(schema, registry.confluent_client())
    assert own is not None
    assert own == other(value, TheirContext("users", "value"))
    return own


def test_bytes_and_values_are_those_of_confluent_kafka(registry: MemoryRegistry) -> None:
    data = both(registry, TEXT, ADA)
    assert data[:5] == struct.pack(">bI", 0, 1)
    own = ours.JSONDeserializer(None, schema_registry_client=registry.client())
    other = theirs.JSONDeserializer(None, schema_registry_client=registry.confluent_client())
    assert own(data, CONTEXT) == ADA == other(data, TheirContext("users", "value"))  # type: ignore[comparison-overlap]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON.filter(lambda value: value is not None))
@settings(max_examples=60, deadline=None)
def test_random_values_are_written_and_read_as_by_confluent_kafka(value: Any) -> None:
    registry = MemoryRegistry()
    data = both(registry, ANYTHING, value)
    own = ours.JSONDeserializer(ANYTHING, schema_registry_client=registry.client())
    other = theirs.JSONDeserializer(ANYTHING, schema_registry_client=registry.confluent_client())
    assert own(data, CONTEXT) == value == other(data, TheirContext("users", "value"))


def test_without_a_registry_the_id_is_skipped(registry: MemoryRegistry) -> None:
    data = both(registry, TEXT, ADA)
    assert ours.JSONDeserializer(TEXT)(data, CONTEXT) == ADA
    assert ours.JSONDeserializer(TEXT)(data) == ADA
    assert ours.JSONDeserializer(TEXT)(None) is None


WRONG = [
    ({"name": 5}, "$.name: 5 is not of type 'string'"),
    ({"name": "x", "tags": ["a", 1]}, "$.tags[1]: 1 is not of type 'string'"),
    ({"name": "x", "home": {"door": "7"}}, "$.home.door: '7' is not of type 'integer'"),
    ({}, "$: 'name' is a required property"),
]


@pytest.mark.parametrize(("value", "problem"), WRONG, ids=range(len(WRONG)))
def test_wrong_data_is_refused_with_its_path(
    registry: MemoryRegistry, value: Any, problem: str
) -> None:
    serializer = ours.JSONSerializer(TEXT, registry.client())
    text = f"topic users, value, schema id 1: {problem}"
    assert raised(lambda: serializer(value, CONTEXT)) == text
    lenient = ours.JSONSerializer(TEXT, registry.client(), conf={"validate": False})
    data = lenient(value, CONTEXT)
    reader = ours.JSONDeserializer(None, schema_registry_client=registry.client())
    assert raised(lambda: reader(data, CONTEXT)) == text
    lenient_reader = ours.JSONDeserializer(TEXT, conf={"validate": False})
    assert lenient_reader(data, CONTEXT) == value


def test_values_that_json_does_not_have(registry: MemoryRegistry) -> None:
    serializer = ours.JSONSerializer(ANYTHING, registry.client())
    text = raised(lambda: serializer({"x": object()}, CONTEXT))
    assert text.startswith("topic users, value, schema id 1: the value can't be written as JSON")


def test_an_error_shows_a_part_of_a_huge_value(registry: MemoryRegistry) -> None:
    serializer = ours.JSONSerializer(TEXT, registry.client())
    text = raised(lambda: serializer(["x" * 1_000_000], CONTEXT))
    assert len(text) < 1000
    assert text.startswith("topic users, value, schema id 1: $: ['xxx")
    assert text.endswith("is not of type 'object'")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ('{"properties": {"x": {"multipleOf": 0.01}}}', {"x": 10**400}),
        ('{"properties": {"x": {"multipleOf": 0.01}}}', {"x": float("inf")}),
        ('{"patternProperties": {"^x": {"type": "string"}}}', {1: "a"}),
    ],
)
def test_values_that_jsonschema_cannot_check(
    registry: MemoryRegistry, schema: str, value: Any
) -> None:
    serializer = ours.JSONSerializer(schema, registry.client())
    expected = "topic users, value, schema id 1: the value can't be checked: "
    assert raised(lambda: serializer(value, CONTEXT)).startswith(expected)
    # Another client may have written it. orjson doesn't read such numbers.
    client = registry.client()
    data = b"\0\0\0\0\1" + json.dumps(value).encode()
    reader = ours.JSONDeserializer(None, schema_registry_client=client, json_decode=json.loads)
    if "x" in value:
        assert raised(lambda: reader(data, CONTEXT)).startswith(expected)


def test_payloads_that_are_not_json(registry: MemoryRegistry) -> None:
    data = both(registry, TEXT, ADA)
    reader = ours.JSONDeserializer(None, schema_registry_client=registry.client())
    for size in range(5, len(data)):
        text = raised(lambda size=size: reader(data[:size], CONTEXT))
        assert f"the payload of {size - 5} bytes isn't valid JSON: " in text
    for payload in (b"\xff\xfe", b"[" * 100_000):
        assert "isn't valid JSON" in raised(lambda p=payload: reader(data[:5] + p, CONTEXT))
    assert "the payload has no schema framing: " in raised(lambda: reader(b'{"name": 1}', CONTEXT))


def test_references_of_references(registry: MemoryRegistry) -> None:
    registry.register("door", {"schema": '{"type": "integer"}', "schemaType": "JSON"})
    door = SchemaReference("door.json", "door", 1)
    home = {"type": "object", "properties": {"door": {"$ref": "door.json"}}}
    registry.register(
        "home",
        {"schema": json.dumps(home), "schemaType": "JSON", "references": [door.to_dict()]},
    )
    text = '{"type": "object", "properties": {"home": {"$ref": "home.json"}}}'
    schema = Schema(text, "JSON", [SchemaReference("home.json", "home", 1)])
    serializer = ours.JSONSerializer(schema, registry.client())
    data = serializer({"home": {"door": 7}}, CONTEXT)
    other = theirs.JSONDeserializer(None, schema_registry_client=registry.confluent_client())
    assert other(data, TheirContext("users", "value")) == {"home": {"door": 7}}
    assert "$.home.door: 'x' is not" in raised(lambda: serializer({"home": {"door": "x"}}, CONTEXT))


def test_references_may_form_a_cycle(registry: MemoryRegistry) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        text = f'{{"type": "object", "properties": {{"x": {{"$ref": "{other}"}}}}}}'
        reference = SchemaReference(other, other, 1).to_dict()
        registry.register(name, {"schema": text, "schemaType": "JSON", "references": [reference]})
    schema = registry.client().get_version("a", 1).schema
    serializer = ours.JSONSerializer(schema, registry.client())
    assert serializer({"x": {"x": {"x": {}}}}, CONTEXT)
    assert "$.x.x.x: 5 is not" in raised(lambda: serializer({"x": {"x": {"x": 5}}}, CONTEXT))


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/x.json", "file:///etc/passwd", "other"])
def test_references_are_never_taken_from_the_network(
    registry: MemoryRegistry, address: str
) -> None:
    serializer = ours.JSONSerializer(json.dumps({"$ref": address}), registry.client())
    text = raised(lambda: serializer({}, CONTEXT))
    assert f"refers to {address}, which is not among its references" in text


def test_an_invalid_schema(registry: MemoryRegistry) -> None:
    assert "isn't valid JSON" in raised(lambda: ours.JSONSerializer("{", registry.client()))
    assert "must be an object" in raised(lambda: ours.JSONSerializer("[]", registry.client()))
    serializer = ours.JSONSerializer('{"properties": {"a": {"type": 5}}}', registry.client())
    text = raised(lambda: serializer({}, CONTEXT))
    assert "the JSON schema is invalid at $.properties.a.type" in text
    with pytest.raises(TypeError, match="not int"):
        ours.JSONSerializer(5, registry.client())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="schema_registry_client is needed"):
        ours.JSONDeserializer(None)
    with pytest.raises(ValueError, match="validate must be a boolean"):
        ours.JSONDeserializer(TEXT, conf={"validate": 1})


def test_the_title_is_the_record_name(registry: MemoryRegistry) -> None:
    conf = {"subject.name.strategy": record_subject_name_strategy}
    serializer = ours.JSONSerializer(TEXT, registry.client(), conf=conf)
    assert serializer(ADA)
    assert registry.calls == ["register User"]


def test_functions_convert_objects_and_json(registry: MemoryRegistry) -> None:
    serializer = ours.JSONSerializer(
        ANYTHING, registry.client(), lambda obj, ctx: {"n": obj}, json_encode=json.dumps
    )
    data = serializer(5, CONTEXT)
    assert data == b'\0\0\0\0\1{"n": 5}'
    reader = ours.JSONDeserializer(
        ANYTHING, lambda value, ctx: value["n"], json_decode=lambda data: json.loads(data)
    )
    assert reader(data, CONTEXT) == 5


def test_asyncio_makes_the_same_bytes(registry: MemoryRegistry) -> None:
    async def main() -> Any:
        serializer = await ours.AsyncJSONSerializer(TEXT, registry.async_client())
        data = await serializer(ADA, CONTEXT)
        reader = await ours.AsyncJSONDeserializer(None, None, registry.async_client())
        with pytest.raises(SerializationError, match="no schema framing"):
            await reader(b"", CONTEXT)
        return data, await reader(data, CONTEXT)

    assert asyncio.run(main()) == (both(registry, TEXT, ADA), ADA)


@dataclasses.dataclass
class Home:
    door: int


@dataclasses.dataclass
class User:
    name: str
    home: Home | None = None
    tags: tuple[str, ...] = ()


class Short(msgspec.Struct):
    name: str


class Typed(typing.TypedDict):
    name: str
    tags: list[str]


ADA_USER = User("Ada Ü", Home(7), ("a",))


@pytest.mark.parametrize("validate", [True, False])
def test_classes_instead_of_dicts(registry: MemoryRegistry, validate: bool) -> None:
    data = both(registry, TEXT, ADA)
    conf = {"validate": validate}
    kinds: list[tuple[Any, Any]] = [
        (User, ADA_USER),
        (Short, Short("Ada Ü")),
        (Typed, {"name": "Ada Ü", "tags": ["a"]}),
    ]
    for kind, expected in kinds:
        reader = ours.JSONDeserializer(None, None, registry.client(), conf, type=kind)
        assert [reader(data, CONTEXT) for _ in range(3)] == [expected] * 3
        assert reader(data) == expected
    built, _ = (
        ours.JSONDeserializerBuilder(schema_registry_client=registry.client())
        .set_type(User)
        .set_deserializer_config(conf)
        .build({}, False)
    )
    assert built(data, CONTEXT) == ADA_USER

    async def read() -> Any:
        client = registry.async_client()
        return await ours.AsyncJSONDeserializer(None, None, client, conf, type=User)(data, CONTEXT)

    assert asyncio.run(read()) == ADA_USER


def test_a_class_that_does_not_fit(registry: MemoryRegistry) -> None:
    data = both(registry, TEXT, {"name": "Ada"})
    strict = registry.client()
    reader = ours.JSONDeserializer(None, None, strict, type=Home)
    for _ in range(2):
        assert raised(lambda: reader(data, CONTEXT)) == (
            "topic users, value, schema id 1: the value doesn't fit Home: "
            "Object missing required field `door`"
        )
    invalid = data[:5] + b'{"name": 5}'  # the schema is checked first
    users = ours.JSONDeserializer(None, None, strict, type=User)
    for _ in range(2):
        assert "$.name: 5 is not of type 'string'" in raised(lambda: users(invalid, CONTEXT))
    with pytest.raises(ValueError, match="type excludes from_dict"):
        ours.JSONDeserializer(TEXT, lambda value, ctx: value, strict, type=User)
    with pytest.raises(TypeError, match="more than one"):
        ours.JSONDeserializer(TEXT, None, strict, type=Home | User)


def test_rules_get_the_dict_before_it_becomes_an_object(registry: MemoryRegistry) -> None:
    data = both(registry, TEXT, ADA)
    rules = RuleRegistry()
    rules.register_executor(Upper())
    rule = {"name": "r", "kind": "TRANSFORM", "mode": "READ", "type": "UPPER"}
    registry.register(
        "users-value",
        {"schema": TEXT, "schemaType": "JSON", "ruleSet": {"domainRules": [rule]}},
    )
    conf = {"use.latest.version": True}
    reader = ours.JSONDeserializer(
        None, None, registry.client(), conf, rule_registry=rules, type=User
    )
    assert reader(data, CONTEXT) == dataclasses.replace(ADA_USER, name="ADA Ü")


class Upper(RuleExecutor):
    def type(self) -> str:
        return "UPPER"

    def transform(self, ctx: RuleContext, message: Any) -> Any:
        assert type(message) is dict
        return {**message, "name": message["name"].upper()}


def test_without_msgspec_classes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgspec", None)
    with pytest.raises(ImportError, match=r"pip install 'kafka-native\[json\]'"):
        ours.JSONDeserializer(TEXT, type=User)
