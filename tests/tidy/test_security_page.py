"""SECURITY.md: each promise has tests, and they exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w./-]+)(?:::(\w+))?`")
PROMISES = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.split("## Promises")[1].split("## Limits")[0].splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| promise"))
]


def test_page_has_promises() -> None:
    assert len(PROMISES) > 20


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise[0][:60])
def test_promise_has_tests_that_exist(promise: list[str]) -> None:
    _, tests = promise
    named = NAMED.findall(tests)
    assert named, "name a test"
    assert not NAMED.sub("", tests).strip(), "nothing but tests"
    for path, name in named:
        assert (ROOT / path).exists(), path
        assert (
            re.search(rf"\bdef {name}\b|\bvoid {name}\b", (ROOT / path).read_text(encoding="utf-8"))
            or not name
        ), name
