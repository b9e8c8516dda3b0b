"""The columns of the source: their names, and Spark's names of their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["COLUMNS", "RANGE_COLUMNS"]

COLUMNS: Final[Mapping[str, str]] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
"""The source's columns with Spark's names of their types, as in Spark's own connector."""

RANGE_COLUMNS: Final[Mapping[str, str]] = {
    "topic": "string",
    "partition": "int",
    "start_offset": "bigint",
    "end_offset": "bigint",
    "topic_id": "string",
    "lost": "string",
}
"""The columns with ``rows=ranges``: one row for each range of offsets. ``end_offset`` is exclusive.

``topic_id`` is null if it is unknown. ``lost`` is null, or the reason why the range can't be read
any more (``failOnDataLoss=false``).
"""
