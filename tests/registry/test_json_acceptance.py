"""The fast check of JSON Schema accepts nothing that jsonschema refuses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema.validators import validator_for

from kafka_native.schema_registry.json_acceptance import acceptor_of

DRAFTS = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
]
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]
SCALAR = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.0, 1.0, 1.5, -2.0, float("nan")]),
    st.text("ab", max_size=3),
)
VALUES = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=8,
)


def objects(inner: Any) -> st.SearchStrategy[dict[str, Any]]:
    names = st.sampled_from("abc")
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(TYPES)
            | st.lists(st.sampled_from(TYPES), min_size=1, unique=True),
            "enum": st.lists(SCALAR, min_size=1, max_size=3, unique_by=repr),
            "minimum": st.integers(-3, 3),
            "maximum": st.integers(-3, 3),
            "minLength": st.integers(0, 3),
            "maxLength": st.integers(0, 3),
            "minItems": st.integers(0, 2),
            "maxItems": st.integers(0, 2),
            "minProperties": st.integers(0, 2),
            "maxProperties": st.integers(0, 2),
            "pattern": st.sampled_from(["a", "^b", "a$"]),
            "format": st.sampled_from(["date", "email"]),
            "properties": st.dictionaries(names, inner, max_size=3),
            "required": st.lists(names, min_size=1, max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "patternProperties": st.dictionaries(st.sampled_from(["a", "^b"]), inner, max_size=1),
            "items": inner,
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "uniqueItems": st.booleans(),
            "title": st.just("t"),
            "confluent:tags": st.just(["PII"]),
        },
    )


SCHEMAS = st.recursive(objects(st.just({"type": "integer"})), objects, max_leaves=6)


@settings(
    deadline=None,
    max_examples=200,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(SCHEMAS, st.sampled_from(DRAFTS), st.lists(VALUES, min_size=1, max_size=6))
def test_what_it_accepts_is_valid(schema: dict[str, Any], draft: str, values: list[Any]) -> None:
    schema = {"$schema": draft, **schema}
    class_ = validator_for(schema)
    accepts = acceptor_of(schema, class_.VALIDATORS)
    if accepts is not None:
        validator = class_(schema)
        for value in values:
            assert not accepts(value) or validator.is_valid(value)


PERSON = {
    "$schema": DRAFTS[2],
    "$id": "http://example.com/person",
    "definitions": {"name": {"type": "string", "minLength": 1, "pattern": "^[A-Z]"}},
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "properties": {
        "name": {"$ref": "#/definitions/name"},
        "age": {"oneOf": [{"type": "null"}, {"type": "integer", "minimum": 0}]},
        "kind": {"enum": ["a", 1, None]},
        "true": {"const": True},
        "friends": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
        "score": {"type": ["number", "string"], "exclusiveMaximum": 10},
    },
}


@pytest.mark.parametrize(
    ("value", "is_accepted"),
    [
        ({"name": "Ada"}, True),
        ({"name": "Ada", "age": None, "kind": None, "true": True}, True),
        ({"name": "Ada", "age": 7, "kind": 1, "score": 9.5}, True),
        ({"name": "Ada", "friends": [{"name": "Bob", "friends": [{"name": "Cy"}]}]}, True),
        ({"name": "Ada", "score": "high"}, True),
        ({}, False),
        ([], False),
        ({"name": ""}, False),
        ({"name": "ada"}, False),
        ({"name": 5}, False),
        ({"name": "Ada", "other": 1}, False),
        ({"name": "Ada", "age": -1}, False),
        ({"name": "Ada", "age": "x"}, False),
        ({"name": "Ada", "kind": True}, False),
        ({"name": "Ada", "kind": "b"}, False),
        ({"name": "Ada", "true": 1}, False),
        ({"name": "Ada", "friends": [{}]}, False),
        ({"name": "Ada", "friends": [{"name": "B"}] * 3}, False),
        ({"name": "Ada", "score": 10}, False),
        ({"name": "Ada", "score": True}, False),
    ],
)
def test_common_keywords(value: Any, is_accepted: bool) -> None:
    class_ = validator_for(PERSON)
    accepts = acceptor_of(PERSON, class_.VALIDATORS)
    assert accepts is not None
    assert accepts(value) == is_accepted == class_(PERSON).is_valid(value)


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {"type": "null"}},
        {"oneOf": [{"type": "integer"}, {"type": "number"}]},
        {"oneOf": [{"type": "integer"}, {"minimum": 3}]},
        {"items": [{"type": "integer"}]},
        {"$ref": "other.json"},
        {"$ref": "#/definitions/missing"},
        {"$ref": "#/definitions/a", "type": "object", "definitions": {"a": {}}},
        {"definitions": {"a": {"$id": "x"}}, "$ref": "#/definitions/a"},
        {"properties": {"a": {"$id": "x", "type": "string"}}},
        {"patternProperties": {"a": {}}},
        {"exclusiveMinimum": True, "minimum": 3},
        {"minLength": 1.0},
        {"pattern": "("},
        {"properties": {"a": 5}},
        {"type": [{"type": "string"}]},
        {"$schema": "http://json-schema.org/draft-03/schema#", "type": "any"},
    ],
)
def test_other_schemas_are_left_to_jsonschema(schema: Any) -> None:
    assert acceptor_of(schema, validator_for({"$schema": DRAFTS[2]}).VALIDATORS) is None


def test_values_of_other_classes_are_left_to_jsonschema() -> None:
    class Text(str):
        __slots__ = ()

    keywords = validator_for(PERSON).VALIDATORS
    for schema in ({"type": "string"}, {"enum": ["a"]}, {"pattern": "a"}):
        accepts = acceptor_of(schema, keywords)
        assert accepts is not None
        assert accepts("a")
        assert not accepts(Text("b"))
    assert acceptor_of(True, keywords)(5)  # type: ignore[misc]
    assert not acceptor_of(False, keywords)(5)  # type: ignore[misc]
