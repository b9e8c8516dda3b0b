"""confluent_kafka's place for AIOProducer."""

from __future__ import annotations

from kafka_native import aio

from ...cimpl import Message

__all__ = ["AIOProducer"]


class AIOProducer(aio.AIOProducer):
    """A `kafka_native.aio.AIOProducer` that behaves like confluent_kafka's."""

    _message_type = Message
