"""A pool of clients in a Python worker: one for each configuration, until the worker ends.

With ``spark.python.worker.reuse`` the next task with the same configuration gets a connected
client. A worker runs one task at a time, and a task has its clients for itself. After a fork, the
clients stay with the parent.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from pyspark import TaskContext

from kafka_native import Consumer, Producer
from kafka_native.internal import await_admission

__all__ = ["IdleClient", "Pool", "admitted", "freeze_imports"]

C = TypeVar("C")
A = TypeVar("A", Consumer, Producer)

_ADMISSION_S: Final = 10.0

_IDLE_MAX: Final = 4
"""The largest number of idle clients. Beyond it the least recently used one is closed."""


_frozen_modules = 0
"""The number of imported modules at the last ``gc.freeze()``."""


def freeze_imports() -> None:
    """Exclude the imported modules from garbage collection. Call it at the end of a task.

    PySpark collects garbage after each task, before the worker takes the next one. Without this it
    scans all modules each time: 20 to 90 ms, several times as long as a small task. A later call
    only acts if a task has imported more modules.
    """
    global _frozen_modules
    if len(sys.modules) > _frozen_modules and TaskContext.get() is not None:
        _frozen_modules = len(sys.modules)
        gc.collect()  # objects frozen below are never collected
        gc.freeze()


@dataclass(frozen=True)
class IdleClient(Generic[C]):
    """An idle client, and its configuration."""

    config: Mapping[str, object]
    client: C


def admitted(client: A) -> A:
    """Wait until a broker accepts a new client, or all brokers are down, 10 s at most.

    A client's own calls retry after a wrong password, because another broker may accept it. A
    task reports it at once: Spark retries the task anyway.

    :raises KafkaException: TLS or SASL failed (_SSL, _AUTHENTICATION). The client is closed.
    """
    try:
        await_admission(client, _ADMISSION_S)
    except BaseException:
        client.close()
        raise
    return client


class Pool(Generic[C]):
    """A pool of idle clients of one kind."""

    def __init__(
        self,
        make: Callable[[dict[str, object]], C],
        is_reusable: Callable[[C], bool],
        close: Callable[[C, float], object],
    ) -> None:
        """``is_reusable``: whether to keep a client; ``close``: close within this many seconds."""
        self._make = make
        self._is_reusable = is_reusable
        self._close = close
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Forget the clients in a forked child: their threads don't exist there.

        The lock may be held by a thread that doesn't exist, either.
        """
        self.idle: list[IdleClient[C]] = []  # the least recently used one first
        # Guards idle. A worker has one thread, other programs may have more.
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def borrowed(self, config: Mapping[str, object]) -> Iterator[C]:
        """Borrow a client for a ``with`` block: an idle one with this configuration, or a new one.

        After the block the client is kept if the block didn't raise and `is_reusable` returns True.
        Otherwise it is closed at once.

        :raises KafkaException: The configuration is invalid.
        """
        pid = os.getpid()
        kept = self._take(config) or IdleClient(config, self._make(dict(config)))
        is_reusable = False
        try:
            yield kept.client
            is_reusable = pid == os.getpid() and self._is_reusable(kept.client)
        finally:
            if is_reusable:
                self._return(kept)
            elif pid == os.getpid():
                self._close(kept.client, 0)

    def close_idle(self, timeout_s: float = 0) -> None:
        """Close the idle clients.

        :param timeout_s: Seconds for a producer to deliver queued messages.
        """
        while True:
            with self._lock:
                kept = self.idle.pop() if self.idle else None
            if kept is None:
                return
            self._close(kept.client, timeout_s)

    def _take(self, config: Mapping[str, object]) -> IdleClient[C] | None:
        with self._lock:
            for kept in reversed(self.idle):
                if kept.config == config:
                    self.idle.remove(kept)
                    return kept
        return None

    def _return(self, kept: IdleClient[C]) -> None:
        with self._lock:
            self.idle.append(kept)
            surplus = [self.idle.pop(0) for _ in range(len(self.idle) - _IDLE_MAX)]
        for each in surplus:
            self._close(each.client, 0)
