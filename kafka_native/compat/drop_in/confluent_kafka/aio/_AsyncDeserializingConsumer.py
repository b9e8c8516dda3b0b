"""AsyncDeserializingConsumer on the AIOConsumer of this package."""

from __future__ import annotations

from typing import Generic, TypeVar

from kafka_native.aio import _converting as native

from ._AIOConsumer import AIOConsumer

K = TypeVar("K")
V = TypeVar("V")

__all__ = ["AsyncDeserializingConsumer"]


class AsyncDeserializingConsumer(
    native.AsyncDeserializingConsumer[K, V], AIOConsumer, Generic[K, V]
):
    """A `kafka_native.aio.AsyncDeserializingConsumer` that behaves like confluent_kafka's."""
