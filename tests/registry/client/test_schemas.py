"""The value types read any JSON or refuse it, and write what they have read."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_native.schema_registry import schemas
from tests.registry.client import test_calls

theirs = pytest.importorskip("confluent_kafka.schema_registry.common.schema_registry_client")

EXAMPLES = {
    "Rule": test_calls.RULE,
    "RuleSet": test_calls.RULE_SET,
    "RuleParams": {"a": "b"},
    "Metadata": test_calls.METADATA,
    "MetadataTags": {"a": ["b", "c"]},
    "MetadataProperties": {"a": "b"},
    "SchemaReference": {"name": "a", "subject": "b", "version": 1},
    "Schema": test_calls.SCHEMA,
    "RegisteredSchema": test_calls.REGISTERED,
    "ServerConfig": test_calls.CONFIG,
    "Association": test_calls.ASSOCIATION,
    "AssociationInfo": test_calls.ANSWERED["associations"][0],
    "AssociationCreateOrUpdateInfo": test_calls.ASKED["associations"][0],
    "AssociationCreateOrUpdateRequest": test_calls.ASKED,
    "AssociationResponse": test_calls.ANSWERED,
}
HASHABLE = {
    "Association",
    "Metadata",
    "MetadataProperties",
    "MetadataTags",
    "RegisteredSchema",
    "Rule",
    "RuleParams",
    "RuleSet",
    "Schema",
    "SchemaReference",
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_value_keeps_everything(name: str) -> None:
    own, other = getattr(schemas, name), getattr(theirs, name)
    source = copy.deepcopy(EXAMPLES[name])
    value = own.from_dict(source)
    assert source == EXAMPLES[name]
    assert value.to_dict() == other.from_dict(source).to_dict()
    assert own.from_dict(value.to_dict()) == value
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.deepcopy(value) == value
    if name in HASHABLE:
        assert hash(own.from_dict(source)) == hash(value)
    # confluent_kafka writes the type of a rule without a type as null.
    expected = {k: v for k, v in other.from_dict({}).to_dict().items() if v is not None}
    assert own.from_dict({}).to_dict() == expected


@pytest.mark.parametrize("number", [-1, 1 << 31, 10**30])
def test_an_id_fits_the_framing(number: int) -> None:
    with pytest.raises(ValueError, match="id must be a number from 0 to 2147483647"):
        schemas.RegisteredSchema.from_dict({"id": number, "schema": "{}"})


@pytest.mark.parametrize("name", EXAMPLES)
@given(data=st.data())
def test_any_json_is_read_or_refused(name: str, data: st.DataObject) -> None:
    own = getattr(schemas, name)
    source: dict[str, Any] = {
        key: data.draw(st.one_of(st.just(value), JSON))
        for key, value in EXAMPLES[name].items()
        if data.draw(st.booleans())
    }
    try:
        value = own.from_dict(source)
    except (TypeError, ValueError):
        return
    assert own.from_dict(value.to_dict()) == value
    if name in HASHABLE:
        hash(value)


def test_every_type_has_an_example() -> None:
    with_json = {name for name in schemas.__all__ if hasattr(getattr(schemas, name), "to_dict")}
    assert with_json == set(EXAMPLES)


def test_references_count_in_a_comparison() -> None:
    one = schemas.Schema("a", "AVRO", [schemas.SchemaReference("a", "b", 1)])
    other = schemas.Schema("a", "AVRO", [schemas.SchemaReference("a", "b", 2)])
    assert one != other
    assert {one: 1, other: 2}[other] == 2
