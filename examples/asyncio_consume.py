"""Consumes in an event loop: a group, coroutine callbacks, commits that don't block other tasks."""

import asyncio
import os
import uuid

from kafka_native import TopicPartition
from kafka_native.aio import AIOConsumer

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")


async def on_assign(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
    """The loop over messages below calls and awaits this."""
    committed = await consumer.committed(partitions, timeout=10)
    print(
        f"assigned: {len(partitions)} partitions, committed so far: "
        f"{[each.offset for each in committed]}"
    )


async def main() -> None:
    """Read a thousand messages, then commit."""
    conf = {
        "bootstrap.servers": BOOTSTRAP,
        "group.id": f"visits-{uuid.uuid4()}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    async with AIOConsumer(conf) as consumer:
        await consumer.subscribe(["visits"], on_assign=on_assign)
        count = 0
        headers = None
        async for message in consumer:  # other tasks run while there is no message
            headers = message.headers()
            count += 1
            if count == 1000:
                break
        done = await consumer.commit(asynchronous=False) or []
        print(f"{count} messages read, committed: {[each.offset for each in done]}")
        print("the last one's headers:", headers)
        print("nothing more within half a second:", await consumer.poll(0.5))


asyncio.run(main())
