"""confluent_kafka's place for AIOConsumer."""

from __future__ import annotations

from kafka_native import aio

from .._arguments import AIO_CONSUMER, parses
from ..cimpl import Message

__all__ = ["AIOConsumer"]


@parses(AIO_CONSUMER, lambda consumer: consumer._core._check_open())
class AIOConsumer(aio.AIOConsumer):
    """A `kafka_native.aio.AIOConsumer` that behaves like confluent_kafka's."""

    _message_type = Message
