"""The scenarios for clients of asyncio: those that have confluent_kafka.aio's API, and aiokafka."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import cycle, islice
from types import ModuleType
from typing import Any

from bench.adapters import QUEUE_MESSAGES, Figures, Stopwatch, Task
from bench.adapters.reading import WAIT_S

IN_FLIGHT = 10_000  # reports that aren't awaited yet

Send = Callable[[str, bytes], Awaitable[Awaitable[Any]]]


def aio_produce(aio: ModuleType, task: Task, most: int = QUEUE_MESSAGES) -> Figures:
    """Each message's report awaited, with some in flight; ``most`` messages, for who would need too long."""
    return asyncio.run(_produce(aio, task, most))


async def _produce(aio: ModuleType, task: Task, most: int) -> Figures:
    producer = aio.AIOProducer(task.config)
    figures = await produce_all(producer.produce, task, most)
    await producer.close()
    return figures


async def produce_all(send: Send, task: Task, most: int) -> Figures:
    """Connected before the clock starts; it stops with the last report."""
    count = min(task.count, most) - 1
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


def aio_poll(client: ModuleType, aio: ModuleType, task: Task, most: int = QUEUE_MESSAGES, **tuning: Any) -> Figures:
    """poll(), one message at a time, each value taken; assigned by hand."""
    return asyncio.run(_poll(client, aio, task, most, tuning))


async def _poll(client: ModuleType, aio: ModuleType, task: Task, most: int, tuning: dict[str, Any]) -> Figures:
    consumer = aio.AIOConsumer({**task.group(), "enable.auto.commit": False, **tuning})
    places = [client.TopicPartition(task.topic, number, client.OFFSET_BEGINNING) for number in range(task.partitions)]
    await consumer.assign(places)
    if await consumer.poll(WAIT_S) is None:
        raise RuntimeError("no message came")
    poll, wait_s, wanted = consumer.poll, WAIT_S / 6, min(task.count, most) - 1
    watch = Stopwatch()
    for taken in range(wanted):
        message = await poll(wait_s)
        if message is None:
            raise RuntimeError(f"only {taken} of {wanted} messages came")
        message.value()
    figures = watch.figures(wanted)
    await consumer.close()
    return figures
