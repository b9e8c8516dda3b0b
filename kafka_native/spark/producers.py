"""The producers of a Python worker: made once for each configuration, kept until the worker ends.

A worker runs one task at a time, and a task has its producer to itself, so what is outstanding in it is that task's. A
task ends with nothing outstanding; one that failed leaves no producer behind, because rows that its next attempt writes
again may still be queued in it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kafka_native import Producer
from kafka_native.spark.options import SinkOptions

__all__ = ["close_idle", "lent"]

_KEPT_MAX: Final = 4
"""Producers that a worker keeps; beyond that the one used longest ago is closed."""
_EXIT_FLUSH_S: Final = 5.0


class _Kept:
    """A producer, and what makes it fit for a task."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = dict(config)
        self.pid = os.getpid()
        self.producer = Producer(self.config)

    def close(self, flush_s: float) -> None:
        """Closes it; what isn't delivered by then is given up. In a child of the process that made it: nothing."""
        if self.pid == os.getpid():
            self.producer.close(flush_s)


_idle: list[_Kept] = []  # used longest ago first
_lock = (
    threading.Lock()
)  # guards _idle; a worker has one thread, a program that calls write_rows() itself may have more


@contextlib.contextmanager
def lent(options: SinkOptions) -> Iterator[Producer]:
    """A producer of this configuration for the length of a ``with`` block: an idle one of this worker, or a new one.

    The block has to end with everything delivered. If it raises, what is outstanding is given up, and the producer is
    closed.

    :raises KafkaException: The configuration can't be.
    """
    kept = _take(options.producer) or _Kept(options.producer)
    sound = False
    try:
        yield kept.producer
        sound = len(kept.producer) == 0 and kept.producer.fatal_error() is None
    finally:
        if sound:
            _give_back(kept)
        else:
            kept.close(0)


def close_idle(flush_s: float = 0) -> None:
    """Closes the producers that this worker keeps. Runs by itself when the interpreter ends.

    :param flush_s: Seconds that each may take to deliver what is queued.
    """
    while True:
        with _lock:
            kept = _idle.pop() if _idle else None
        if kept is None:
            return
        kept.close(flush_s)


def _take(config: Mapping[str, Any]) -> _Kept | None:
    with _lock:
        here = os.getpid()
        _idle[:] = [each for each in _idle if each.pid == here]  # a parent's threads didn't survive the fork
        for kept in reversed(_idle):
            if kept.config == config:
                _idle.remove(kept)
                return kept
    return None


def _give_back(kept: _Kept) -> None:
    with _lock:
        _idle.append(kept)
        surplus = [_idle.pop(0) for _ in range(len(_idle) - _KEPT_MAX)]
    for each in surplus:
        each.close(0)


def _after_fork_in_child() -> None:
    """The lock may have been held by a thread that the child doesn't have."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(close_idle, _EXIT_FLUSH_S)
