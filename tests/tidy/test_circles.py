"""No Python module imports itself by way of others, not even for types or inside a function."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.syntax import parsed
from tests.tidy import tree


def module_name(path: Path) -> str:
    """The dotted name of a source file."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, known: frozenset[str]) -> Iterator[str]:
    """The modules in ``known`` that a file imports, anywhere in it."""
    package = path.with_suffix("").parts[:-1]
    for node in ast.walk(parsed(tree.text_of(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*start, *([node.module] if node.module else [])])
            for name in (f"{base}.{alias.name}" for alias in node.names):
                yield from (each for each in (name if name in known else base,) if each in known)


@pytest.mark.parametrize("package", ["kafka_native", "bench", "dev", "tests", "examples"])
def test_imports_make_no_circle(package: str) -> None:
    paths = {module_name(path): path for path in tree.sources(".py", under=f"{package}/")}
    known = frozenset(paths)
    assert len(known) > 3, "the scan lost its modules"
    sorter = graphlib.TopologicalSorter(
        {name: set(imported(path, known)) - {name} for name, path in paths.items()}
    )
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        pytest.fail("these import each other: " + " -> ".join(reversed(error.args[1])))
