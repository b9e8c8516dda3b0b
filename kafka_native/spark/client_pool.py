"""The clients of a Python worker: made once for each configuration, kept for as long as the worker lives.

With ``spark.python.worker.reuse`` the next task of the same configuration finds its client connected. A worker runs one
task at a time, and a task has its client to itself; a fork leaves all of them to the parent.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pyspark import TaskContext

from kafka_native import Consumer, Producer

__all__ = ["Kept", "Pool", "admitted", "settle"]

C = TypeVar("C")
A = TypeVar("A", Consumer, Producer)

_ADMISSION_S: Final = 10.0

_KEPT_MAX: Final = 4
"""Clients that are kept; beyond that the one used longest ago is closed."""


_settled = 0
"""How many modules there were when garbage collection was last told to leave alone what there is."""


def settle() -> None:
    """At the end of a task: what the worker has imported is left out of garbage collection from now on.

    PySpark collects garbage after each task, before the worker takes the next one, and went through every module each
    time: 20 to 90 ms, several times what a small task takes. It is done again only where a task has imported more.
    """
    global _settled
    if len(sys.modules) > _settled and TaskContext.get() is not None:
        _settled = len(sys.modules)
        gc.collect()  # so that no garbage stays for good
        gc.freeze()


@dataclass(frozen=True)
class Kept(Generic[C]):
    """An idle client, and its configuration."""

    config: Mapping[str, Any]
    client: C


def admitted(client: A) -> A:
    """A new client, once a broker has let it in; brokers that can't be reached are for its calls to wait for.

    Calls wait for a wrong password, too, for as long as they may, as a broker may come up that knows it. A task that is
    tried again, by a query that is, is told at once.

    :raises KafkaException: TLS or SASL has failed (_SSL, _AUTHENTICATION); the client is closed.
    """
    try:
        client._client.await_admission(_ADMISSION_S)
    except BaseException:
        client.close()
        raise
    return client


class Pool(Generic[C]):
    """Clients of one kind."""

    def __init__(
        self, make: Callable[[dict[str, Any]], C], is_fit: Callable[[C], bool], close: Callable[[C, float], object]
    ) -> None:
        """``is_fit``: whether a client can be kept after its task; ``close``: within so many seconds."""
        self._make = make
        self._is_fit = is_fit
        self._close = close
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """In a child: the clients' threads didn't survive the fork, and who held the lock may not be there."""
        self.idle: list[Kept[C]] = []  # used longest ago first
        self._lock = threading.Lock()  # guards idle; a worker has one thread, other programs may have more

    @contextlib.contextmanager
    def lent(self, config: Mapping[str, Any]) -> Iterator[C]:
        """A client of this configuration for the length of a ``with`` block: an idle one, or a new one.

        It is kept if the block doesn't raise and leaves it fit, and else closed at once.

        :raises KafkaException: The configuration can't be.
        """
        pid = os.getpid()
        kept = self._take(config) or Kept(config, self._make(dict(config)))
        is_fit = False
        try:
            yield kept.client
            is_fit = pid == os.getpid() and self._is_fit(kept.client)
        finally:
            if is_fit:
                self._give_back(kept)
            elif pid == os.getpid():
                self._close(kept.client, 0)

    def close_idle(self, timeout_s: float = 0) -> None:
        """Closes the clients that are kept.

        :param timeout_s: Seconds that a producer may take to deliver what is queued.
        """
        while True:
            with self._lock:
                kept = self.idle.pop() if self.idle else None
            if kept is None:
                return
            self._close(kept.client, timeout_s)

    def _take(self, config: Mapping[str, Any]) -> Kept[C] | None:
        with self._lock:
            for kept in reversed(self.idle):
                if kept.config == config:
                    self.idle.remove(kept)
                    return kept
        return None

    def _give_back(self, kept: Kept[C]) -> None:
        with self._lock:
            self.idle.append(kept)
            surplus = [self.idle.pop(0) for _ in range(len(self.idle) - _KEPT_MAX)]
        for each in surplus:
            self._close(each.client, 0)
