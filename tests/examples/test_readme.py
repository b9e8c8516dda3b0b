"""The README: its programs run, its links work on PyPI, and it stays short."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
REPOSITORY = "https://github.com/kafka-native/kafka-native/blob/main/"
RAW = "https://raw.githubusercontent.com/kafka-native/kafka-native/main/"
PROGRAMS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
LINKS = re.findall(r"\]\(([^)]+)\)", TEXT)


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) <= 120


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_its_programs_run_as_they_stand(program: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "b'hello'\n"), done.stderr


def test_its_links_work_outside_of_the_repository() -> None:
    assert len(LINKS) > 30
    for link in LINKS:
        assert link.startswith((REPOSITORY, RAW)), link
        path = link.removeprefix(REPOSITORY).removeprefix(RAW).partition("#")[0]
        assert (ROOT / path).exists(), link
