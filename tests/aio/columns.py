"""Columns for the tests of Arrow calls, and a task that notices a blocked loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow


def values(batch: Any, column: str = "value") -> list[Any]:
    """Return a column of a batch."""
    found: list[Any] = pyarrow.record_batch(batch)[column].to_pylist()
    return found


def numbers(start: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, end)]


def table(count: int) -> pyarrow.Table:
    return pyarrow.table({"value": numbers(0, count)})


class Ticks:
    """Counts how often a task ran."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(0.001)
            self.count += 1
