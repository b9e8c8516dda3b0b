"""The walk over the schemas that a registry's schema refers to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.references import REFERENCES_MAX, found_now, referenced_schemas
from kafka_native.schema_registry import Schema, SchemaReference
from kafka_native.schema_registry.serdes import references_of, run
from kafka_native.serialization import SerializationError


class FakeRegistry:
    """A registry with the schemas of a graph. It counts its calls."""

    def __init__(self, graph: dict[str, list[str]]) -> None:
        self.graph = graph
        self.calls: list[tuple[Any, ...]] = []

    def schema(self, name: str) -> Schema:
        references = [SchemaReference(each, f"{each}-subject", 1) for each in self.graph[name]]
        return Schema(name, "AVRO", references)

    def get_version(self, subject: str, *arguments: Any) -> Any:
        self.calls.append((subject, *arguments))
        return SimpleNamespace(schema=self.schema(subject.removesuffix("-subject")))


def names(registry: FakeRegistry, **how: Any) -> list[str]:
    found = found_now(referenced_schemas(registry.schema("root"), registry, **how))
    assert [name for name, _ in found] == [schema.schema_str for _, schema in found]
    return [name for name, _ in found]


def test_each_schema_comes_once_and_after_its_own_references() -> None:
    graph = {"root": ["left", "right"], "left": ["base"], "right": ["base", "left"], "base": []}
    registry = FakeRegistry(graph)
    assert names(registry) == ["base", "left", "right"]
    assert sorted(registry.calls) == [
        (f"{each}-subject", 1, True) for each in ("base", "left", "right")
    ]


def test_references_may_form_a_cycle() -> None:
    assert names(FakeRegistry({"root": ["a"], "a": ["b"], "b": ["a", "b"]})) == ["b", "a"]


def test_left_out_references_are_not_asked_for() -> None:
    registry = FakeRegistry({"root": ["a", "builtin"], "a": []})
    assert names(registry, skips=lambda name: name == "builtin", text_format="serialized") == ["a"]
    assert registry.calls == [("a-subject", 1, True, "serialized")]


def chain(length: int) -> FakeRegistry:
    graph = {f"s{number}": [f"s{number + 1}"] for number in range(length)}
    return FakeRegistry({**graph, "root": ["s0"], f"s{length}": []})


def test_chain_may_be_longer_than_pythons_stack() -> None:
    assert len(names(chain(REFERENCES_MAX - 1))) == REFERENCES_MAX


def test_too_many_references_are_an_error() -> None:
    registry = chain(10 * REFERENCES_MAX)
    with pytest.raises(SchemaError, match="refers to more than 1000 schemas"):
        names(registry)
    assert len(registry.calls) == REFERENCES_MAX
    with pytest.raises(SerializationError, match="refers to more than 1000 schemas"):
        run(references_of(registry.schema("root"), registry))


@pytest.mark.parametrize("missing", ["name", "subject", "version"])
def test_incomplete_reference_is_an_error(missing: str) -> None:
    parts = {"name": "a", "subject": "a", "version": 1, missing: None}
    schema = Schema("{}", "AVRO", [SchemaReference(**parts)])  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="has no name, no subject or no version"):
        found_now(referenced_schemas(schema, FakeRegistry({})))
