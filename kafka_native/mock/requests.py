"""The requests that the brokers have read."""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple

_REQUESTS_MAX = 100_000
_CLIENT_ID_MAX = 256
_CHECK_INTERVAL_S = 0.002


class SeenRequest(NamedTuple):
    """A request that a broker read. ``time`` is the ``time.monotonic()`` of that moment."""

    broker: int
    api_key: int
    version: int
    correlation_id: int
    client_id: str
    time: float


class RequestLog:
    """The last 100,000 requests, oldest first. No method needs the cluster's lock."""

    def __init__(self) -> None:
        self._requests: deque[SeenRequest] = deque(maxlen=_REQUESTS_MAX)

    def add(
        self, broker: int, api_key: int, version: int, correlation_id: int, client_id: str
    ) -> None:
        """Add a request that arrives now."""
        client_id = client_id[:_CLIENT_ID_MAX]
        self._requests.append(
            SeenRequest(broker, api_key, version, correlation_id, client_id, time.monotonic())
        )

    def all(self) -> list[SeenRequest]:
        """Return all logged requests."""
        return list(self._requests)

    def of(self, api_key: int, broker: int | None) -> list[SeenRequest]:
        """Return the requests of one API, to one broker or to any."""
        return [
            seen for seen in self.all() if seen.api_key == api_key and broker in (None, seen.broker)
        ]

    def wait_for(
        self, api_key: int, count: int, broker: int | None, timeout_s: float
    ) -> list[SeenRequest]:
        """Wait for ``count`` requests of an API, and return them. Raises ``TimeoutError``."""
        deadline = time.monotonic() + timeout_s
        while len(found := self.of(api_key, broker)) < count:
            if time.monotonic() >= deadline:
                raise TimeoutError(
                    f"{len(found)} of {count} requests of API {api_key} came within {timeout_s} s"
                )
            time.sleep(_CHECK_INTERVAL_S)
        return found

    def clear(self) -> None:
        """Remove all requests from the log."""
        self._requests.clear()
