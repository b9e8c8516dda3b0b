"""AIOConsumer in a group: rebalance callbacks, plain and coroutines, commits, and exceptions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafka_native import KafkaError, KafkaException, TopicPartition
from kafka_native.aio import AIOConsumer
from tests.waiting import WAIT_S

from .support import Client, group, run, until


def test_coroutine_callbacks_are_awaited(client: Client) -> None:
    topic = client.topic(2)
    client.fill(topic, 100)
    heard: list[Any] = []

    async def on_assign(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0.02)
        heard.append(("assigned", consumer, sorted(each.partition for each in partitions)))
        for each in partitions:
            each.offset = 10
        await consumer.assign(partitions)

    async def on_revoke(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        heard.append(("revoked", consumer, sorted(each.partition for each in partitions)))
        await consumer.commit(offsets=[TopicPartition(topic, 0, 11)], asynchronous=False)
        await asyncio.sleep(0.02)
        heard.append(len(await consumer.assignment()))

    async def on_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0)
        heard.append((error, partitions[0].offset))

    async def main() -> None:
        consumer = client.consumer(**group(on_commit=on_commit, **{"enable.auto.commit": False}))
        await consumer.subscribe([topic], on_assign=on_assign, on_revoke=on_revoke)
        message = await consumer.poll(WAIT_S)
        assert message is not None
        assert message.offset() == 10, "where the callback has put it"
        assert heard == [("assigned", consumer, [0, 1])]
        assert await consumer.subscription() == [topic]
        assert consumer.memberid()
        assert (await consumer.consumer_group_metadata()) is not None
        await consumer.close()
        assert heard[1:] == [("revoked", consumer, [0, 1]), 2, (None, 11)]

    run(main())


def test_plain_functions_will_do(client: Client) -> None:
    topic = client.topic(1)
    client.fill(topic, 3)
    heard: list[Any] = []

    async def main() -> None:
        conf = group(
            on_commit=lambda error, partitions: heard.append((error, partitions[0].offset))
        )
        consumer = client.consumer(**conf)
        await consumer.subscribe(
            [topic],
            on_assign=lambda it, partitions: heard.append(len(partitions)),
            on_revoke=lambda it, partitions: heard.append(-len(partitions)),
        )
        assert len(await consumer.consume(3, WAIT_S)) == 3
        await consumer.commit()
        await until(lambda: consumer._engine.callbacks)
        assert await consumer.poll(0) is None
        assert heard == [1, (None, 3)]
        await consumer.unsubscribe()
        assert heard[2] == -1
        await consumer.close()
        with pytest.raises(TypeError, match="on_assign expects a callable"):
            await client.consumer(**group()).subscribe([topic], on_assign=5)  # type: ignore[arg-type]

    run(main())


def test_two_members_share_and_nothing_is_lost(client: Client) -> None:
    topic = client.topic(4)
    client.fill(topic, 400)

    async def main() -> None:
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

    run(main())


def test_what_a_callback_raises_comes_out_of_one_call(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 2)

    async def on_assign(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError("mine")

    def on_revoke(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        raise KeyError("also mine")

    async def main() -> None:
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

    run(main())


def test_a_cancelled_poll_does_not_end_its_callback(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 1)
    heard: list[str] = []

    async def main() -> None:
        release = asyncio.Event()

        async def on_assign(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
            heard.append("begun")
            await release.wait()
            heard.append("ended")

        async with client.consumer(**group()) as consumer:
            await consumer.subscribe([topic], on_assign=on_assign)
            polling = asyncio.create_task(consumer.poll())
            await until(lambda: heard)
            polling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await polling
            other = asyncio.create_task(consumer.poll(WAIT_S))
            await asyncio.sleep(0.02)
            assert heard == ["begun"]
            assert not other.done(), "nothing is taken while a callback runs"
            release.set()
            message = await other
            assert heard == ["begun", "ended"]
            assert message is not None
            assert message.offset() == 0

    run(main())


def test_a_callback_may_close_unsubscribe_and_poll(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 1)
    heard: list[Any] = []

    async def closes(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        heard.append(await consumer.poll(0))
        await consumer.close()
        heard.append("closes")

    async def leaves(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
        await consumer.unsubscribe()
        heard.append("leaves")

    async def main() -> None:
        consumer = client.consumer(**group())
        await consumer.subscribe([topic], on_assign=closes)
        assert await consumer.poll(WAIT_S) is None
        assert heard == [None, "closes"]
        await consumer.close()
        async with client.consumer(**group()) as other:
            await other.subscribe([topic], on_assign=leaves)
            await other.poll(1.0)
            await until(lambda: heard[2:] == ["leaves"])
            assert await other.subscription() == []

    run(main())


def test_tasks_that_a_callback_has_started_make_callbacks_too(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 5)
    heard: list[str] = []

    async def main() -> None:
        found: list[Any] = []
        workers: list[asyncio.Task[None]] = []

        async def work(consumer: AIOConsumer) -> None:
            async for message in consumer:
                found.append(message.offset())  # noqa: PERF401 - looked at meanwhile

        async def on_assign(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
            workers.append(asyncio.create_task(work(consumer)))

        async def on_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
            heard.append("committed")

        async with client.consumer(**group(on_commit=on_commit)) as consumer:
            await consumer.subscribe([topic], on_assign=on_assign)
            while not workers:
                await consumer.poll(0.1)
            await until(lambda: found)
            await consumer.commit(offsets=[TopicPartition(topic, 0, 3)])
            await until(lambda: heard)
        await workers[0]

    run(main())


def test_error_cb_may_be_a_coroutine(client: Client) -> None:
    heard: list[Any] = []

    async def on_error(error: KafkaError) -> None:
        await asyncio.sleep(0)
        heard.append(error.code())

    async def main() -> None:
        conf = {
            "bootstrap.servers": "127.0.0.1:1",
            "error_cb": on_error,
            "reconnect.backoff.ms": 20,
        }
        async with AIOConsumer({**conf, **group()}) as consumer:
            await consumer.assign([TopicPartition("t", 0, 0)])
            while KafkaError._TRANSPORT not in heard:
                await consumer.poll(0.05)
            with pytest.raises(KafkaException):
                await consumer.list_topics(timeout=0.05)

    run(main())
