"""confluent_kafka's place for AIOConsumer."""

from __future__ import annotations

from kafka_native import aio

from ..cimpl import Message

__all__ = ["AIOConsumer"]


class AIOConsumer(aio.AIOConsumer):
    """A `kafka_native.aio.AIOConsumer` that behaves like confluent_kafka's."""

    _message_type = Message
