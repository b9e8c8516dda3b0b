"""The columns of a lake's files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from kafka_native.spark.column_types import HEADERS

__all__ = ["COLUMNS", "NAMES", "SCHEMA"]

COLUMNS: Final = ("partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
"""The source's columns in a lake, in the order of `SCHEMA`. The folder's name has the topic."""

NAMES: Final[Mapping[str, str]] = {"timestampType": "timestamp_type"}
"""The names in a lake of those source columns that have another one there."""

SCHEMA: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestamp_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
"""The columns of files whose keys and values aren't decoded."""
