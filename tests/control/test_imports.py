"""Modules of the control plane import each other in one direction, except for types."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import kafka_native

ROOT = Path(kafka_native.__file__).parent.parent
CONTROL = ROOT / "kafka_native" / "control"


def imports_of(node: ast.AST) -> Iterator[str]:
    """Yield the modules that this code imports when it runs."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module is not None:
            yield child.module
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        else:
            yield from imports_of(child)


def test_no_import_cycle() -> None:
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in CONTROL.rglob("*.py")
    }
    graph = {
        name: {
            each
            for each in imports_of(ast.parse(path.read_text()))
            if each in paths and each != name
        }
        for name, path in paths.items()
    }
    assert any(graph.values())
    TopologicalSorter(graph).prepare()  # CycleError names the modules
