"""confluent_kafka's place for AIOConsumer."""

from __future__ import annotations

from kafka_native.aio import AIOConsumer

__all__ = ["AIOConsumer"]
