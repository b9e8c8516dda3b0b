"""Rules in the text of a schema, beside confluent_kafka's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.schema_registry import avro as their_avro
from confluent_kafka.schema_registry import json_schema as their_json
from confluent_kafka.schema_registry import protobuf as their_protobuf
from confluent_kafka.schema_registry import serde as their_serde
from confluent_kafka.serialization import SerializationContext as TheirContext
from confluent_kafka.serialization import SerializationError as TheirError
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from kafka_native.schema_registry import avro, json_schema, protobuf, protobuf_files, serde
from kafka_native.serialization import MessageField, SerializationContext, SerializationError
from tests.registry.memory_registry import MemoryRegistry
from tests.registry.test_rules import rule

CONTEXT = SerializationContext("t", MessageField.VALUE)
THEIR_CONTEXT = TheirContext("t", "value")


def evaluator(module: Any, calls: list[Any]) -> Any:
    """Return an executor on one package's base class, which evaluates Python and notes its calls."""

    class Python(module.ValidationRuleExecutor):  # type: ignore[misc]
        def execute(self, rule: Any, schema: Any, message: Any) -> Any:
            calls.append((rule.name, str(message)))
            try:
                return eval(rule.expr, {"this": message})
            except ZeroDivisionError as error:
                raise module.RuleError("zero") from error

    return Python()


def conf(module: Any, calls: list[Any], when: str, **more: Any) -> dict[str, Any]:
    return {
        "validation.rules.execution": when,
        "validation.rules.executor": evaluator(module, calls),
        **more,
    }


def check(name: str, expr: str) -> dict[str, str]:
    return {"name": name, "expr": expr}


AVRO = json.dumps(
    {
        "type": "record",
        "name": "R",
        "confluent:rules": [check("whole", "this['a'] != 'whole'")],
        "fields": [
            {"name": "a", "type": "string", "confluent:rules": [check("a", "len(this) < 6")]},
            {
                "name": "n",
                "type": ["null", "int"],
                "confluent:rules": [check("n", "1 // this > 0")],
            },
            {
                "name": "l",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "I",
                        "confluent:rules": [check("item", "'' if this['x'] else 'x is zero'")],
                        "fields": [{"name": "x", "type": "int"}],
                    },
                },
            },
            {"name": "m", "type": {"type": "map", "values": ["null", "I"]}},
        ],
    }
)
GOOD = {"a": "fine", "n": 1, "l": [{"x": 1}], "m": {"k": {"x": 1}, "z": None}}
BAD = {"a": "too long", "n": 0, "l": [{"x": 1}, {"x": 0}], "m": {"k": {"x": 0}}}
WHERE = "topic t, value, schema id 1: "
VIOLATIONS = [
    "a: a: len(this) < 6",
    "n: n: 1 // this > 0 (caused by: zero)",
    "l[1]: item: x is zero",
    'm["k"]: item: x is zero',
]


def text_of(violations: list[str]) -> str:
    count = len(violations)
    plural = "s" if count > 1 else ""
    return f"{WHERE}{count} validation rule{plural} failed:\n  - " + "\n  - ".join(violations)


def failures(own: Any, other: Any, value: Any) -> str:
    """Return our error, after checking that confluent_kafka's has the same violations."""
    with pytest.raises(SerializationError) as caught:
        own(value, CONTEXT)
    with pytest.raises(TheirError) as theirs:
        other(value, THEIR_CONTEXT)
    text = str(caught.value)
    assert text.split("\n")[1:] == str(theirs.value).split("\n")[1:]
    return text


@pytest.mark.parametrize("when", ["BEFORE_DOMAIN_RULES", "AFTER_DOMAIN_RULES"])
def test_avro(when: str) -> None:
    registry = MemoryRegistry()
    calls: tuple[list[Any], list[Any]] = ([], [])
    own = avro.AvroSerializer(registry.client(), AVRO, conf=conf(serde, calls[0], when))
    other = their_avro.AvroSerializer(
        registry.confluent_client(), AVRO, conf=conf(their_serde, calls[1], when)
    )
    assert own(GOOD, CONTEXT) == other(GOOD, THEIR_CONTEXT)
    assert failures(own, other, BAD) == text_of(VIOLATIONS)
    assert calls[0] == calls[1]
    assert len(calls[0]) == 11


