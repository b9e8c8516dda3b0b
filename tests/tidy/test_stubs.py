"""Stubs tell what the compiled modules have, and public names tell what they are."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest

import kafka_native
from tests.tidy import tree

BINDINGS = tree.sources(".pyx", under="kafka_native/")


def compiled(path: Path) -> ModuleType:
    return importlib.import_module(".".join(path.with_suffix("").parts))


def own_names(module: ModuleType) -> set[str]:
    """What a compiled module itself defines: not what it imports, not Cython's plumbing."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and getattr(value, "__module__", module.__name__) == module.__name__
        and name != "annotations"
    }


def stub_body(path: Path) -> list[ast.stmt]:
    return ast.parse(tree.text_of(path.with_suffix(".pyi"))).body


def names_of(body: list[ast.stmt]) -> set[str]:
    """The public names that a stub, or a class in it, declares."""
    found = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return {name for name in found if not name.startswith("_")}


@pytest.mark.parametrize("path", BINDINGS, ids=str)
def test_stub_and_compiled_module_agree(path: Path) -> None:
    assert (tree.ROOT / path.with_suffix(".pyi")).exists(), "no stub"
    module = compiled(path)
    body = stub_body(path)
    assert names_of(body) >= {name for name in own_names(module) if callable(getattr(module, name))}
    assert {name for name in names_of(body) if not hasattr(module, name) and not name[0].isupper()} == set()
    for node in body:
        if isinstance(node, ast.ClassDef) and isinstance(getattr(module, node.name, None), type):
            built = getattr(module, node.name)
            members = {name for name in vars(built) if not name.startswith("_")}
            assert names_of(node.body) >= members, f"{node.name}: the stub lacks {members - names_of(node.body)}"
            methods = names_of([one for one in node.body if isinstance(one, ast.FunctionDef)])
            missing = {name for name in methods if not hasattr(built, name)}
            assert missing == set(), f"{node.name}: the module lacks {missing}"


def undocumented() -> list[str]:
    """Public classes, functions and methods without a docstring."""
    found = []
    for name in kafka_native.__all__:
        value = getattr(kafka_native, name)
        if not (inspect.isclass(value) or callable(value)):
            continue
        if not (value.__doc__ or "").strip():
            found.append(name)
        if inspect.isclass(value):
            found += [
                f"{name}.{member}"
                for member, function in vars(value).items()
                if not member.startswith("_") and callable(function) and not (function.__doc__ or "").strip()
            ]
    return found


def test_public_names_are_documented() -> None:
    assert undocumented() == []


def test_every_public_name_exists() -> None:
    assert [name for name in kafka_native.__all__ if not hasattr(kafka_native, name)] == []
