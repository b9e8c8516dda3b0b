"""Producer and consumer for asyncio, with confluent_kafka.aio's names and signatures.

    from kafka_native.aio import AIOConsumer, AIOProducer

Both are native: the event loop watches a descriptor of the engine. There is no thread pool, and no thread a call.
docs/guide/asyncio.md shows how to use them.
"""

from __future__ import annotations

from kafka_native.aio._consumer import AIOConsumer
from kafka_native.aio._producer import AIOProducer

__all__ = ["AIOConsumer", "AIOProducer"]
