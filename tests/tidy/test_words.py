"""What no file of ours says: loose ends, and where or how it was written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tidy import tree

TEXT_SUFFIXES = tree.SOURCE_SUFFIXES | {".md", ".toml", ".in", ".cfg", ".yml", ".yaml", ".txt", ".xml", ""}

LOOSE_ENDS = re.compile(r"\b(?:TODO|FIXME)\b")
MACHINE = re.compile(r"(?<![\w.$*)-])/(?:work|root|home/\w+|tmp/mvn)\b|\.\./shared\b")
REGISTRY = re.compile(r"\b(?:pypi\.org|files\.pythonhosted|repo1?\.maven\.apache|maven\.org|crates\.io)\b")

HERE = Path(__file__).resolve().relative_to(tree.ROOT)  # the one file that has to name them
TEXTS = [path for path in tree.files() if path.suffix in TEXT_SUFFIXES and path.name != "LICENSE" and path != HERE]


def found(pattern: re.Pattern[str], path: Path) -> list[str]:
    lines = tree.text_of(path).splitlines()
    return [f"{path}:{number}: {line.strip()}" for number, line in enumerate(lines, 1) if pattern.search(line)]


@pytest.mark.parametrize("path", TEXTS, ids=str)
def test_no_loose_ends(path: Path) -> None:
    assert found(LOOSE_ENDS, path) == []


@pytest.mark.parametrize("path", TEXTS, ids=str)
def test_no_machine_paths(path: Path) -> None:
    assert found(MACHINE, path) == []


@pytest.mark.parametrize("path", TEXTS, ids=str)
def test_no_registry_hosts(path: Path) -> None:
    assert found(REGISTRY, path) == []


def test_patterns_find_what_they_mean() -> None:
    assert LOOSE_ENDS.search("/* FIX" + "ME later */")
    assert MACHINE.search("see /work/main/x")
    assert not MACHINE.search("docs/work/x, $(BUILD)/work and network/root")
    assert REGISTRY.search("https://pypi.org/simple")
