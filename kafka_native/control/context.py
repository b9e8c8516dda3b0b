"""What the managers of one client stand on: its engine, brokers and metadata, and the queue of the control thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_native.control.brokers.pool import BrokerPool
from kafka_native.control.metadata import Metadata

if TYPE_CHECKING:
    from kafka_native._native.engine import Engine


class WorkQueue:
    """Functions that other threads hand to the control thread."""

    def __init__(self, engine: Engine) -> None:
        """Empty. Each new function wakes the control thread that waits for ``engine``."""
        self._engine = engine
        self._work: deque[Callable[[], None]] = deque()

    def __len__(self) -> int:
        """How many functions wait."""
        return len(self._work)

    def post(self, work: Callable[[], None]) -> None:
        """Any thread: has the control thread call ``work``, some time soon."""
        self._work.append(work)
        self._engine.kick_control()

    def run_one(self) -> None:
        """Control thread: calls the function that waits longest."""
        self._work.popleft()()


@dataclass(frozen=True, slots=True)
class ManagerContext:
    """Handed to each manager that needs it, before there is a control thread."""

    engine: Engine
    pool: BrokerPool
    metadata: Metadata
    work: WorkQueue