def test_the_first_violation_can_end_the_check() -> None:
    registry = MemoryRegistry()
    fast = {"validation.rules.fail.fast": True}
    calls: tuple[list[Any], list[Any]] = ([], [])
    when = "BEFORE_DOMAIN_RULES"
    own = avro.AvroSerializer(registry.client(), AVRO, conf=conf(serde, calls[0], when, **fast))
    other = their_avro.AvroSerializer(
        registry.confluent_client(), AVRO, conf=conf(their_serde, calls[1], when, **fast)
    )
    assert failures(own, other, BAD) == text_of(VIOLATIONS[:1])
    assert calls[0] == calls[1]


@pytest.mark.parametrize("before", [True, False])
def test_before_or_after_the_domain_rules(before: bool) -> None:
    """A domain rule repairs the value: only a check before it fails."""
    from kafka_native.schema_registry.rule_registry import RuleRegistry
    from kafka_native.schema_registry.rule_types import RuleExecutor

    class Repair(RuleExecutor):
        def type(self) -> str:
            return "WHOLE"

        def transform(self, ctx: Any, message: Any) -> Any:
            return GOOD

    rules = RuleRegistry()
    rules.register_executor(Repair())
    registry = MemoryRegistry()
    registry.register("t-value", {"schema": AVRO, "ruleSet": {"domainRules": [rule("r")]}})
    latest = {"auto.register.schemas": False, "use.latest.version": True}
    when = "BEFORE_DOMAIN_RULES" if before else "AFTER_DOMAIN_RULES"
    serializer = avro.AvroSerializer(
        registry.client(), conf=conf(serde, [], when, **latest), rule_registry=rules
    )
    if before:
        with pytest.raises(SerializationError, match="4 validation rules failed"):
            serializer(BAD, CONTEXT)
    else:
        assert serializer(BAD, CONTEXT)


JSON = json.dumps(
    {
        "type": "object",
        "confluent:rules": [check("whole", "'a' in this")],
        "definitions": {
            "Even": {"type": "object", "confluent:rules": [check("even", "this['x'] % 2 == 0")]}
        },
        "properties": {
            "a": {"type": "string", "confluent:rules": [check("a", "len(this) < 6")]},
            "b": {"$ref": "#/definitions/Even", "confluent:rules": [check("b", "this['x'] < 5")]},
            "c": {"type": "array", "items": {"$ref": "#/definitions/Even"}},
            "d": {"oneOf": [{"type": "string"}, {"$ref": "#/definitions/Even"}]},
            "e": {"anyOf": [{"type": "null"}, {"$ref": "#/definitions/Even"}]},
            "f": {"allOf": [{"$ref": "#/definitions/Even"}]},
            "g": {"type": ["object", "null"], "confluent:rules": [check("g", "this == {}")]},
        },
    }
)


def test_json() -> None:
    registry = MemoryRegistry()
    calls: tuple[list[Any], list[Any]] = ([], [])
    when = "AFTER_DOMAIN_RULES"
    own = json_schema.JSONSerializer(JSON, registry.client(), conf=conf(serde, calls[0], when))
    other = their_json.JSONSerializer(
        JSON, registry.confluent_client(), conf=conf(their_serde, calls[1], when)
    )
    odd, even = {"x": 7}, {"x": 2}
    good = {"a": "fine", "b": even, "c": [even], "d": even, "e": even, "f": even, "g": {}}
    assert own(good, CONTEXT) == other(good, THEIR_CONTEXT)
    bad = {"a": "too long", "b": odd, "c": [even, odd], "d": odd, "e": odd, "f": odd, "g": odd}
    text = failures(own, other, bad)
    assert text.startswith(f"{WHERE}9 validation rules failed:\n  - $.a: a: len(this) < 6\n")
    assert "  - $.c[1]: even: this['x'] % 2 == 0" in text
    assert calls[0] == calls[1]


