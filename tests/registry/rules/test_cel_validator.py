"""Rules in the text of a schema, evaluated by CEL."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

pytest.importorskip("celpy", reason="rules in CEL need kafka-native[rules]")

from kafka_native.schema_registry import avro
from kafka_native.schema_registry.rules._interface import RuleError
from kafka_native.schema_registry.rules.cel.cel_validator import CelValidator
from kafka_native.schema_registry.validation_rules import ValidationRule
from kafka_native.serialization import MessageField, SerializationContext, SerializationError
from tests.registry.memory_registry import MemoryRegistry
from tests.registry.rules.test_cel import full

CASES: list[tuple[str, Any, Any]] = [
    ("this > 3", 5, True),
    ("this > 3", 2, False),
    ("this.a + 1 == 3 && now > timestamp('2020-01-01T00:00:00Z')", {"a": 2}, True),
    ("size(this) > 2 ? '' : 'too short'", "ab", "too short"),
    ("size(this) > 2 ? '' : 'too short'", "abc", ""),
    ("this.isEmail()", "a@example.com", True),
    ("this.all(x, x > 0)", [1, 0], False),
]


def theirs() -> Any:
    module = pytest.importorskip(
        "confluent_kafka.schema_registry.rules.cel.cel_validator",
        reason="needs confluent_kafka[rules] as the witness",
    )
    return module.CelValidator()


@pytest.mark.parametrize(("expr", "value", "expected"), CASES)
def test_results_are_those_of_confluent_kafka(expr: str, value: Any, expected: Any) -> None:
    rule = ValidationRule("r", None, expr, None)
    result = CelValidator().execute(rule, None, value)
    assert (type(result), result) == (type(expected), expected)
    assert theirs().execute(rule, None, value) == expected


@pytest.mark.parametrize(
    ("field", "expr"),
    [
        (None, "this.id == 7 && has(this.child) && !has(this.child.id)"),
        ("id", "this == 7"),
        ("big", "this == 9223372036854775808u"),
        ("tags", "this == ['a', 'b']"),
        ("counts", "this['x'] == 3"),
        ("child", "this.card == 'inner'"),
        ("children", "this[0].id == 1"),
        ("when", "this > timestamp('2026-05-06T07:08:08Z')"),
    ],
)
def test_protobuf_fields_have_their_types(field: str | None, expr: str) -> None:
    message = full()
    rule = ValidationRule("r", None, expr, None)
    schema, value = message.DESCRIPTOR, message
    if field is not None:
        schema, value = message.DESCRIPTOR.fields_by_name[field], getattr(message, field)
    assert CelValidator().execute(rule, schema, value) is True
    assert theirs().execute(rule, schema, value) is True


@pytest.mark.parametrize(
    ("expr", "value", "words"),
    [
        ("this > 'a'", 1, "the rule r failed: this > 'a'"),
        ("this +", 1, "the rule r failed"),
        ("this + 1", 1, "returned int, not a bool or a text"),
        ("this.all(x, x > 1)", 1, "the rule r failed: this.all"),
        ("'%d'.format([this]) == ''", float("inf"), "the rule r failed: '%d'.format"),
        ("this > 1", 2**64, "the rule r can't take the value: overflow"),
        ("this.x > 1", {"x": 2**64}, "the rule r can't take the value: overflow"),
        (None, 1, "has no expression"),
        ("true", None, "no value to check"),
    ],
)
def test_failures_name_the_rule(expr: str | None, value: Any, words: str) -> None:
    with pytest.raises(RuleError) as caught:
        CelValidator().execute(ValidationRule("r", None, expr, None), None, value)
    assert words in str(caught.value)


@pytest.mark.parametrize("executor", [None, CelValidator()], ids=["default", "given"])
def test_a_serializer_checks_the_rules_of_its_schema(executor: CelValidator | None) -> None:
    rules = [{"name": "positive", "expr": "this > 0"}]
    fields = [{"name": "amount", "type": "int", "confluent:rules": rules}]
    schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
    conf = {
        "validation.rules.execution": "BEFORE_DOMAIN_RULES",
        "validation.rules.executor": executor,
    }
    serializer = avro.AvroSerializer(MemoryRegistry().client(), schema, conf=conf)
    context = SerializationContext("orders", MessageField.VALUE)
    assert serializer({"amount": 1}, context)
    with pytest.raises(SerializationError, match="amount: positive: this > 0"):
        serializer({"amount": 0}, context)


def test_the_default_executor_names_the_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "kafka_native.schema_registry.rules.cel"
    for name in [name for name in sys.modules if name.startswith(module)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "celpy", None)
    conf = {"validation.rules.execution": "BEFORE_DOMAIN_RULES"}
    with pytest.raises(ImportError, match=r"pip install 'kafka-native\[rules\]'"):
        avro.AvroSerializer(MemoryRegistry().client(), '"int"', conf=conf)
