"""Coroutines wait for the control thread without blocking the loop, and each makes one request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kafka_native import KafkaException, TopicPartition
from kafka_native.aio import AIOConsumer, AIOProducer
from kafka_native.control.main_thread import MainThread
from tests.waiting import WAIT_S

from .support import Client, run, until

Calls = dict[str, Callable[[Any, list[TopicPartition]], Coroutine[Any, Any, Any]]]

OF_BOTH: Calls = {
    "metrics": lambda client, _: client.metrics(),
    "list_topics": lambda client, _: client.list_topics(timeout=WAIT_S),
    "cluster_id": lambda client, _: client.cluster_id(WAIT_S),
}
OF_CONSUMERS: Calls = OF_BOTH | {
    "assign": lambda consumer, places: consumer.assign(places),
    "unassign": lambda consumer, _: consumer.unassign(),
    "incremental_assign": lambda consumer, _: consumer.incremental_assign([]),
    "incremental_unassign": lambda consumer, places: consumer.incremental_unassign(places),
    "assignment": lambda consumer, _: consumer.assignment(),
    "seek": lambda consumer, places: consumer.seek(places),
    "seek_to_beginning": lambda consumer, places: consumer.seek_to_beginning(places),
    "seek_to_end": lambda consumer, _: consumer.seek_to_end(),
    "seek_to_time": lambda consumer, places: consumer.seek_to_time(0, places, WAIT_S),
    "pause": lambda consumer, places: consumer.pause(places),
    "resume": lambda consumer, places: consumer.resume(places),
    "paused": lambda consumer, _: consumer.paused(),
    "lag": lambda consumer, _: consumer.lag(),
    "commit": lambda consumer, places: consumer.commit(offsets=places, asynchronous=False),
    "committed": lambda consumer, places: consumer.committed(places, WAIT_S),
    "offsets_for_times": lambda consumer, places: consumer.offsets_for_times(places, WAIT_S),
    "get_watermark_offsets": lambda consumer, places: consumer.get_watermark_offsets(
        places[0], WAIT_S
    ),
    "subscription": lambda consumer, _: consumer.subscription(),
    "consumer_group_metadata": lambda consumer, _: consumer.consumer_group_metadata(),
    "store_offsets": lambda consumer, places: consumer.store_offsets(offsets=places),
}
OF_PRODUCERS: Calls = OF_BOTH | {"purge": lambda producer, _: producer.purge()}


@asynccontextmanager
async def made(client: Client, kind: type[Any], places: list[TopicPartition]) -> Any:
    """Return a client of this kind. A consumer reads the partitions."""
    if kind is AIOProducer:
        async with client.producer() as producer:
            yield producer
    else:
        conf = {"group.id": places[0].topic, "enable.auto.offset.store": False}
        async with client.consumer(**conf) as consumer:
            await consumer.assign(places)
            yield consumer


@pytest.mark.parametrize(
    ("kind", "name"),
    [(AIOProducer, name) for name in OF_PRODUCERS] + [(AIOConsumer, name) for name in OF_CONSUMERS],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_the_loop_runs_while_the_control_thread_is_busy(
    client: Client, kind: type[Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = OF_PRODUCERS if kind is AIOProducer else OF_CONSUMERS
    places = [TopicPartition(client.topic(), 0, 0)]
    asked: list[str] = []
    run_begun, gather_begun = MainThread.begin_run, MainThread.begin_gather

    def count_run(main: MainThread, *args: Any) -> Any:
        asked.append("run")
        return run_begun(main, *args)

    def count_gather(main: MainThread, *args: Any) -> Any:
        asked.append("gather")
        return gather_begun(main, *args)

    async def main() -> None:
        async with made(client, kind, places) as made_client:
            held, go_on = threading.Event(), threading.Event()
            thread = made_client._core._client.main
            thread.post(lambda: [held.set(), go_on.wait(WAIT_S)])
            await until(held.is_set)
            with monkeypatch.context() as patched:
                patched.setattr(MainThread, "begin_run", count_run)
                patched.setattr(MainThread, "begin_gather", count_gather)
                task = asyncio.ensure_future(calls[name](made_client, places))
                for _ in range(5):  # a call that blocks would stop this loop for WAIT_S
                    await asyncio.sleep(0.001)
                assert not task.done()
                assert not go_on.is_set()
                go_on.set()
                await asyncio.wait_for(task, WAIT_S)
            assert len(asked) == 1, asked

    run(main())


def test_a_wait_that_is_cancelled_takes_nothing_back(client: Client) -> None:
    async def main() -> None:
        places = [TopicPartition(client.topic(), 0, 0)]
        async with made(client, AIOConsumer, places) as consumer:
            held, go_on = threading.Event(), threading.Event()
            consumer._core._client.main.post(lambda: [held.set(), go_on.wait(WAIT_S)])
            await until(held.is_set)
            task = asyncio.ensure_future(consumer.pause(places))
            await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            go_on.set()
            assert await consumer.paused() == places

    run(main())


def test_metadata_that_nobody_gives_is_the_same_error_as_without_a_loop(client: Client) -> None:
    async def main() -> None:
        conf = {"bootstrap.servers": "127.0.0.1:1"}
        async with AIOProducer(conf) as producer:
            with pytest.raises(KafkaException, match="Failed to get metadata: ") as awaited:
                await producer.list_topics(timeout=0.05)
            with pytest.raises(KafkaException, match="Failed to get metadata: ") as waited:
                producer._core.list_topics(timeout=0.05)
            assert str(awaited.value) == str(waited.value)

    run(main())