def message_class(*, renamed: bool) -> Any:
    """Return a message class with rules. Its fields may have other names at the same numbers."""
    types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="v.proto", package="v", syntax="proto3")
    message = file.message_type.add(name="M")
    inner = message.nested_type.add(name="In")
    field = inner.field.add(name="x", number=1, type=types.TYPE_INT32, label=1)

    def add(options: Any, name: str, expr: str) -> None:
        made = protobuf_files._Options()
        made.meta.rules.add(name=name, expr=expr)
        options.MergeFromString(made.SerializeToString())

    add(field.options, "x", "this > 0")
    add(inner.options, "in", "this.x < 5")
    name = "other" if renamed else "items"
    message.field.add(name=name, number=1, type=types.TYPE_MESSAGE, type_name=".v.M.In", label=3)
    message.field.add(name="one", number=2, type=types.TYPE_MESSAGE, type_name=".v.M.In", label=1)
    add(message.field[1].options, "one", "this.x != 3")
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("v.M"))


@pytest.mark.parametrize("latest", [False, True])
def test_protobuf(latest: bool) -> None:
    registry = MemoryRegistry()
    registered, class_ = message_class(renamed=False), message_class(renamed=latest)
    text = protobuf_files.text_of(registered.DESCRIPTOR.file)
    registry.register("t-value", {"schema": text, "schemaType": "PROTOBUF"})
    more = {"auto.register.schemas": False, "use.latest.version": latest}
    when = "BEFORE_DOMAIN_RULES"
    own = protobuf.ProtobufSerializer(class_, registry.client(), conf(serde, [], when, **more))
    other = their_protobuf.ProtobufSerializer(
        class_, registry.confluent_client(), conf(their_serde, [], when, **more)
    )
    items = "other" if latest else "items"
    good = class_(**{items: [{"x": 1}], "one": {"x": 4}})
    assert own(good, CONTEXT) == other(good, THEIR_CONTEXT)
    bad = class_(**{items: [{"x": 1}, {"x": 7}, {"x": -1}], "one": {"x": 3}})
    assert failures(own, other, bad) == text_of(
        ["items[1]: in: this.x < 5", "items[2].x: x: this > 0", "one: one: this.x != 3"]
    )


@pytest.mark.parametrize(
    ("schema", "depth", "text"),
    [
        ('{"properties": {"a": {"$ref": "no.json"}}}', 1, "refers to no.json, which is not among"),
        ('{"properties": {"a": {"$ref": "#"}}}', 5000, "the value is nested too deep"),
    ],
)
def test_json_that_the_rules_cannot_reach(schema: str, depth: int, text: str) -> None:
    value: Any = {}
    for _ in range(depth):
        value = {"a": value}
    settings = conf(serde, [], "BEFORE_DOMAIN_RULES")
    serializer = json_schema.JSONSerializer(schema, MemoryRegistry().client(), conf=settings)
    with pytest.raises(SerializationError, match=f"topic t, value, schema id 1: .*{text}"):
        serializer(value, CONTEXT)


def test_what_an_executor_may_return() -> None:
    schema = '{"type": "record", "name": "R", "confluent:rules": [{"expr": "5"}], "fields": []}'
    serializer = avro.AvroSerializer(
        MemoryRegistry().client(), schema, conf=conf(serde, [], "BEFORE_DOMAIN_RULES")
    )
    with pytest.raises(SerializationError, match="rule unnamed returned int, not a bool or a text"):
        serializer({}, CONTEXT)


def test_invalid_properties() -> None:
    client = MemoryRegistry().client()
    for wrong in (
        {"validation.rules.execution": "SOMETIMES"},
        {"validation.rules.fail.fast": 1},
        {"validation.rules.executor": 5},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            avro.AvroSerializer(client, AVRO, conf=wrong)
