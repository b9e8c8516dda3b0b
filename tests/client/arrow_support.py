"""Compares columns with Messages: expected rows of `consume_arrow()` are made from `consume()`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kafka_native import Consumer, Message
from kafka_native.arrow import COLUMNS, ArrowRows
from tests.waiting import WAIT_S

ALL = tuple(COLUMNS)


def record_batch(batch: ArrowRows) -> pa.RecordBatch:
    """Return a batch in pyarrow, after pyarrow's full check of lengths, offsets and UTF-8."""
    found = pa.record_batch(batch)
    found.validate(full=True)
    assert found.num_rows == len(batch) == batch.num_rows
    assert found.schema.names == batch.column_names
    assert pa.schema(batch).equals(found.schema)
    return found


def rows(batch: ArrowRows) -> list[dict[str, Any]]:
    """Return a dict for each row, with times as numbers."""
    found = record_batch(batch)
    for number, field in enumerate(found.schema):
        if pa.types.is_timestamp(field.type):
            found = found.set_column(number, field.name, found.column(number).cast(pa.int64()))
    return found.to_pylist()


def offsets(*batches: ArrowRows) -> list[int]:
    return [row["offset"] for batch in batches for row in rows(batch)]


def row_of(message: Message) -> dict[str, Any]:
    """Return the expected row of a record."""
    kind, timestamp = message.timestamp()
    headers = message.headers()
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": None if kind == 0 or timestamp == -1 else timestamp,
        "timestamp_type": None if kind == 0 else kind - 1,
        "key": message.key(),
        "value": message.value(),
        "headers": None
        if not headers
        else [{"key": key, "value": value} for key, value in headers],
        "leader_epoch": message.leader_epoch(),
        "delivery_count": message.delivery_count(),
    }


def collect(consumer: Consumer, count: int, **more: Any) -> list[dict[str, Any]]:
    """Return ``count`` rows, from as many batches as needed."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        batch = consumer.consume_arrow(count - len(found), WAIT_S, **more)
        assert len(batch) > 0, f"{len(found)} of {count} in {WAIT_S} s"
        found += rows(batch)
    return found


def by_place(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort rows by partition and offset."""
    return sorted(found, key=lambda row: (row["topic"], row["partition"], row["offset"]))
