"""A time window of records, by their timestamps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_native.spark.errors import PipelineError

if TYPE_CHECKING:
    from kafka_native.spark.pipelines.lanes import Lane

__all__ = ["TimeWindow"]

_PER_MS: Final = {"ms": 1, "us": 1000, "ns": 1_000_000}


@dataclass(frozen=True)
class TimeWindow:
    """Records from a time on and before another, in milliseconds since 1970; None: no limit."""

    start_ms: int | None = None
    end_ms: int | None = None

    def __post_init__(self) -> None:
        """Check the order of the limits."""
        if None not in (self.start_ms, self.end_ms) and self.start_ms > self.end_ms:  # type: ignore[operator]
            raise PipelineError(
                f"the time window starts at {self.start_ms} ms, after its end at {self.end_ms} ms"
            )

    def __bool__(self) -> bool:
        """Return whether there is a limit."""
        return self.start_ms is not None or self.end_ms is not None

    def check(self, lanes: Iterable[Lane]) -> None:
        """Check that the records have timestamps, and offsets to continue at.

        :raises PipelineError: A file has no column ``timestamp`` or no column ``offset``.
        """
        for lane in lanes:
            if self and not (lane.by_offset and "timestamp" in lane.columns):
                raise PipelineError(
                    f"{lane.pieces[0].path} has no columns timestamp, partition and offset: its "
                    "records can't be chosen by time"
                )

    def cut(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The records of a batch in the window. Those without a timestamp are left out."""
        if not self:
            return batch
        column = batch.column(batch.schema.get_field_index("timestamp"))
        unit = 1
        if pa.types.is_timestamp(column.type):
            if column.type.unit == "s":
                column = column.cast(pa.timestamp("ms", column.type.tz))
            unit = _PER_MS[column.type.unit]
            column = column.view(pa.int64())
        # A record without a timestamp has null, or -1 ms.
        mask = pc.greater_equal(column, max(self.start_ms or 0, 0) * unit)
        batch, column = batch.filter(mask), column.filter(mask)
        if self.end_ms is not None:
            batch = batch.filter(pc.less(column, self.end_ms * unit))
        return batch
