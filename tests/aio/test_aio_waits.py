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

from .support import Client, in_loop, until

Calls = dict[str, Callable[[Any, list[TopicPartition]], Coroutine[Any, Any, Any]]]

CALLS_OF_BOTH: Calls = {
    "metrics": lambda client, _: client.metrics(),
    "list_topics": lambda client, _: client.list_topics(timeout=WAIT_S),
    "cluster_id": lambda client, _: client.cluster_id(WAIT_S),
}
CONSUMER_CALLS: Calls = CALLS_OF_BOTH | {
    "assign": lambda consumer, partitions: consumer.assign(partitions),
    "unassign": lambda consumer, _: consumer.unassign(),
    "incremental_assign": lambda consumer, _: consumer.incremental_assign([]),
    "incremental_unassign": lambda consumer, partitions: consumer.incremental_unassign(partitions),
    "assignment": lambda consumer, _: consumer.assignment(),
    "seek": lambda consumer, partitions: consumer.seek(partitions),
    "seek_to_beginning": lambda consumer, partitions: consumer.seek_to_beginning(partitions),
    "seek_to_end": lambda consumer, _: consumer.seek_to_end(),
    "seek_to_time": lambda consumer, partitions: consumer.seek_to_time(0, partitions, WAIT_S),
    "pause": lambda consumer, partitions: consumer.pause(partitions),
    "resume": lambda consumer, partitions: consumer.resume(partitions),
    "paused": lambda consumer, _: consumer.paused(),
    "lag": lambda consumer, _: consumer.lag(),
    "lag_max": lambda consumer, _: consumer.lag_max(),
    "commit": lambda consumer, partitions: consumer.commit(offsets=partitions, asynchronous=False),
    "committed": lambda consumer, partitions: consumer.committed(partitions, WAIT_S),
    "offsets_for_times": lambda consumer, partitions: consumer.offsets_for_times(
        partitions, WAIT_S
    ),
    "get_watermark_offsets": lambda consumer, partitions: consumer.get_watermark_offsets(
        partitions[0], WAIT_S
    ),
    "subscription": lambda consumer, _: consumer.subscription(),
    "consumer_group_metadata": lambda consumer, _: consumer.consumer_group_metadata(),
    "store_offsets": lambda consumer, partitions: consumer.store_offsets(offsets=partitions),
}
PRODUCER_CALLS: Calls = CALLS_OF_BOTH | {"purge": lambda producer, _: producer.purge()}


@asynccontextmanager
async def new_client(client: Client, kind: type[Any], partitions: list[TopicPartition]) -> Any:
    """Return a client of this kind. A consumer reads the partitions."""
    if kind is AIOProducer:
        async with client.producer() as producer:
            yield producer
    else:
        conf = {"group.id": partitions[0].topic, "enable.auto.offset.store": False}
        async with client.consumer(**conf) as consumer:
            await consumer.assign(partitions)
            yield consumer


@pytest.mark.parametrize(
    ("kind", "name"),
    [(AIOProducer, name) for name in PRODUCER_CALLS]
    + [(AIOConsumer, name) for name in CONSUMER_CALLS],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
@in_loop
async def test_the_loop_runs_while_the_control_thread_is_busy(
    client: Client, kind: type[Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = PRODUCER_CALLS if kind is AIOProducer else CONSUMER_CALLS
    partitions = [TopicPartition(client.topic(), 0, 0)]
    requests: list[str] = []
    run_begun, gather_begun = MainThread.begin_run, MainThread.begin_gather

    def count_run(main: MainThread, *args: Any) -> Any:
        requests.append("run")
        return run_begun(main, *args)

    def count_gather(main: MainThread, *args: Any) -> Any:
        requests.append("gather")
        return gather_begun(main, *args)

    async with new_client(client, kind, partitions) as made_client:
        control_thread_blocked, release = threading.Event(), threading.Event()
        thread = made_client._core._client.main
        thread.post(lambda: [control_thread_blocked.set(), release.wait(WAIT_S)])
        await until(control_thread_blocked.is_set)
        with monkeypatch.context() as patched:
            patched.setattr(MainThread, "begin_run", count_run)
            patched.setattr(MainThread, "begin_gather", count_gather)
            task = asyncio.ensure_future(calls[name](made_client, partitions))
            for _ in range(5):  # a call that blocks would stop this loop for WAIT_S
                await asyncio.sleep(0.001)
            assert not task.done()
            assert not release.is_set()
            release.set()
            await asyncio.wait_for(task, WAIT_S)
        assert len(requests) == 1, requests


@in_loop
async def test_cancelled_wait_does_not_undo_the_call(client: Client) -> None:
    partitions = [TopicPartition(client.topic(), 0, 0)]
    async with new_client(client, AIOConsumer, partitions) as consumer:
        control_thread_blocked, release = threading.Event(), threading.Event()
        consumer._core._client.main.post(
            lambda: [control_thread_blocked.set(), release.wait(WAIT_S)]
        )
        await until(control_thread_blocked.is_set)
        task = asyncio.ensure_future(consumer.pause(partitions))
        await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        release.set()
        assert await consumer.paused() == partitions


@in_loop
async def test_metadata_timeout_is_the_same_error_as_without_a_loop(client: Client) -> None:
    conf = {"bootstrap.servers": "127.0.0.1:1"}
    async with AIOProducer(conf) as producer:
        with pytest.raises(KafkaException, match="Failed to get metadata: ") as awaited:
            await producer.list_topics(timeout=0.05)
        with pytest.raises(KafkaException, match="Failed to get metadata: ") as waited:
            producer._core.list_topics(timeout=0.05)
        assert str(awaited.value) == str(waited.value)
