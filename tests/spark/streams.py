"""Common parts of the streams' tests: waits, and starts on a busy machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyspark.sql.streaming import StreamingQuery

from tests import waiting

T = TypeVar("T")

WAIT_S = 240
"""The timeout for events that take a second or two on an idle machine."""

TOO_SLOW = "Python worker failed to connect back"
"""The error of a query whose Python process took longer than ten seconds to start."""
_STARTING = ("Initializing sources", "Initializing StreamExecution")


def wait_for(condition: Callable[[], T], what: str, more: Callable[[], str] = str) -> T:
    """Return the condition's first true value. After the timeout ``more`` describes the state."""
    return waiting.wait_for(condition, lambda: f"{what}\n{more()}", WAIT_S)


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Return a query with its sources, or an ended one. Start it again if Spark was too slow."""
    for _ in range(8):
        query = start()
        wait_for(
            lambda it=query: not it.isActive or it.status["message"] not in _STARTING,
            "the query's sources",
        )
        if query.isActive or TOO_SLOW not in str(query.exception()):
            break
    return query


def completed(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Return a query that has ended by itself."""
    query = started(start)
    assert query.awaitTermination(WAIT_S), query.status
    return query
