"""What the producers of other clients report, for the process of a run."""

from __future__ import annotations

WAITING_MAX = 10_000
"""So many messages may have no report. Then produce() raises BufferError."""


class Written:
    """The message of a report: only its offset is known."""

    def __init__(self, offset: int | None) -> None:
        self._offset = offset

    def offset(self) -> int | None:
        """Return the offset, or None after an error."""
        return self._offset
