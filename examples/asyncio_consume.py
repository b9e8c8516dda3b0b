"""Consumes in an event loop: a group, coroutine callbacks, commits that don't block other tasks."""

import asyncio
import os
import uuid

from kafka_native import TopicPartition
from kafka_native.admin import NewTopic
from kafka_native.aio import AIOAdminClient, AIOConsumer, AIOProducer

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")


async def on_assign(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
    """The loop over messages below calls and awaits this."""
    committed = await consumer.committed(partitions, timeout=10)
    print(
        f"assigned: {len(partitions)} partitions, committed so far: "
        f"{[each.offset for each in committed]}"
    )


async def main() -> None:
    """Write a thousand messages, read them, then commit."""
    topic = f"visits-{uuid.uuid4()}"
    async with AIOAdminClient({"bootstrap.servers": BOOTSTRAP}) as admin:
        await admin.create_topics([NewTopic(topic, 2)])[topic]
    async with AIOProducer({"bootstrap.servers": BOOTSTRAP}) as producer:
        for number in range(1000):
            await producer.produce(topic, f"visit {number}", headers={"page": f"/{number % 7}"})
    conf = {
        "bootstrap.servers": BOOTSTRAP,
        "group.id": f"visits-{uuid.uuid4()}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    async with AIOConsumer(conf) as consumer:
        await consumer.subscribe([topic], on_assign=on_assign)
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
