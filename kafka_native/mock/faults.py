"""Faults that tests order: errors, delays, invalid responses, corrupt records, missing topics.

A test arms a fault, and requests use it up. The faults have their own lock. No thread waits for
anything else while it holds this lock.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kafka_native.protocol import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_Key = TypeVar("_Key")

CLOSE_CONNECTION = -195
"""A pushed "error code" that closes the connection instead of an answer.

It is librdkafka's code for a broken transport.
"""

PARTITION_ERROR_APIS = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
    }
)
"""The APIs that can return an error for one topic or partition and execute the rest."""


class Pushed(NamedTuple):
    """One pushed error. With ``done`` the broker executes the request first."""

    code: int
    done: bool


class Tamper(NamedTuple):
    """A change to one response.

    - ``after_bytes``: the frame is cut off after this many bytes.
    - ``announced_bytes``: the frame announces this size.
    - ``other_correlation_id``: this number is added to the correlation id.
    - ``edit``: a function changes the fields.
    - ``rewrite``: a function rewrites the frame.
    """

    after_bytes: int | None = None
    announced_bytes: int | None = None
    other_correlation_id: int = 0
    edit: Callable[[Any], None] | None = None
    rewrite: Callable[[bytes], bytes] | None = None


class _Armed:
    __slots__ = ("api_key", "broker", "count", "tamper")

    def __init__(self, broker: int | None, api_key: int | None, count: int, tamper: Tamper) -> None:
        self.broker = broker
        self.api_key = api_key
        self.count = count
        self.tamper = tamper

    def matches(self, broker: int, api_key: int) -> bool:
        return self.broker in (None, broker) and self.api_key in (None, api_key)


class Faults:
    """The armed faults of a cluster."""

    def __init__(self) -> None:
        """Start without faults."""
        self._lock = threading.Lock()
        self._errors: dict[tuple[int, int | None, str | None, int | None], deque[Pushed]] = {}
        self._delays: dict[tuple[int | None, int | None], float] = {}
        self._throttles: dict[int | None, tuple[int, int]] = {}
        self._tampers: list[_Armed] = []
        self._corrupt: dict[tuple[str, int], int] = {}
        self._hidden: dict[str, int] = {}
        self._breaks: dict[tuple[str, int | None], deque[str]] = {}

    def clear(self) -> None:
        """Remove every armed fault."""
        with self._lock:
            self._tampers.clear()
            for armed in (
                self._errors,
                self._delays,
                self._throttles,
                self._corrupt,
                self._hidden,
                self._breaks,
            ):
                armed.clear()

    def push_errors(
        self,
        api_key: int,
        codes: Iterable[int],
        broker: int | None,
        topic: str | None,
        partition: int | None,
        done: bool,
    ) -> None:
        """Queue one code for each of the next requests of an API.

        With a topic or partition, each code is for the next request that names it.
        """
        pushed = [Pushed(int(code), done) for code in codes]
        with self._lock:
            self._errors.setdefault((api_key, broker, topic, partition), deque()).extend(pushed)

    def take_error(self, api_key: int, broker: int) -> Pushed | None:
        """Return the next error for a whole request. Errors for this broker come first."""
        return self._take([(api_key, broker, None, None), (api_key, None, None, None)])

    def take_topic_error(self, api_key: int, broker: int, topic: str) -> Pushed | None:
        """Return the next error for this topic as a whole."""
        return self._take([(api_key, broker, topic, None), (api_key, None, topic, None)])

    def take_partition_error(
        self, api_key: int, broker: int, topic: str, partition: int
    ) -> Pushed | None:
        """Return the next error for exactly this partition."""
        return self._take([(api_key, broker, topic, partition), (api_key, None, topic, partition)])

    def take_error_within(
        self, api_key: int, broker: int, topic: str, partition: int
    ) -> Pushed | None:
        """Return the next error for this partition.

        Its own errors come first, then those for any partition of the topic.
        """
        return self.take_partition_error(
            api_key, broker, topic, partition
        ) or self.take_topic_error(api_key, broker, topic)

    def _take(self, keys: list[tuple[int, int | None, str | None, int | None]]) -> Pushed | None:
        if not self._errors:
            return None
        with self._lock:
            for key in keys:
                waiting = self._errors.get(key)
                if waiting:
                    pushed = waiting.popleft()
                    if not waiting:
                        del self._errors[key]
                    return pushed
        return None

    def set_delay(self, broker: int | None, api_key: int | None, seconds: float) -> None:
        """Delay every response of a broker, of an API or of both. 0 seconds end the delay."""
        with self._lock:
            if seconds > 0:
                self._delays[broker, api_key] = seconds
            else:
                self._delays.pop((broker, api_key), None)

    def delay(self, broker: int, api_key: int) -> float:
        """Return the delay of this response in seconds. The most specific delay wins."""
        if not self._delays:
            return 0.0
        with self._lock:
            keys = ((broker, api_key), (None, api_key), (broker, None), (None, None))
            return next((self._delays[key] for key in keys if key in self._delays), 0.0)

    def throttle(self, broker: int | None, milliseconds: int, count: int) -> None:
        """Report a throttle time in the next responses of a broker, or of any."""
        with self._lock:
            self._throttles[broker] = milliseconds, count

    def take_throttle(self, broker: int) -> int:
        """Return the throttle time of this response in milliseconds."""
        if not self._throttles:
            return 0
        with self._lock:
            key = broker if broker in self._throttles else None
            milliseconds, count = self._throttles.pop(key, (0, 0))
            if count > 1:
                self._throttles[key] = milliseconds, count - 1
            return milliseconds

    def tamper_with(
        self, broker: int | None, api_key: int | None, count: int, tamper: Tamper
    ) -> None:
        """Change the next responses, of one broker and API or of any."""
        with self._lock:
            self._tampers.append(_Armed(broker, api_key, count, tamper))

    @property
    def has_tampers(self) -> bool:
        """Whether any change to a response is armed."""
        return bool(self._tampers)

    def take_tamper(self, broker: int, api_key: int) -> Tamper | None:
        """Return the change to this response, or None."""
        if not self._tampers:
            return None
        with self._lock:
            for armed in self._tampers:
                if armed.matches(broker, api_key):
                    armed.count -= 1
                    if armed.count <= 0:
                        self._tampers.remove(armed)
                    return armed.tamper
        return None

    def corrupt_fetch(self, topic: str, partition: int, count: int) -> None:
        """Flip a bit in the next responses with records of a partition."""
        with self._lock:
            self._corrupt[topic, partition] = count

    def take_corrupt(self, topic: str, partition: int) -> bool:
        """Return whether to flip a bit in these records."""
        return bool(self._corrupt) and self._count_down(self._corrupt, (topic, partition))

    def hide_topic(self, topic: str, replies: int) -> None:
        """Omit a topic from the next Metadata replies."""
        with self._lock:
            self._hidden[topic] = replies

    def take_hidden(self, topic: str) -> bool:
        """Return whether this Metadata reply omits the topic."""
        return bool(self._hidden) and self._count_down(self._hidden, topic)

    def arm_break(self, place: str, how: str, broker: int | None, count: int) -> None:
        """Break the next events of a kind, such as TLS handshakes or authentications."""
        with self._lock:
            self._breaks.setdefault((place, broker), deque()).extend([how] * count)

    def take_break(self, place: str, broker: int) -> str | None:
        """Return how to break this event, or None. Faults for this broker come first."""
        if not self._breaks:
            return None
        with self._lock:
            return next(
                (
                    armed.popleft()
                    for key in (broker, None)
                    if (armed := self._breaks.get((place, key)))
                ),
                None,
            )

    def _count_down(self, armed: dict[_Key, int], key: _Key) -> bool:
        with self._lock:
            left = armed.pop(key, 0)
            if left > 1:
                armed[key] = left - 1
            return left > 0
