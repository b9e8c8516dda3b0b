"""confluent_kafka's place for AIOProducer."""

from __future__ import annotations

from ._AIOProducer import AIOProducer

__all__ = ["AIOProducer"]
