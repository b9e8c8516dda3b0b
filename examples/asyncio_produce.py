"""Produces in an event loop: awaited reports, many tasks at once, errors."""

import asyncio
import os

from kafka_native import KafkaException
from kafka_native.aio import AIOProducer

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")


async def visitor(producer: AIOProducer, name: str) -> int:
    """Send ten messages, then await their reports."""
    deliveries = [
        await producer.produce(
            "visits", f"{name} looks at page {page}", key=name, headers=[("page", str(page))]
        )
        for page in range(10)
    ]
    messages = [await delivery for delivery in deliveries]
    return len(messages)


async def main() -> None:
    """Share one producer among a hundred tasks."""
    async with AIOProducer({"bootstrap.servers": BOOTSTRAP}) as producer:
        counts = await asyncio.gather(
            *(visitor(producer, f"visitor {number}") for number in range(100))
        )
        print(f"{sum(counts)} messages delivered for {len(counts)} tasks")
        try:
            await producer.produce("visits", b"x" * 2_000_000)
        except KafkaException as error:
            print("refused:", error.args[0].name())
    # The end of the block has sent all queued messages.


asyncio.run(main())
