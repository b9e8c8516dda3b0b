"""confluent_kafka's name for `kafka_native.aio`."""

from __future__ import annotations

from ._AIOConsumer import AIOConsumer
from .producer import AIOProducer

__all__ = ["AIOConsumer", "AIOProducer"]
