"""Producer, consumer and admin client for asyncio; the first two with confluent_kafka.aio's names and signatures.

    from kafka_native.aio import AIOAdminClient, AIOConsumer, AIOProducer

All are native: the event loop watches a descriptor of the engine. There is no thread pool, and no thread a call.
docs/guide/asyncio.md shows how to use them.
"""

from __future__ import annotations

from kafka_native.aio._admin import AIOAdminClient
from kafka_native.aio._consumer import AIOConsumer
from kafka_native.aio._producer import AIOProducer

__all__ = ["AIOAdminClient", "AIOConsumer", "AIOProducer"]
