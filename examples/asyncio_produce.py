"""Producing in an event loop: reports to await, many tasks at once, errors."""

import asyncio
import os

from kafka_native import KafkaException
from kafka_native.aio import AIOProducer

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")


async def visitor(producer: AIOProducer, name: str) -> int:
    """Sends ten messages, then awaits what became of them."""
    deliveries = [
        await producer.produce("visits", f"{name} looks at page {page}", key=name, headers=[("page", str(page))])
        for page in range(10)
    ]
    messages = [await delivery for delivery in deliveries]
    return len(messages)


async def main() -> None:
    """A hundred tasks share one producer."""
    async with AIOProducer({"bootstrap.servers": BOOTSTRAP}) as producer:
        counts = await asyncio.gather(*(visitor(producer, f"visitor {number}") for number in range(100)))
        print(f"{sum(counts)} messages delivered for {len(counts)} tasks")
        try:
            await producer.produce("visits", b"x" * 2_000_000)
        except KafkaException as error:
            print("refused:", error.args[0].name())
    # Leaving the block has sent whatever was still queued.


asyncio.run(main())
