"""confluent_kafka's place for AIOProducer."""

from __future__ import annotations

from kafka_native import aio

from ..._arguments import AIO_PRODUCER, parses
from ...cimpl import Message

__all__ = ["AIOProducer"]


@parses(
    AIO_PRODUCER, lambda producer: producer._core._client.check_open("Producer has been closed")
)
class AIOProducer(aio.AIOProducer):
    """A `kafka_native.aio.AIOProducer` that behaves like confluent_kafka's."""

    _message_type = Message
