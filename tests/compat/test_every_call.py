"""No public call is left out: each class, method and function of confluent_kafka is in a test that
uses both libraries.

That it is mentioned beside its class is what can be read from the tests; what comes of it they say
themselves.
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
NO_CALLS = {"test_every_call", "test_signatures"}
"""These have names, but call nothing."""

LEFT_OUT = {
    "_AdminClientImpl": "AdminClient's base, which nobody makes",
    "_KafkaClientError": "a base: its classes are raised",
}
"""Why there is no test, by class, function or method."""


def wanted() -> Iterator[tuple[str, str]]:
    """(class or "", method, function or "") of everything public."""
    for content in API["modules"].values():
        yield from (("", function) for function in content["functions"])
        for cls, described in content["classes"].items():
            yield cls, ""
            yield from (
                (cls, method) for method in described["methods"] if not method.startswith("_")
            )


def mentioned(tree: ast.AST) -> set[str]:
    """The names in a program: of variables, attributes and imports, and texts that are nothing but
    a name.
    """
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
    """The modules beside it that a program takes something from."""
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {
        name.removeprefix("tests.compat.") for name in modules if name.startswith("tests.compat.")
    } - NO_CALLS


@cache
def names_of(module: str) -> frozenset[str]:
    """What a file mentions, and what it has others do."""
    tree = parsed((HERE / f"{module}.py").read_text(encoding="utf-8"))
    return frozenset(mentioned(tree)).union(*map(names_of, helpers(tree)))


def called(cls: str, member: str) -> bool:
    """Whether a test has it, a method together with its class."""
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
    assert not missing, "nobody calls " + ", ".join(missing)


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_has_to_be(name: str) -> None:
    """It is part of the reference, and still nobody calls it."""
    meant = [
        (cls, member) for cls, member in wanted() if name in (cls, f"{cls}.{member}".strip("."))
    ]
    assert meant, "no name of the reference"
    assert not called(*meant[0]), "it is called: take it out of LEFT_OUT"


def test_what_nobody_calls_is_noticed() -> None:
    assert called("Consumer", "subscribe")
    assert not called("Consumer", "no_such_call")
    assert not called("NoSuchClass", "subscribe")
    tree = parsed("import a\nfrom tests.compat.b import C\nC().d('e', 'two words', f=1)")
    assert mentioned(tree) == {"C", "d", "e"}
    assert helpers(tree) == {"b"}
