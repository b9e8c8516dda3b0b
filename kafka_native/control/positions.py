"""Where in a partition: an offset, the leader epoch it belongs to, and what is kept with it."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from kafka_native.config import duration_ms
from kafka_native.types import OFFSET_INVALID, TopicPartition

Key: TypeAlias = tuple[str, int]
"""Topic and partition."""

NO_EPOCH = -1

CLIENT_REPLICA = -1
"""The replica id under which clients, which are none, ask a leader."""

EARLIEST = -2
LATEST = -1
OFFSET_TAIL_BASE = -2000
"""OFFSET_TAIL_BASE - n: n messages before the end (librdkafka's RD_KAFKA_OFFSET_TAIL)."""


class OffsetPosition(NamedTuple):
    """An offset; the leader epoch of the record before it, -1 where that isn't known; a committed offset's metadata."""

    offset: int
    epoch: int = NO_EPOCH
    metadata: str | None = None


NO_POSITION = OffsetPosition(OFFSET_INVALID)


def position_of(partition: TopicPartition) -> OffsetPosition:
    """What the application says of a partition, as a position."""
    epoch = partition.leader_epoch
    return OffsetPosition(partition.offset, NO_EPOCH if epoch is None else epoch, partition.metadata)


class Ago(NamedTuple):
    """auto.offset.reset=by_duration: start at the first message that is younger than this (KIP-1106)."""

    ms: int


Reset: TypeAlias = "int | Ago | None"
"""auto.offset.reset: EARLIEST, LATEST, so long ago, or None: an error."""


def reset_of(text: str) -> Reset:
    """From the value of auto.offset.reset."""
    kind, _, duration = text.partition(":")
    if kind == "by_duration":
        ms = duration_ms(duration)
        if ms is None:
            raise ValueError(f"{duration!r} is no duration")
        return Ago(ms)
    return {"earliest": EARLIEST, "latest": LATEST, "error": None}[kind]
