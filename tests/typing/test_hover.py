"""An editor shows the docstring of each public class, method and function.

Editors read .py and .pyi files, never a compiled module. jedi does what they do, but for methods
that an assignment makes: it doesn't know that a string below the assignment is the docstring.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
from pathlib import Path
from typing import Any

import pytest

jedi: Any = pytest.importorskip("jedi", reason="jedi isn't installed: make build")

ROOT = Path(__file__).resolve().parents[2]
MODULES = ("kafka_native", "kafka_native.aio", "kafka_native.admin", "kafka_native.serialization")


def documented(module: str) -> dict[str, str]:
    """Return the first line of the docstring of each public name, and of each method."""
    found = {}
    public = importlib.import_module(module)
    for name in public.__all__:
        value = getattr(public, name)
        if not (inspect.isclass(value) or inspect.isroutine(value)):
            continue
        found[f"{module}.{name}"] = inspect.getdoc(value)
        for attribute, member in vars(value).items() if inspect.isclass(value) else ():
            if not attribute.startswith("_") and inspect.isroutine(member):
                found[f"{module}.{name}.{attribute}"] = inspect.getdoc(member)
    return {name: text.splitlines()[0] for name, text in found.items() if text}


def below_assignments(path: Path) -> dict[str, str]:
    """Return the strings below the assignments in the classes of a file, by class.attribute."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        body = node.body if isinstance(node, ast.ClassDef) else []
        for assignment, below in itertools.pairwise(body):
            if isinstance(assignment, ast.Assign) and isinstance(below, ast.Expr):
                [target] = assignment.targets
                found[f"{node.name}.{ast.unparse(target)}"] = ast.literal_eval(below.value)  # type: ignore[union-attr]
    return found


@pytest.mark.parametrize("module", MODULES)
def test_hovering_shows_the_docstring(module: str) -> None:
    expected = documented(module)
    assert len(expected) > 10
    source = "\n".join([f"import {module}", *expected])
    editor = jedi.Script(source, project=jedi.Project(ROOT, sys_path=[str(ROOT)]))
    assigned = below_assignments(ROOT / "kafka_native" / "aio" / "_admin.py")
    missing = []
    for line, (name, text) in enumerate(expected.items(), 2):
        shown = "\n".join(each.docstring() for each in editor.help(line, len(name) - 1))
        if text not in shown and assigned.get(name.removeprefix(f"{module}.")) != text:
            missing.append(f"{name}: {shown[:80]!r} has no {text!r}")
    assert not missing, "\n".join(missing)
