"""Every effective property has a place in the code and a test, and both match the table."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.evidence import EVIDENCE
from kafka_native.config import PROPERTIES, State
from tests.syntax import parsed

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "kafka_native"
EFFECTIVE = [p for p in PROPERTIES.values() if p.state is State.EFFECTIVE and not p.alias_of]


def names_of(name: str) -> list[str]:
    """Return the property's name and its aliases."""
    return [name, *(p.name for p in PROPERTIES.values() if p.alias_of == name)]


@functools.cache
def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


# --- code ---


def pairs(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield (identifier, expression) for each named value: arguments, dict entries, assignments,
    returns.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg:
            yield node.arg, node.value
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, (ast.Name, ast.Attribute)):
                    yield (
                        target.attr if isinstance(target, ast.Attribute) else target.id,
                        node.value,
                    )
        elif (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and node.value is not None
        ):
            yield node.target.id, node.value
        elif isinstance(node, ast.FunctionDef):
            yield from (
                (node.name, each.value)
                for each in node.body
                if isinstance(each, ast.Return) and each.value
            )


def mentioned(tree: ast.AST) -> set[str]:
    """Return the strings and names in an expression."""
    found = {
        n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }
    found |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    return found | {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}


@functools.cache
def carriers() -> dict[str, set[str]]:
    """Return, for each string or name in the package, the identifiers whose values are made of it."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        if not {"_reference", "spark", "mock", "cli"} & set(path.parts):
            for identifier, value in pairs(parsed(path.read_text(encoding="utf-8"))):
                for each in mentioned(value):
                    found.setdefault(each, set()).add(identifier)
    return found


@functools.cache
def carry(name: str) -> set[str]:
    """Return the identifiers that carry a property's value, at most a few assignments from its
    name.
    """
    found = {name.replace(".", "_")}
    found |= {identifier for each in names_of(name) for identifier in carriers().get(each, ())}
    for _ in range(2):
        found |= {further for identifier in found for further in carriers().get(identifier, ())}
    return found


def bare(path: str) -> str:
    """Return the code of a file without comments and docstrings."""
    text = text_of(path)
    if path.endswith((".c", ".h")):
        return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    return re.sub(r'""".*?"""|#[^\n]*', "", text, flags=re.S)


def test_table_has_the_effective_properties_and_no_others() -> None:
    assert [p.name for p in EFFECTIVE if p.name not in EVIDENCE] == []
    assert [name for name in EVIDENCE if PROPERTIES[name].state is not State.EFFECTIVE] == []
    assert [name for name in EVIDENCE if PROPERTIES[name].alias_of] == []


@pytest.mark.parametrize("name", EVIDENCE)
def test_value_acts_where_the_table_says(name: str) -> None:
    assert EVIDENCE[name].acts
    for place in EVIDENCE[name].acts:
        path, _, identifier = place.partition("::")
        if identifier:
            assert identifier in carry(name), (
                f"nothing in the code gives the value of {name} to {identifier}"
            )
            assert re.search(rf"\b_?{identifier}\b", bare(path)), f"{path} doesn't use {identifier}"
        else:
            assert any(f'"{each}"' in bare(path) for each in names_of(name)), (
                f"{path} doesn't read {name}"
            )


# --- tests ---


@functools.cache
def definitions(path: str) -> dict[str, str]:
    """Return the source of every definition in a test module, with decorators."""
    text = text_of(path)
    if path.endswith(".c"):
        found = re.finditer(r"^static void (\w+)\(void\)\n\{.*?^\}", text, re.M | re.S)
        return {match[1]: match[0] for match in found}
    lines = text.splitlines()
    sources: dict[str, str] = {}
    for node in parsed(text).body:
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(each.lineno for each in decorators)])
        source = "\n".join(lines[first - 1 : node.end_lineno])
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        named = [each.id for each in targets if isinstance(each, ast.Name)]
        for name in [getattr(node, "name", ""), *named]:
            sources[name] = source
    return sources


def source_of(path: str, name: str) -> str:
    """Return a test's source with everything of its module that it uses."""
    sources = definitions(path)
    todo, seen = [name], set()
    while todo:
        each = todo.pop()
        if each not in seen and each in sources:
            seen.add(each)
            todo += re.findall(r"\b[A-Za-z_]\w*\b", sources[each])
    return "\n".join(sources[each] for each in sorted(seen))


@pytest.mark.parametrize("name", EVIDENCE)
def test_test_exists_and_sets_the_property(name: str) -> None:
    path, _, function = EVIDENCE[name].test.partition("::")
    assert function in definitions(path), f"there is no {function} in {path}"
    source = source_of(path, function)
    spelled = any(
        re.search(rf"[\"']{re.escape(n)}[\"']|\b{re.escape(n)}\s*=", source) for n in names_of(name)
    )
    assert spelled or any(re.search(rf"\b{each}\b", source) for each in carry(name)), (
        "it doesn't set the property"
    )
