"""Programs can be parsed even if a garbage collection runs finalizers meanwhile."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.syntax import parsed

SEEN: list[int] = []


class ParsesAtItsEnd:
    """An object in a cycle, so that only the garbage collector ends it."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        SEEN.append(len(ast.parse("a = 1").body))


@pytest.fixture
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("thresholds")
def test_no_collection_in_the_middle() -> None:
    text = Path(ast.__file__).read_text(encoding="utf-8")
    gc.collect()
    SEEN.clear()
    ParsesAtItsEnd()
    gc.set_threshold(100, 1, 1)
    tree, seen, collects = parsed(text), len(SEEN), gc.isenabled()
    assert tree.body
    assert seen == 0, "collected while parsing"
    assert collects
    gc.collect()
    assert SEEN == [1]


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        assert parsed("a = 1").body
        assert not gc.isenabled()
    finally:
        gc.enable()
