"""AIOConsumer in a group: rebalance callbacks, plain and coroutines, commits, and exceptions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafka_native import KafkaError, KafkaException, TopicPartition
from kafka_native.aio import AIOConsumer
from tests.waiting import WAIT_S

from .support import Client, group, in_loop, until


@in_loop
async def test_coroutine_callbacks_are_awaited(client: Client) -> None:
    topic = client.topic(2)
    client.fill(topic, 100)
    events: list[Any] = []

    async def on_assign(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0.02)
        events.append(("assigned", consumer, sorted(each.partition for each in partitions)))
        for each in partitions:
            each.offset = 10
        await consumer.assign(partitions)

    async def on_revoke(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        events.append(("revoked", consumer, sorted(each.partition for each in partitions)))
        await consumer.commit(offsets=[TopicPartition(topic, 0, 11)], asynchronous=False)
        await asyncio.sleep(0.02)
        events.append(len(await consumer.assignment()))

    async def on_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0)
        events.append((error, partitions[0].offset))

    consumer = client.consumer(**group(on_commit=on_commit, **{"enable.auto.commit": False}))
    await consumer.subscribe([topic], on_assign=on_assign, on_revoke=on_revoke)
    message = await consumer.poll(WAIT_S)
    assert message is not None
    assert message.offset() == 10, "the offset that on_assign set"
    assert events == [("assigned", consumer, [0, 1])]
    assert await consumer.subscription() == [topic]
    assert consumer.memberid()
    assert (await consumer.consumer_group_metadata()) is not None
    await consumer.close()
    assert events[1:] == [("revoked", consumer, [0, 1]), 2], "no on_commit: the commit was awaited"


@in_loop
async def test_callbacks_may_be_plain_functions(client: Client) -> None:
    topic = client.topic(1)
    client.fill(topic, 3)
    events: list[Any] = []
    conf = group(on_commit=lambda error, partitions: events.append((error, partitions[0].offset)))
    consumer = client.consumer(**conf)
    await consumer.subscribe(
        [topic],
        on_assign=lambda _, partitions: events.append(len(partitions)),
        on_revoke=lambda _, partitions: events.append(-len(partitions)),
    )
    assert len(await consumer.consume(3, WAIT_S)) == 3
    await consumer.commit()
    await until(lambda: consumer._engine.callbacks)
    assert await consumer.poll(0) is None
    assert events == [1, (None, 3)]
    await consumer.unsubscribe()
    assert events[2] == -1
    await consumer.close()
    with pytest.raises(TypeError, match="on_assign expects a callable"):
        await client.consumer(**group()).subscribe([topic], on_assign=5)  # type: ignore[arg-type]


@in_loop
async def test_two_members_share_the_partitions_and_lose_nothing(client: Client) -> None:
    topic = client.topic(4)
    client.fill(topic, 400)
    conf = group(**{"auto.commit.interval.ms": 50})
    found: set[tuple[Any, Any]] = set()

    async def on_revoke(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0.01)

    async def read(consumer: AIOConsumer) -> None:
        async for message in consumer:
            found.add((message.partition(), message.offset()))

    first, second = client.consumer(**conf), client.consumer(**conf)
    await first.subscribe([topic], on_revoke=on_revoke)
    readers = [asyncio.create_task(read(first))]
    await until(lambda: len(found) > 100)
    await second.subscribe([topic], on_revoke=on_revoke)
    readers.append(asyncio.create_task(read(second)))
    await until(lambda: len(first._core._control.fetches.assigned) == 2)
    await until(lambda: len(second._core._control.fetches.assigned) == 2)
    client.fill(topic, 100, start=400)
    await until(lambda: len(found) == 500)
    await asyncio.gather(first.close(), second.close())
    await asyncio.gather(*readers)


@in_loop
async def test_exception_of_a_callback_is_raised_by_one_call(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 2)

    async def on_assign(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError("mine")

    def on_revoke(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        raise KeyError("also mine")

    consumer = client.consumer(**group())
    await consumer.subscribe([topic], on_assign=on_assign, on_revoke=on_revoke)
    waits = [asyncio.create_task(consumer.poll(WAIT_S)) for _ in range(3)]
    outcomes = await asyncio.gather(*waits, return_exceptions=True)
    assert [type(each).__name__ for each in outcomes].count("ZeroDivisionError") == 1
    assert sorted(
        each.offset() for each in outcomes if not isinstance(each, BaseException) and each
    ) == [0, 1]
    with pytest.raises(KeyError, match="also mine"):
        await consumer.close()
    with pytest.raises(RuntimeError, match="Consumer closed"):
        await consumer.poll()


@in_loop
async def test_a_cancelled_poll_does_not_end_its_callback(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 1)
    events: list[str] = []
    release = asyncio.Event()

    async def on_assign(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        events.append("begun")
        await release.wait()
        events.append("ended")

    async with client.consumer(**group()) as consumer:
        await consumer.subscribe([topic], on_assign=on_assign)
        polling = asyncio.create_task(consumer.poll())
        await until(lambda: events)
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling
        other = asyncio.create_task(consumer.poll(WAIT_S))
        await asyncio.sleep(0.02)
        assert events == ["begun"]
        assert not other.done(), "no message is returned while a callback runs"
        release.set()
        message = await other
        assert events == ["begun", "ended"]
        assert message is not None
        assert message.offset() == 0


@in_loop
async def test_a_callback_may_close_unsubscribe_and_poll(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 1)
    events: list[Any] = []

    async def close_consumer(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        events.append(await consumer.poll(0))
        await consumer.close()
        events.append("closed")

    async def unsubscribe_consumer(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        await consumer.unsubscribe()
        events.append("unsubscribed")

    consumer = client.consumer(**group())
    await consumer.subscribe([topic], on_assign=close_consumer)
    assert await consumer.poll(WAIT_S) is None
    assert events == [None, "closed"]
    await consumer.close()
    async with client.consumer(**group()) as other:
        await other.subscribe([topic], on_assign=unsubscribe_consumer)
        await other.poll(1.0)
        await until(lambda: events[2:] == ["unsubscribed"])
        assert await other.subscription() == []


@in_loop
async def test_tasks_started_by_a_callback_run_callbacks_too(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 5)
    events: list[str] = []
    found: list[Any] = []
    workers: list[asyncio.Task[None]] = []

    async def work(consumer: AIOConsumer) -> None:
        async for message in consumer:
            found.append(message.offset())  # noqa: PERF401 - read meanwhile

    async def on_assign(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        workers.append(asyncio.create_task(work(consumer)))

    async def on_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        events.append("committed")

    async with client.consumer(**group(on_commit=on_commit)) as consumer:
        await consumer.subscribe([topic], on_assign=on_assign)
        while not workers:
            await consumer.poll(0.1)
        await until(lambda: found)
        await consumer.commit(offsets=[TopicPartition(topic, 0, 3)])
        await until(lambda: events)
    await workers[0]


@in_loop
async def test_error_cb_may_be_a_coroutine(client: Client) -> None:
    events: list[Any] = []

    async def on_error(error: KafkaError) -> None:
        await asyncio.sleep(0)
        events.append(error.code())

    conf = {"bootstrap.servers": "127.0.0.1:1", "error_cb": on_error, "reconnect.backoff.ms": 20}
    async with AIOConsumer({**conf, **group()}) as consumer:
        await consumer.assign([TopicPartition("t", 0, 0)])
        while KafkaError._TRANSPORT not in events:
            await consumer.poll(0.05)
        with pytest.raises(KafkaException):
            await consumer.list_topics(timeout=0.05)
