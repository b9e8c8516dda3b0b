"""What the producers of other clients share, for the process of a run."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from functools import partial
from typing import Any

WAITING_MAX = 10_000
"""So many messages may have no report. Then produce() raises BufferError."""
OnDelivery = Callable[[Any, Any], None]


class Written:
    """The message of a report: only its offset is known."""

    def __init__(self, offset: int | None) -> None:
        self._offset = offset

    def offset(self) -> int | None:
        """Return the offset, or None after an error."""
        return self._offset


class PeerProducer:
    """The reports of another client's producer, as `poll()` and `flush()` of ours have them."""

    def __init__(self) -> None:
        self._reports: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._waiting = 0

    def _begin(self) -> None:
        """Count a message. Raise BufferError if too many have no report."""
        if self._waiting >= WAITING_MAX:
            raise BufferError("too many messages without a report")
        self._waiting += 1

    def _report(self, on_delivery: OnDelivery, error: object, offset: int | None) -> None:
        """Queue the report of a message. Any thread may call it."""
        self._reports.put(partial(on_delivery, error, Written(offset)))

    def poll(self, timeout: float = 0) -> int:
        """Call the callbacks of the reports that are there. Wait for the first one."""
        count = 0
        while True:
            try:
                report = self._reports.get(timeout=timeout) if timeout else self._reports.get(False)
            except queue.Empty:
                return count
            report()
            self._waiting -= 1
            count, timeout = count + 1, 0

    def flush(self, timeout: float) -> int:
        """Wait for the reports. Return the number of those that didn't come."""
        deadline = time.monotonic() + timeout
        while self._waiting and time.monotonic() < deadline:
            self.poll(0.1)
        return self._waiting
