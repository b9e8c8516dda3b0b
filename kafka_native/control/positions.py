"""Positions in a partition: an offset, its leader epoch and its metadata."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from kafka_native.config import duration_ms
from kafka_native.types import OFFSET_INVALID, TopicPartition

Key: TypeAlias = tuple[str, int]
"""Topic and partition."""

NO_EPOCH = -1

CLIENT_REPLICA = -1
"""The replica id of a client that asks a leader: it is no replica."""

EARLIEST = -2
LATEST = -1
OFFSET_TAIL_BASE = -2000
"""OFFSET_TAIL_BASE - n means n messages before the end (librdkafka's RD_KAFKA_OFFSET_TAIL)."""


class OffsetPosition(NamedTuple):
    """An offset, the leader epoch of the record before it, and a committed offset's metadata.

    The epoch is -1 if it isn't known.
    """

    offset: int
    epoch: int = NO_EPOCH
    metadata: str | None = None


NO_POSITION = OffsetPosition(OFFSET_INVALID)


def position_of(partition: TopicPartition) -> OffsetPosition:
    """The position that the application's TopicPartition describes."""
    epoch = partition.leader_epoch
    return OffsetPosition(
        partition.offset, NO_EPOCH if epoch is None else epoch, partition.metadata
    )


class Ago(NamedTuple):
    """auto.offset.reset=by_duration: start at the first message younger than this (KIP-1106)."""

    ms: int


Reset: TypeAlias = "int | Ago | None"
"""auto.offset.reset: EARLIEST, LATEST, a duration, or None: report an error."""


def reset_of(text: str) -> Reset:
    """Parses the value of auto.offset.reset."""
    kind, _, duration = text.partition(":")
    if kind == "by_duration":
        ms = duration_ms(duration)
        if ms is None:
            raise ValueError(f"{duration!r} is no duration")
        return Ago(ms)
    return {"earliest": EARLIEST, "latest": LATEST, "error": None}[kind]
