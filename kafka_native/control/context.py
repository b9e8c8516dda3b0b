"""What all managers of one client share: its engine, brokers, metadata and work queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kafka_native.control.brokers.pool import BrokerPool
from kafka_native.control.metadata import Metadata

if TYPE_CHECKING:
    from kafka_native._native.engine import Engine


class WorkQueue:
    """Functions that other threads queue for the control thread."""

    def __init__(self, engine: Engine) -> None:
        """Creates an empty queue. Each new function wakes the control thread of ``engine``."""
        self._engine = engine
        self._work: deque[Callable[[], None]] = deque()

    def __len__(self) -> int:
        """The number of queued functions."""
        return len(self._work)

    def post(self, work: Callable[[], None]) -> None:
        """Queues ``work`` for the control thread and wakes it. Any thread may call this."""
        self._work.append(work)
        self._engine.kick_control()

    def run_one(self) -> None:
        """Calls the oldest queued function. Control thread only."""
        self._work.popleft()()


class ManagerContext(NamedTuple):
    """What a manager needs from its client. It exists before the control thread starts."""

    engine: Engine
    pool: BrokerPool
    metadata: Metadata
    work: WorkQueue
