"""DeserializingConsumer on the Consumer of `cimpl`."""

from __future__ import annotations

from typing import Generic, TypeVar

from kafka_native import deserializing_consumer as native

from .cimpl import Consumer as _ConsumerImpl

K = TypeVar("K")
V = TypeVar("V")

__all__ = ["DeserializingConsumer"]


class DeserializingConsumer(native.DeserializingConsumer[K, V], _ConsumerImpl, Generic[K, V]):
    """A `kafka_native.DeserializingConsumer` that behaves like confluent_kafka's."""
