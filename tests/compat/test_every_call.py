"""Each public class, method and function of confluent_kafka is in a test that uses both libraries.

A test counts if it mentions a method and its class.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.compat.test_signatures import API
from tests.syntax import parsed

HERE = Path(__file__).parent
NO_CALLS = {"test_every_call", "test_signatures", "api_facts"}
"""Files that name calls but don't make them."""

PRIVATE = {
    "confluent_kafka.aio._common",
    "confluent_kafka.aio.producer._kafka_batch_executor",
    "confluent_kafka.aio.producer._message_batch",
}
"""Modules inside of the asyncio clients. Programs only import their names."""

LEFT_OUT = {
    "_KafkaClientError": "a base: its classes are raised",
}
"""The reason for a missing test, by class, function or method."""


def wanted() -> Iterator[tuple[str, str]]:
    """Yield (class or "", method, function or "") of each public name."""
    for module, content in API["modules"].items():
        if module in PRIVATE:
            continue
        yield from (("", function) for function in content["functions"])
        for cls, described in content["classes"].items():
            yield cls, ""
            yield from (
                (cls, method) for method in described["methods"] if not method.startswith("_")
            )


def mentioned(tree: ast.AST) -> set[str]:
    """Return the names in a program: variables, attributes, imports, strings that are names."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            found.update(each.name for each in node.names)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.isidentifier()
        ):
            found.add(node.value)
    return found


def helpers(tree: ast.AST) -> set[str]:
    """Return the modules of tests.compat that a program imports."""
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {
        name.removeprefix("tests.compat.") for name in modules if name.startswith("tests.compat.")
    } - NO_CALLS


@cache
def names_of(module: str) -> frozenset[str]:
    """Return the names in a file and in the modules that it imports."""
    path = HERE / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = parsed(path.read_text(encoding="utf-8"))
    return frozenset(mentioned(tree)).union(*map(names_of, helpers(tree)))


def called(cls: str, member: str) -> bool:
    """Return whether a test mentions a name, and for a method also its class."""
    tests = {path.stem for path in HERE.glob("test_*.py")} - NO_CALLS
    return any({cls, member} - {""} <= names_of(test) for test in tests)


def is_left_out(cls: str, member: str) -> bool:
    return bool({cls, member, f"{cls}.{member}"} & set(LEFT_OUT))


def test_every_call_is_made_on_both() -> None:
    everything = list(wanted())
    assert len(everything) > 200
    missing = [
        f"{cls}.{member}".strip(".")
        for cls, member in everything
        if not is_left_out(cls, member) and not called(cls, member)
    ]
    assert not missing, "no test calls " + ", ".join(missing)


@pytest.mark.parametrize("name", LEFT_OUT)
def test_names_that_are_left_out_have_no_test(name: str) -> None:
    meant = [
        (cls, member) for cls, member in wanted() if name in (cls, f"{cls}.{member}".strip("."))
    ]
    assert meant, "the reference lacks this name"
    assert not called(*meant[0]), "a test calls it: remove it from LEFT_OUT"


def test_missing_calls_are_noticed() -> None:
    assert called("Consumer", "subscribe")
    assert not called("Consumer", "no_such_call")
    assert not called("NoSuchClass", "subscribe")
    tree = parsed("import a\nfrom tests.compat.b import C\nC().d('e', 'two words', f=1)")
    assert mentioned(tree) == {"C", "d", "e"}
    assert helpers(tree) == {"b"}
