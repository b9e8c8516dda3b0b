"""A share group in an event loop: many tasks do jobs, and each acknowledges its own."""

import asyncio
import os

from kafka_native import AcknowledgeType, Message
from kafka_native.aio import AIOProducer, AIOShareConsumer

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
JOBS = 200
CONF = {
    "bootstrap.servers": BOOTSTRAP,
    "group.id": "example-async-workers",
    "share.acknowledgement.mode": "explicit",
}


async def work(consumer: AIOShareConsumer, message: Message, done: set[bytes]) -> None:
    """Do a job while others run, then accept its record."""
    await asyncio.sleep(0.01 * ((message.offset() or 0) % 20))
    consumer.acknowledge(message)
    done.add(message.value() or b"")


async def main() -> None:
    """Take jobs, start a task for each, and renew the locks of those that still run."""
    done: set[bytes] = set()
    running: dict[asyncio.Task[None], Message] = {}
    failures = 0

    def count_failures(offsets: dict, error: Exception | None) -> None:
        nonlocal failures
        failures += error is not None

    async with (
        AIOShareConsumer(CONF) as consumer,
        AIOProducer({"bootstrap.servers": BOOTSTRAP}) as producer,
    ):
        consumer.set_acknowledgement_commit_callback(count_failures)
        await consumer.subscribe(["async-jobs"])
        is_produced = False
        while len(done) < JOBS + 1:
            for message in await consumer.poll(0.1):
                if message.error():  # for example, the topic doesn't exist yet
                    print(message.error())
                    continue
                running[asyncio.create_task(work(consumer, message, done))] = message
            await asyncio.sleep(0)
            running = {task: message for task, message in running.items() if not task.done()}
            for message in running.values():
                consumer.acknowledge(message, AcknowledgeType.RENEW)
            # A new share group begins at a topic's end. The first job shows that it exists.
            if not done:
                await producer.produce("async-jobs", "first")
            elif not is_produced:
                for number in range(JOBS):
                    await producer.produce("async-jobs", str(number))
                is_produced = True
        results = await consumer.commit_sync()
        failures += sum(error is not None for error in results.values())
    print(f"{len(done)} jobs done, failures: {failures}")


asyncio.run(main())
