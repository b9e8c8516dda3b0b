"""SerializingProducer on the Producer of `cimpl`."""

from __future__ import annotations

from typing import Generic, TypeVar

from kafka_native import serializing_producer as native

from .cimpl import Producer as _ProducerImpl

K = TypeVar("K")
V = TypeVar("V")

__all__ = ["SerializingProducer"]


class SerializingProducer(native.SerializingProducer[K, V], _ProducerImpl, Generic[K, V]):
    """A `kafka_native.SerializingProducer` that behaves like confluent_kafka's."""
