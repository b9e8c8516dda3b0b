"""What `delete_records()` tells."""

from __future__ import annotations


class DeletedRecords:
    """Where a partition begins now.

    :param low_watermark: Its first offset.
    """

    def __init__(self, low_watermark: int) -> None:
        """Make one; see the class for the arguments."""
        self.low_watermark = low_watermark
