"""A server and both clients for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.registry.client.server import AsyncCaller, Server, SyncCaller, serving

Caller = SyncCaller | AsyncCaller
NO_WAIT = {"retries.wait.ms": 0, "retries.max.wait.ms": 0}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as one:
        yield one


@pytest.fixture
def other_server() -> Iterator[Server]:
    with serving() as one:
        yield one


@pytest.fixture(params=[SyncCaller, AsyncCaller], ids=["sync", "asyncio"])
def connect(request: pytest.FixtureRequest, server: Server) -> Iterator[Callable[..., Caller]]:
    """Return a function that makes a client. Its arguments are properties."""
    callers: list[Caller] = []

    def make(conf: dict[str, Any] | None = None) -> Caller:
        callers.append(request.param({"url": server.url, **NO_WAIT, **(conf or {})}))
        return callers[-1]

    yield make
    for caller in callers:
        caller.close()
