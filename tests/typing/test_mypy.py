"""mypy finds the mistakes of a typed program, at least as many as with confluent_kafka."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MISTAKES, CORRECT = HERE / "mistakes.py", HERE / "correct.py"
MARK = re.compile(r"# mistake( here)?$")
ERROR = re.compile(r"(.+?):(\d+): error: .*")


def marked(*, here: bool) -> set[int]:
    """Return the numbers of the lines with this mark."""
    lines = MISTAKES.read_text().splitlines()
    found = {number: MARK.search(line) for number, line in enumerate(lines, 1)}
    return {number for number, mark in found.items() if mark and bool(mark[1]) == here}


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[int]]:
    """Return the lines with errors of each program, from one run of mypy."""
    other = tmp_path_factory.mktemp("programs") / "with_confluent_kafka.py"
    other.write_text(MISTAKES.read_text().replace("from kafka_native", "from confluent_kafka"))
    programs = [MISTAKES, CORRECT, other]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--show-absolute-path", *programs],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    found: dict[str, set[int]] = {program.name: set() for program in programs}
    for line in run.stdout.splitlines():
        if match := ERROR.fullmatch(line):
            found[Path(match[1]).name].add(int(match[2]))
    assert run.returncode == 1, run.stdout + run.stderr
    return found


def test_mypy_finds_every_mistake_and_nothing_else(errors: dict[str, set[int]]) -> None:
    assert errors[MISTAKES.name] == marked(here=False) | marked(here=True)


def test_mypy_accepts_a_correct_program(errors: dict[str, set[int]]) -> None:
    assert errors[CORRECT.name] == set()


def test_types_are_at_least_as_strict_as_confluent_kafkas(errors: dict[str, set[int]]) -> None:
    theirs = errors["with_confluent_kafka.py"] & (marked(here=False) | marked(here=True))
    assert marked(here=False) <= theirs  # the marks are true
    assert theirs <= errors[MISTAKES.name]
    assert len(marked(here=False)) > 80
