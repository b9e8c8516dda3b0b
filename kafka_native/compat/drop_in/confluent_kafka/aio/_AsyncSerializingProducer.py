"""AsyncSerializingProducer on the AIOProducer of this package."""

from __future__ import annotations

from typing import Generic, TypeVar

from kafka_native.aio import _converting as native

from .producer import AIOProducer

K = TypeVar("K")
V = TypeVar("V")

__all__ = ["AsyncSerializingProducer"]


class AsyncSerializingProducer(  # type: ignore[misc]  # the key comes before the value
    native.AsyncSerializingProducer[K, V], AIOProducer, Generic[K, V]
):
    """A `kafka_native.aio.AsyncSerializingProducer` that behaves like confluent_kafka's."""
