"""Imports and includes only go down."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy import tree

PACKAGE = "kafka_native"

# A module may import what stands before it, and its own package. The same place: they don't know each other.
LAYERS = [
    {"_reference"},
    {"errors"},
    {"_native"},
    {"partitioners"},
    {"types"},
    {"protocol"},
    {"config", "logging", "stats"},
    {"security"},
    {"control"},
    {"client"},
    {"producer", "consumer", "admin"},
    {"aio", "arrow", "compat", "spark", "cli"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
# The mock cluster judges us, so it shares nothing but the declarations and the record format with what it judges.
MOCK_MAY_IMPORT = {"mock", "protocol", "_native", "errors", "_reference"}
# The edge that shows the mock cluster to its users.
MOCK_USERS = {"mock", "cli"}
C_RANK = {"base": 0, "records": 1, "engine": 2}
LINUX_ONLY = {"sys/eventfd.h", "sys/epoll.h"}

MODULES = tree.sources(".py", ".pyi", under=f"{PACKAGE}/")
C_FILES = tree.sources(".c", ".h", under="csrc/")


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """The kafka_native modules that a file imports, absolute, with the line."""
    package = path.with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(tree.text_of(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*start, *([node.module] if node.module else [])])
            if base == PACKAGE:
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, base


def first_part(module: str) -> str:
    """The module or package directly below kafka_native."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_python_imports_go_down(path: Path) -> None:
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    if own == "__init__" or path.stem == "__main__":
        return  # the front door and the commands see everything
    wrong = []
    for line, module in imported(path):
        if module.split(".")[0] != PACKAGE:
            continue
        other = first_part(module)
        if other == own:
            continue
        if own == "mock":
            allowed = other in MOCK_MAY_IMPORT
        elif other == "mock":
            allowed = own in MOCK_USERS
        else:
            allowed = other in RANK and RANK[other] < RANK.get(own, -1)
        if not allowed:
            wrong.append(f"{path}:{line}: {own} imports {other or PACKAGE}")
    assert wrong == []


def test_every_module_has_a_layer() -> None:
    known = {*RANK, "mock", "__init__", "__main__"}
    found = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in MODULES}
    assert found <= known, f"add to LAYERS: {sorted(found - known)}"


@pytest.mark.parametrize("path", C_FILES, ids=str)
def test_c_includes_go_down(path: Path) -> None:
    own = path.parts[1]
    wrong = []
    for number, line in enumerate(tree.text_of(path).splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if match is None:
            continue
        quoted, name = match.group(1) == '"', match.group(2)
        layer = name.split("/")[0]
        if quoted and (layer not in C_RANK or C_RANK[layer] > C_RANK[own]):
            wrong.append(f"{path}:{number}: {own} includes {name}")
        if name == "Python.h" or (name in LINUX_ONLY and path != Path("csrc/engine/wake.c")):
            wrong.append(f"{path}:{number}: {name} has no place here")
    assert wrong == []


@pytest.mark.parametrize("path", C_FILES, ids=str)
def test_c_file_says_what_it_is_and_hides_no_struct(path: Path) -> None:
    text = tree.text_of(path)
    assert text.startswith("/*"), "no header block: what, which thread, which lock, who frees"
    assert not re.search(r"^\s*typedef\s+(struct|enum|union)\b", text, re.M), "struct kn_noun, without typedef"


@pytest.mark.parametrize("path", tree.sources(".pyx", under=f"{PACKAGE}/"), ids=str)
def test_bindings_import_nothing_above_them(path: Path) -> None:
    text = tree.text_of(path)
    allowed = {name for name, rank in RANK.items() if rank <= RANK["_native"]}
    pattern = rf"^\s*(?:from|import|cimport)\s+{PACKAGE}\.(\w+)"
    assert {name for name in re.findall(pattern, text, re.M) if name not in allowed} == set()
    assert not re.search(r"^\s*include\s+[\"']", text, re.M), "a textual include; use cimport"
