"""`import kafka_native` is quick: names are imported on first access, features when they are used."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import kafka_native


def declared() -> dict[str, str]:
    """The modules of the names that the package declares for type checkers."""
    tree = ast.parse(Path(kafka_native.__file__).read_text())
    return {
        alias.name: str(node.module)
        for block in ast.walk(tree)
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_type_checkers_see_the_names_of_the_package() -> None:
    assert sorted(declared()) == sorted(kafka_native.__all__)


@pytest.mark.parametrize("name", kafka_native.__all__)
def test_a_name_is_the_one_that_type_checkers_see(name: str) -> None:
    assert getattr(kafka_native, name) is getattr(importlib.import_module(declared()[name]), name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Prodcuer'"):
        _ = kafka_native.Prodcuer  # type: ignore[attr-defined]


def modules_after(code: str) -> set[str]:
    """The modules of a new interpreter that has run this code."""
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(shown.stdout.split())


def test_the_package_alone_imports_none_of_its_modules() -> None:
    before = modules_after("import importlib, typing")
    before |= {"_interpreters", "_xxsubinterpreters"}  # of the standard library, and small
    assert modules_after("import kafka_native") - before == {"kafka_native"}


@pytest.mark.parametrize(
    ("name", "unwanted"),
    [
        ("Producer", ["consumer", "control.consumer", "control.group", "control.assignors"]),
        ("Consumer", ["producer", "control.producer"]),
    ],
)
def test_a_client_imports_neither_other_clients_nor_features_of_few(
    name: str, unwanted: list[str]
) -> None:
    found = modules_after(f"from kafka_native import {name}")
    rare = ["admin", "codecs", "control.operations", "control.telemetry", "statistics"]
    prefixes = tuple(f"kafka_native.{each}" for each in [*unwanted, *rare])
    assert [
        each for each in sorted(found) if f"{each}.".startswith(tuple(f"{p}." for p in prefixes))
    ] == []
    assert not found & {"asyncio", "html", "json", "OpenSSL", "pyarrow", "ssl"}
