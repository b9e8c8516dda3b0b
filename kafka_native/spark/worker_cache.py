"""Objects that a Python worker keeps for its next tasks. A forked process starts without them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["WorkerCache"]

K = TypeVar("K")
V = TypeVar("V")


class WorkerCache(Generic[K, V]):
    """The newest objects by their keys. Keys need to be equal, not hashable."""

    def __init__(self, size_max: int, close: Callable[[V], object] = lambda value: None) -> None:
        """``close`` closes an object that leaves the cache."""
        self._size_max = size_max
        self._close = close
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Forget the objects in a forked child: their connections belong to the parent.

        The lock may be held by a thread that doesn't exist there.
        """
        self._kept: list[tuple[K, V]] = []  # the oldest first
        self._lock = threading.Lock()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the object of a key. `make` makes it, while other threads wait for the cache."""
        with self._lock:
            for known, value in self._kept:
                if known == key:
                    return value
            value = make()
            while len(self._kept) >= self._size_max:
                self._close(self._kept.pop(0)[1])
            self._kept.append((key, value))
            return value

    def clear(self) -> None:
        """Close all objects, while no task uses them."""
        with self._lock:
            for _, value in self._kept:
                self._close(value)
            self._kept.clear()
