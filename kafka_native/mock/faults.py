"""Misbehaviour on request: errors, delays, broken frames, corrupt records, missing topics.

Tests arm a fault, requests use it up. Everything is under a lock of its own, which is never held while anything else
is waited for.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

_Key = TypeVar("_Key")

CLOSE_CONNECTION = -195
"""A pushed "error code" that closes the connection instead of an answer: librdkafka's code for a broken transport."""


class Tamper(NamedTuple):
    """What happens to one response frame: cut off after so many bytes, or announced as larger than it is."""

    after_bytes: int | None = None
    announced_bytes: int | None = None


class _Armed:
    __slots__ = ("api_key", "count", "tamper")

    def __init__(self, api_key: int | None, count: int, tamper: Tamper) -> None:
        self.api_key = api_key
        self.count = count
        self.tamper = tamper


class Faults:
    """The armed faults of a cluster."""

    def __init__(self) -> None:
        """Nothing is armed."""
        self._lock = threading.Lock()
        self._errors: dict[tuple[int, int | None], deque[int]] = {}
        self._delays: dict[int, float] = {}
        self._throttles: dict[int, tuple[int, int]] = {}
        self._tampers: dict[int, list[_Armed]] = {}
        self._corrupt: dict[tuple[str, int], int] = {}
        self._hidden: dict[str, int] = {}

    def clear(self) -> None:
        """Disarm everything."""
        with self._lock:
            for armed in (self._errors, self._delays, self._throttles, self._tampers, self._corrupt, self._hidden):
                armed.clear()

    def push_errors(self, api_key: int, codes: Iterable[int], broker: int | None) -> None:
        """Queue one code for each of the next requests of an API."""
        with self._lock:
            self._errors.setdefault((api_key, broker), deque()).extend(int(code) for code in codes)

    def take_error(self, api_key: int, broker: int) -> int:
        """The code for this request, 0 for none. Codes for this broker go before those for any."""
        if not self._errors:
            return 0
        with self._lock:
            for key in ((api_key, broker), (api_key, None)):
                codes = self._errors.get(key)
                if codes:
                    code = codes.popleft()
                    if not codes:
                        del self._errors[key]
                    return code
        return 0

    def set_delay(self, broker: int, seconds: float) -> None:
        """Let every response of a broker wait so long, 0 for no longer."""
        with self._lock:
            if seconds > 0:
                self._delays[broker] = seconds
            else:
                self._delays.pop(broker, None)

    def delay(self, broker: int) -> float:
        """How long a response of this broker waits."""
        return self._delays.get(broker, 0.0) if self._delays else 0.0

    def throttle(self, broker: int, milliseconds: int, count: int) -> None:
        """Claim in the next responses of a broker that a quota was violated."""
        with self._lock:
            self._throttles[broker] = milliseconds, count

    def take_throttle(self, broker: int) -> int:
        """The throttle time of this response, in milliseconds."""
        if not self._throttles:
            return 0
        with self._lock:
            milliseconds, count = self._throttles.pop(broker, (0, 0))
            if count > 1:
                self._throttles[broker] = milliseconds, count - 1
            return milliseconds

    def tamper_with(self, broker: int, api_key: int | None, count: int, tamper: Tamper) -> None:
        """Break the next responses of a broker, of one API or of any."""
        with self._lock:
            self._tampers.setdefault(broker, []).append(_Armed(api_key, count, tamper))

    def take_tamper(self, broker: int, api_key: int) -> Tamper | None:
        """What to do to this response."""
        if not self._tampers:
            return None
        with self._lock:
            for armed in self._tampers.get(broker, ()):
                if armed.api_key is None or armed.api_key == api_key:
                    armed.count -= 1
                    if armed.count <= 0:
                        self._tampers[broker].remove(armed)
                    return armed.tamper
        return None

    def corrupt_fetch(self, topic: str, partition: int, count: int) -> None:
        """Flip a byte in the next answers with records of a partition."""
        with self._lock:
            self._corrupt[topic, partition] = count

    def take_corrupt(self, topic: str, partition: int) -> bool:
        """Whether these records get a wrong byte."""
        return bool(self._corrupt) and self._count_down(self._corrupt, (topic, partition))

    def hide_topic(self, topic: str, replies: int) -> None:
        """Leave a topic out of the next Metadata replies."""
        with self._lock:
            self._hidden[topic] = replies

    def take_hidden(self, topic: str) -> bool:
        """Whether this Metadata reply leaves the topic out."""
        return bool(self._hidden) and self._count_down(self._hidden, topic)

    def _count_down(self, armed: dict[_Key, int], key: _Key) -> bool:
        with self._lock:
            left = armed.pop(key, 0)
            if left > 1:
                armed[key] = left - 1
            return left > 0
