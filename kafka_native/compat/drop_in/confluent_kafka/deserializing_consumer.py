"""DeserializingConsumer on the Consumer of `cimpl`."""

from __future__ import annotations

from typing import Generic, TypeVar

from kafka_native import deserializing_consumer as native
from kafka_native.consumer import CLOSE_S

from ._serde_builder import (
    SharedClusterIdResolver,
    build_serdes,
    close_serdes,
    pop_serde_props,
    propagate_cluster_id_resolver,
)
from ._serdes import Deserializers
from .cimpl import Consumer as _ConsumerImpl
from .cimpl import Message
from .error import ConsumeError, KeyDeserializationError, ValueDeserializationError
from .serialization import MessageField, SerializationContext

K = TypeVar("K")
V = TypeVar("V")

__all__ = ["DeserializingConsumer"]


class DeserializingConsumer(  # type: ignore[misc]  # other types of keys and values
    Deserializers, native.DeserializingConsumer[K, V], _ConsumerImpl, Generic[K, V]
):
    """A `kafka_native.DeserializingConsumer` that behaves like confluent_kafka's."""

    def close(self, *, timeout: float = CLOSE_S) -> None:  # type: ignore[override]
        """Close the consumer, then the deserializers that builders made."""
        super().close(timeout)
