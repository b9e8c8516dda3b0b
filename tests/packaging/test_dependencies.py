"""docs/DEPENDENCIES.md explains each lowest version of pyproject.toml."""

from __future__ import annotations

import re

import pytest

from tests.packaging.requirements import PYPROJECT, read

PAGE = PYPROJECT.parent / "docs" / "DEPENDENCIES.md"
MAKEFILE = PYPROJECT.parent / "Makefile"
ROW = re.compile(r"^\| ([A-Za-z0-9_-]+) \| ([0-9][0-9.]*) \| ([^|]+) \| ([^|]+) \|$", re.M)
FLOORS = {(one.name, one.version) for one in read() if one.operator == ">="}


def test_every_requirement_is_read() -> None:
    text = PYPROJECT.read_text(encoding="utf-8")
    quoted = [
        one
        for one in re.findall(r'"([^"\n]+)"', text)
        if re.search(r"[A-Za-z0-9\]](?:>=|==|~=|<|!=)[0-9]", one)
    ]
    assert len(quoted) == len(read())
    assert {one.operator for one in read()} == {">=", "=="}, (
        "each has a lowest version, or one exact version"
    )


def test_each_lowest_version_has_its_reason() -> None:
    assert {
        (name, version) for name, version, _, _ in ROW.findall(PAGE.read_text(encoding="utf-8"))
    } == FLOORS


def test_a_package_has_one_lowest_version() -> None:
    names = [name for name, _ in FLOORS]
    assert sorted(names) == sorted(set(names))


def test_make_installs_nothing_older() -> None:
    named = re.findall(r"'([A-Za-z0-9_-]+)>=([0-9.]+)'", MAKEFILE.read_text(encoding="utf-8"))
    assert named
    assert [one for one in named if one not in FLOORS] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '["a>=1", "b[x,y]==2.0b1", "kafka-native[z]"] # c>=9',
            [("a", ">=", "1"), ("b", "==", "2.0b1")],
        ),
        ('[\n    "a",\n    # "b>=1",\n    "c==4.2.*",\n]', [("a", "", ""), ("c", "==", "4.2.*")]),
    ],
)
def test_reader_finds_the_requirements_of_pyproject(
    text: str, expected: list[tuple[str, str, str]]
) -> None:
    sections = (
        f"[build-system]\n[project]\ndependencies = {text}\n[project.optional-dependencies]\n[x]\n"
    )
    assert [(one.name, one.operator, one.version) for one in read(sections)] == expected
