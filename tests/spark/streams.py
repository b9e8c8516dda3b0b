"""What the tests of streams share: waiting, and starting on a machine that is busy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyspark.sql.streaming import StreamingQuery

from tests import waiting

T = TypeVar("T")

WAIT_S = 240
"""How long to wait for what comes within a second or two on an idle machine."""

TOO_SLOW = "Python worker failed to connect back"
"""How a query ends for which Spark's Python process has taken longer than ten seconds to start."""
_STARTING = ("Initializing sources", "Initializing StreamExecution")


def wait_for(condition: Callable[[], T], what: str, more: Callable[[], str] = str) -> T:
    """What the condition returns once it is true; ``more`` tells what was the case if it isn't in time."""
    return waiting.wait_for(condition, lambda: f"{what}\n{more()}", WAIT_S)


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query whose sources are there, or that has ended; started again where the machine was too busy for Spark."""
    for _ in range(8):
        query = start()
        wait_for(lambda it=query: not it.isActive or it.status["message"] not in _STARTING, "the query's sources")
        if query.isActive or TOO_SLOW not in str(query.exception()):
            break
    return query


def completed(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query that has ended by itself."""
    query = started(start)
    assert query.awaitTermination(WAIT_S), query.status
    return query
