"""`import kafka_native` is quick: names are imported on first access, features when they are used."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import kafka_native
from kafka_native import aio, codecs

PACKAGES = [kafka_native, aio, codecs]


def declared(package: ModuleType) -> dict[str, str]:
    """The modules of the names that a package declares for type checkers."""
    tree = ast.parse(Path(str(package.__file__)).read_text())
    return {
        alias.name: str(node.module)
        for block in ast.walk(tree)
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_see_the_names_of_the_package(package: ModuleType) -> None:
    modules = declared(package)
    assert sorted(modules) == sorted(package.__all__)
    for name, module in modules.items():
        assert getattr(package, name) is getattr(importlib.import_module(module), name)
    assert {*package.__all__} <= {*dir(package)}


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_is_an_attribute_error(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Prodcuer'"):
        _ = package.Prodcuer


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
        ("aio.AIOProducer", ["consumer", "share_consumer", "aio._converting", "aio._admin"]),
        ("aio.AIOConsumer", ["producer", "share_consumer", "aio._converting", "aio._admin"]),
    ],
)
def test_a_client_imports_neither_other_clients_nor_features_of_few(
    name: str, unwanted: list[str]
) -> None:
    package, _, client = f"kafka_native.{name}".rpartition(".")
    found = modules_after(f"from {package} import {client}")
    rare = ["admin", "codecs", "control.operations", "control.telemetry", "statistics"]
    prefixes = tuple(f"kafka_native.{each}" for each in [*unwanted, *rare])
    assert [
        each for each in sorted(found) if f"{each}.".startswith(tuple(f"{p}." for p in prefixes))
    ] == []
    slow = {"html", "json", "OpenSSL", "pyarrow", "typing_extensions"}
    if package == "kafka_native":
        slow |= {"asyncio", "ssl"}  # asyncio imports ssl
    assert not found & slow
