"""SerializingProducer on the Producer of `cimpl`."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from kafka_native import serializing_producer as native

from ._serde_builder import (
    SharedClusterIdResolver,
    build_serdes,
    close_serdes,
    pop_serde_props,
    propagate_cluster_id_resolver,
)
from ._serdes import Serializers
from ._types import DeliveryCallback, HeadersType
from .cimpl import Producer as _ProducerImpl
from .error import KeySerializationError, ValueSerializationError
from .serialization import MessageField, SerializationContext

K = TypeVar("K")
V = TypeVar("V")

__all__ = ["SerializingProducer"]


class SerializingProducer(
    Serializers, native.SerializingProducer[K, V], _ProducerImpl, Generic[K, V]
):
    """A `kafka_native.SerializingProducer` that behaves like confluent_kafka's."""

    def __init__(self, conf: dict[str, Any]) -> None:
        """Take a configuration as a dict.

        :raises TypeError: It is no dict.
        :raises AttributeError: It hasn't a dict's methods.
        """
        given: Any = conf
        if not isinstance(given, dict) and given.copy().pop:
            raise TypeError("expected configuration dict")
        super().__init__(conf)
