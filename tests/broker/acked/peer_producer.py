"""What the producers of other clients share, for the process of a run."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

WAITING_MAX = 10_000
"""So many messages may have no report. Then produce() raises BufferError."""


class Written:
    """The message of a report: only its offset is known."""

    def __init__(self, offset: int | None) -> None:
        self._offset = offset

    def offset(self) -> int | None:
        """Return the offset, or None after an error."""
        return self._offset


class PeerProducer(ABC):
    """A producer of another client, with the calls of ours. Its reports come from `poll()`."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of messages without a report."""

    @abstractmethod
    def poll(self, timeout: float = 0) -> int:
        """Call the callbacks of the reports that are there. Wait for the first one."""

    def flush(self, timeout: float) -> int:
        """Wait for the reports. Return the number of those that didn't come."""
        deadline = time.monotonic() + timeout
        while len(self) and time.monotonic() < deadline:
            self.poll(0.1)
        return len(self)
