"""Asyncio scenarios for clients with confluent_kafka.aio's API, and parts for aiokafka."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import cycle, islice
from types import ModuleType
from typing import Any

from bench.adapters import QUEUE_MESSAGES, Figures, Stopwatch, Task
from bench.adapters.consumer_api import WAIT_S

IN_FLIGHT = 10_000  # delivery reports that aren't awaited yet

Send = Callable[[str, bytes], Awaitable[Awaitable[Any]]]


def aio_produce(aio: ModuleType, task: Task, count_max: int = QUEUE_MESSAGES) -> Figures:
    """Produce and await each message's report, with many in flight.

    ``count_max``: the largest number of messages, for slow clients.
    """
    return asyncio.run(_produce(aio, task, count_max))


async def _produce(aio: ModuleType, task: Task, count_max: int) -> Figures:
    producer = aio.AIOProducer(task.config)
    figures = await produce_all(producer.produce, task, count_max)
    await producer.close()
    return figures


async def produce_all(send: Send, task: Task, count_max: int) -> Figures:
    """Measure until the last report. The first message connects before the clock starts."""
    count = min(task.count, count_max) - 1
    values = list(islice(cycle(task.values()), count))
    topic = task.topic
    await (await send(topic, values[0]))
    pending: deque[Awaitable[Any]] = deque()
    watch = Stopwatch()
    for value in values:
        pending.append(await send(topic, value))
        if len(pending) == IN_FLIGHT:
            await pending.popleft()
    while pending:
        await pending.popleft()
    return watch.figures(count)


def aio_poll(
    client: ModuleType, aio: ModuleType, task: Task, count_max: int = QUEUE_MESSAGES, **tuning: Any
) -> Figures:
    """Read with poll() from assigned partitions, one message at a time, and take each value."""
    return asyncio.run(_poll(client, aio, task, count_max, tuning))


async def _poll(
    client: ModuleType, aio: ModuleType, task: Task, count_max: int, tuning: dict[str, Any]
) -> Figures:
    consumer = aio.AIOConsumer({**task.group(), "enable.auto.commit": False, **tuning})
    places = [
        client.TopicPartition(task.topic, number, client.OFFSET_BEGINNING)
        for number in range(task.partitions)
    ]
    await consumer.assign(places)
    if await consumer.poll(WAIT_S) is None:
        raise RuntimeError("no message came")
    poll, wait_s, wanted = consumer.poll, WAIT_S / 6, min(task.count, count_max) - 1
    watch = Stopwatch()
    for taken in range(wanted):
        message = await poll(wait_s)
        if message is None:
            raise RuntimeError(f"only {taken} of {wanted} messages came")
        message.value()
    figures = watch.figures(wanted)
    await consumer.close()
    return figures
