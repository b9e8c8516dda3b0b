"""confluent_kafka's place for AIOProducer."""

from __future__ import annotations

from kafka_native.aio import AIOProducer

__all__ = ["AIOProducer"]
