"""DeserializingShareConsumer on the ShareConsumer of `cimpl`."""

from __future__ import annotations

from kafka_native import deserializing_share_consumer as native
from kafka_native.share_consumer import CLOSE_S

from ._model import Messages
from ._serdes import Deserializers
from .cimpl import KafkaError, Message
from .cimpl import ShareConsumer as _ShareConsumerImpl
from .serialization import MessageField, SerializationContext

__all__ = ["DeserializingShareConsumer"]


class DeserializingShareConsumer(
    Deserializers, native.DeserializingShareConsumer, _ShareConsumerImpl
):
    """A `kafka_native.DeserializingShareConsumer` that behaves like confluent_kafka's."""

    def close(self, *, timeout: float = CLOSE_S) -> None:  # type: ignore[override]
        """Close the consumer, then deserializers that builders made."""
        if "_serdes" in vars(self):
            super().close(timeout)
