"""The adapter of aiokafka, which has only asyncio scenarios."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from bench.adapters import QUEUE_MESSAGES, Figures, Stopwatch, Task, import_time
from bench.adapters.asyncio_api import produce_all
from bench.adapters.consumer_api import WAIT_S

imports = partial(import_time.imports, "aiokafka", "AIOKafkaProducer, AIOKafkaConsumer")


def aio_produce(task: Task) -> Figures:
    """See asyncio_api."""
    return asyncio.run(_produce(task))


async def _produce(task: Task) -> Figures:
    codec = None if task.codec == "none" else task.codec
    acks: Any = "all" if task.acks == "all" or task.idempotent else int(task.acks)
    producer = AIOKafkaProducer(
        bootstrap_servers=task.bootstrap,
        acks=acks,
        compression_type=codec,
        enable_idempotence=task.idempotent,
    )
    await producer.start()
    try:
        return await produce_all(producer.send, task, QUEUE_MESSAGES)
    finally:
        await producer.stop()


def aio_poll(task: Task) -> Figures:
    """Read with getone() from assigned partitions, and take each value."""
    return asyncio.run(_poll(task))


async def _poll(task: Task) -> Figures:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=task.bootstrap, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        consumer.assign([TopicPartition(task.topic, number) for number in range(task.partitions)])
        await asyncio.wait_for(consumer.getone(), WAIT_S)
        getone, wanted = consumer.getone, min(task.count, QUEUE_MESSAGES) - 1
        watch = Stopwatch()
        for _ in range(wanted):
            message = await getone()
            message.value  # noqa: B018
        return watch.figures(wanted)
    finally:
        await consumer.stop()
