"""Caches of limited size, and requests that several callers share."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from kafka_native.schema_registry.forks import ForkAware

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(ForkAware, Generic[K, V]):
    """A thread-safe cache that drops what was used least recently.

    Parameters
    ----------
    capacity : int
        The maximum number of entries. 0 stores nothing.
    ttl_s : float, optional
        How long an entry is valid, in seconds. None means forever.
    clock : callable, optional
        Returns the time in seconds.
    """

    def __init__(
        self,
        capacity: int,
        ttl_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._capacity = capacity
        self._ttl_s = ttl_s
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def reset_after_fork(self) -> None:
        """Replace the lock, which another thread of the parent may have held."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the value of a key. None if the cache has none, or if it is too old."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if self._ttl_s is not None and self._clock() - entry[0] >= self._ttl_s:
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return entry[1]

    def put(self, key: K, value: V) -> None:
        """Store a value. A full cache drops its oldest entry."""
        with self._lock:
            self._entries[key] = (self._clock(), value)
            self._entries.move_to_end(key)
            while len(self._entries) > self._capacity:
                self._entries.popitem(last=False)

    def remove_if(self, unwanted: Callable[[K], bool]) -> None:
        """Remove the entries whose key matches."""
        with self._lock:
            for key in [key for key in self._entries if unwanted(key)]:
                del self._entries[key]

    def clear(self) -> None:
        """Remove every entry of this cache."""
        with self._lock:
            self._entries.clear()


class SharedRequests(ForkAware):
    """The requests in flight. Callers with equal requests share one."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._futures: dict[Hashable, Future[Any]] = {}

    def reset_after_fork(self) -> None:
        """Forget the requests in flight: only the parent gets their answers."""
        self._lock = threading.Lock()
        self._futures = {}

    def join(self, key: Hashable) -> tuple[Future[Any], bool]:
        """Return the request's future, and whether the caller has to send the request."""
        with self._lock:
            future = self._futures.get(key)
            if future is not None:
                return future, False
            future = self._futures[key] = Future()
            # A running future ignores cancel(). So a waiting task that is cancelled doesn't take
            # the others' request with it.
            future.set_running_or_notify_cancel()
            return future, True

    def leave(self, key: Hashable) -> None:
        """Let the next caller send the request again. Call it before the future has its result."""
        with self._lock:
            del self._futures[key]
