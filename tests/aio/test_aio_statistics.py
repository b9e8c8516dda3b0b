"""stats_cb and metrics() of the asyncio clients."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafka_native.aio import AIOConsumer
from tests.oracle.statistics import check_level

from .support import Client, group, in_loop, until


@in_loop
async def test_producers_stats_cb_runs_in_the_loop(client: Client) -> None:
    topic = client.topic()

    documents: list[str] = []

    async def take(text: str) -> None:
        documents.append(text)

    async with client.producer(**{"statistics.interval.ms": 10, "stats_cb": take}) as producer:
        await (await producer.produce(topic, b"x"))
        await until(lambda: any(json.loads(text)["txmsgs"] == 1 for text in documents))
        assert (await producer.metrics()).txmsgs == 1
    with pytest.raises(RuntimeError, match="closed"):
        await producer.metrics()
    for text in documents:
        check_level("client", json.loads(text))


async def poll_for_ever(consumer: AIOConsumer) -> None:
    while True:
        await consumer.poll(0.05)


@in_loop
async def test_consumers_stats_cb_is_made_by_its_calls_and_raises_there(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 5)
    documents: list[dict[str, Any]] = []
    seen = 0

    def take(text: str) -> None:
        nonlocal seen
        documents.append(json.loads(text))
        seen += documents[-1]["rxmsgs"] == 5
        if seen == 1:  # once: later calls, such as close(), must go on
            seen += 1
            raise LookupError("seen")

    conf = {"statistics.interval.ms": 10, "stats_cb": take, "enable.auto.offset.store": False}
    async with await client.reader(topic, **group(), **conf) as consumer:
        with pytest.raises(LookupError, match="seen"):
            await poll_for_ever(consumer)
        metrics = await consumer.metrics()
        assert metrics.rxmsgs == 5
        assert metrics.consumer is not None
        await consumer.poll(0)
        assert consumer._core._poll_times(False)[2] > 0
    for document in documents:
        check_level("client", document)
