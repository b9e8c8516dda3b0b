"""confluent_kafka's asyncio clients, on `kafka_native.aio`."""

from __future__ import annotations

from ._AIOConsumer import AIOConsumer
from ._AsyncDeserializingConsumer import AsyncDeserializingConsumer
from ._AsyncSerializingProducer import AsyncSerializingProducer
from .producer import AIOProducer

__all__ = ["AIOConsumer", "AIOProducer", "AsyncDeserializingConsumer", "AsyncSerializingProducer"]
