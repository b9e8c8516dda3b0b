"""Serializers and deserializers have the names and parameters of confluent_kafka's."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka.schema_registry import avro as their_avro
from confluent_kafka.schema_registry import json_schema as their_json
from confluent_kafka.schema_registry import protobuf as their_protobuf
from confluent_kafka.schema_registry import rule_registry as their_registry
from confluent_kafka.schema_registry import serde as their_serde
from confluent_kafka.schema_registry._async import serde as async_serde
from confluent_kafka.schema_registry._sync import serde as sync_serde
from confluent_kafka.schema_registry.common import serde as common_serde
from confluent_kafka.schema_registry.wildcard_matcher import wildcard_match as their_match
from hypothesis import given
from hypothesis import strategies as st

from kafka_native.schema_registry import (
    avro,
    json_schema,
    protobuf,
    rule_registry,
    rule_types,
    serde,
)
from kafka_native.schema_registry.wildcard_matcher import wildcard_match

FORMATS = [(avro, their_avro, "Avro"), (json_schema, their_json, "JSON")]
FORMATS += [(protobuf, their_protobuf, "Protobuf")]
CLASSES = [
    (ours, theirs, f"{asynchronous}{name}{kind}{builder}")
    for ours, theirs, name in FORMATS
    for asynchronous in ("", "Async")
    for kind in ("Serializer", "Deserializer")
    for builder in ("", "Builder")
]
RULES = [
    *("FieldContext", "FieldRuleExecutor", "RuleAction", "RuleBase", "RuleContext", "ErrorAction"),
    *("RuleExecutor", "NoneAction", "RuleConditionError"),
]


def parameters(function: Any) -> list[tuple[str, bool]]:
    """Return the names of a function's parameters, and whether each has a default."""
    found = inspect.signature(function).parameters.values()
    return [(each.name, each.default is not each.empty) for each in found]


def public_methods(class_: type) -> dict[str, Any]:
    """Return the public functions of a class and its bases."""
    found = inspect.getmembers(class_, inspect.isfunction)
    return {name: function for name, function in found if not name.startswith("_")}


@pytest.mark.parametrize(("ours", "theirs", "name"), CLASSES, ids=[each[2] for each in CLASSES])
def test_classes_have_the_same_parameters(ours: Any, theirs: Any, name: str) -> None:
    own, other = getattr(ours, name), getattr(theirs, name)
    assert name in ours.__all__
    added = [("type", True)] if "Deserializer" in name else []
    assert parameters(own.__init__) == parameters(other.__init__) + added
    if not name.endswith("Builder"):
        assert len(parameters(own.__call__)) == len(parameters(other.__call__))
        assert set(own._default_conf) == set(other._default_conf)
        return
    methods = public_methods(own)
    for method, function in public_methods(other).items():
        assert parameters(methods[method]) == parameters(function), method


@pytest.mark.parametrize("name", RULES)
def test_rules_have_the_same_interface(name: str) -> None:
    own, other = getattr(rule_types, name), getattr(their_serde, name)
    methods = public_methods(own)
    assert parameters(own.__init__) == parameters(other.__init__)
    for method, function in public_methods(other).items():
        assert parameters(methods[method]) == parameters(function), method


def test_the_module_serde_has_the_same_names() -> None:
    missing = {
        *(
            "AsyncBaseSerde",
            "Migration",
            "ParsedSchemaCache",
        ),  # of the inside of confluent_kafka
        "default_validation_rule_executor",
    }
    theirs = set(sync_serde.__all__) | set(async_serde.__all__) | set(common_serde.__all__)
    assert theirs - set(serde.__all__) == missing
    assert all(hasattr(serde, name) for name in serde.__all__)


IMPORTS = [("avro", "fastavro"), ("json_schema", "jsonschema"), ("protobuf", "google.protobuf")]


@pytest.mark.parametrize(("module", "package"), IMPORTS)
def test_a_missing_package_is_named(module: str, package: str) -> None:
    extra = module.removesuffix("_schema")
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "import kafka_native.schema_registry.serde\n"
        f"try: import kafka_native.schema_registry.{module}\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert f"pip install 'kafka-native[{extra}]'" in done.stdout


def test_kafka_native_imports_none_of_the_packages() -> None:
    program = "import sys, kafka_native; print(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    for name in ("fastavro", "jsonschema", "google.protobuf", "kafka_native.schema_registry"):
        assert f"'{name}'" not in done.stdout


def test_the_rule_registry_has_the_same_methods() -> None:
    methods = public_methods(rule_registry.RuleRegistry)
    for name, function in public_methods(their_registry.RuleRegistry).items():
        assert parameters(methods[name]) == parameters(function), name
    assert parameters(rule_registry.RuleOverride) == parameters(their_registry.RuleOverride)


def test_constants_are_equal() -> None:
    for name in rule_types.__all__:
        if name.startswith("DLQ_"):
            assert getattr(rule_types, name) == getattr(their_serde, name)
    assert [each.value for each in rule_types.FieldType] == [
        each.value for each in their_serde.FieldType
    ]


@given(st.text("ab.", max_size=6), st.text("ab.*?", max_size=6))
def test_patterns_match_as_in_confluent_kafka(text: str, pattern: str) -> None:
    assert wildcard_match(text, pattern) == their_match(text, pattern)


def test_a_backslash_makes_a_character_literal() -> None:
    assert wildcard_match("a*", r"a\*")
    assert not wildcard_match("ab", r"a\*")
    assert wildcard_match("a\\", "a\\")
