"""The README: its links work on PyPI, and it stays short."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
REPOSITORY = "https://github.com/kafka-native/kafka-native/blob/main/"
RAW = "https://raw.githubusercontent.com/kafka-native/kafka-native/main/"
LINKS = re.findall(r"\]\(([^)]+)\)", TEXT)


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) <= 120


def test_its_links_work_outside_of_the_repository() -> None:
    assert len(LINKS) > 30
    for link in LINKS:
        assert link.startswith((REPOSITORY, RAW)), link
        path = link.removeprefix(REPOSITORY).removeprefix(RAW).partition("#")[0]
        assert (ROOT / path).exists(), link
