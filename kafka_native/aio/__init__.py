"""Producer, consumers and admin client for asyncio, mostly compatible with confluent_kafka.aio.

    from kafka_native.aio import AIOAdminClient, AIOConsumer, AIOProducer

Producer and consumer have confluent_kafka.aio's names and signatures. The event loop watches a
descriptor of the engine. There is no thread pool. Two kinds of calls use a thread of the loop:
`produce_arrow()`, and a call with a codec that asks a schema registry.
docs/guide/asyncio.md shows how to use them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native.lazy import lazy_names

if TYPE_CHECKING:
    from kafka_native.aio._admin import AIOAdminClient
    from kafka_native.aio._consumer import AIOArrowStream, AIOConsumer
    from kafka_native.aio._converting import (
        AIODeserializingShareConsumer,
        AsyncDeserializingConsumer,
        AsyncSerializingProducer,
    )
    from kafka_native.aio._producer import AIOProducer
    from kafka_native.aio._share_consumer import AIOShareConsumer

__all__ = [
    "AIOAdminClient",
    "AIOArrowStream",
    "AIOConsumer",
    "AIODeserializingShareConsumer",
    "AIOProducer",
    "AIOShareConsumer",
    "AsyncDeserializingConsumer",
    "AsyncSerializingProducer",
]

# A program rarely uses more than a few of them. The first access to a name imports its module.
_MODULES = {
    "AIOAdminClient": "_admin",
    "AIOArrowStream": "_consumer",
    "AIOConsumer": "_consumer",
    "AIODeserializingShareConsumer": "_converting",
    "AIOProducer": "_producer",
    "AIOShareConsumer": "_share_consumer",
    "AsyncDeserializingConsumer": "_converting",
    "AsyncSerializingProducer": "_converting",
}
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
