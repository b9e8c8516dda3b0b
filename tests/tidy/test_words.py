"""Our files have no unfinished marks, and nothing about the machine on which they were written."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tidy import tree

TEXT_SUFFIXES = tree.SOURCE_SUFFIXES | {
    ".md",
    ".toml",
    ".in",
    ".cfg",
    ".yml",
    ".yaml",
    ".txt",
    ".xml",
}

LOOSE_ENDS = re.compile(r"\b(?:TODO|FIXME)\b")
MACHINE = re.compile(r"(?<![\w.$*)-])/(?:work|root|home/\w+|tmp/mvn)\b|\.\./shared\b")
REGISTRY = re.compile(
    r"\b(?:pypi\.org|files\.pythonhosted|repo1?\.maven\.apache|maven\.org|crates\.io)\b"
)

HERE = Path(__file__).resolve().relative_to(tree.ROOT)  # this file must name them
TEXTS = [
    path
    for path in tree.files()
    if (path.suffix in TEXT_SUFFIXES or path.name == "Makefile" or path.parts[0] == ".ci")
    and path != HERE
]


def found(pattern: re.Pattern[str]) -> str:
    """Return every line that matches the pattern, with its place."""
    return "\n".join(
        f"{path}:{number}: {line.strip()}"
        for path in TEXTS
        for number, line in enumerate(tree.text_of(path).splitlines(), 1)
        if pattern.search(line)
    )


def test_no_loose_ends() -> None:
    assert not found(LOOSE_ENDS)


def test_no_machine_paths() -> None:
    assert not found(MACHINE)


def test_no_registry_hosts() -> None:
    assert not found(REGISTRY)


def test_patterns_find_examples_and_nothing_else() -> None:
    assert LOOSE_ENDS.search("/* FIX" + "ME later */")
    assert MACHINE.search("see /work/main/x")
    assert not MACHINE.search("docs/work/x, $(BUILD)/work and network/root")
    assert REGISTRY.search("https://pypi.org/simple")
