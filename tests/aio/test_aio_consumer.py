"""AIOConsumer: messages, timeouts, cancellation, many tasks, close()."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from kafka_native import KafkaError, KafkaException, Message, TopicPartition
from kafka_native.aio import AIOConsumer
from kafka_native.interceptors import ConsumerInterceptor
from kafka_native.mock import MockCluster
from tests.waiting import WAIT_S

from .support import Client, group, in_loop, kafka_error, run, until


async def poll(consumer: AIOConsumer) -> Message:
    message = await consumer.poll(WAIT_S)
    assert message is not None
    return message


@in_loop
async def test_round_trip_with_headers(client: Client) -> None:
    topic = client.topic()
    async with client.producer() as producer, await client.reader(topic) as consumer:
        for number in range(20):  # one at a time: the loop waits for each
            await producer.produce(topic, str(number), headers={"number": str(number)})
            message = await poll(consumer)
            assert (message.offset(), message.headers()) == (number, [("number", b"%d" % number)])


@in_loop
async def test_messages_come_in_order(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 5000)
    async with await client.reader(topic) as consumer:
        offsets = [(await poll(consumer)).offset() for _ in range(2000)]
        offsets += [message.offset() for message in await consumer.consume(1000, WAIT_S)]
        async for message in consumer:
            offsets.append(message.offset())
            if len(offsets) == 5000:
                break
        assert offsets == list(range(5000))
        assert await consumer.poll(0) is None
        assert await consumer.consume(5, 0) == []


@in_loop
async def test_timeouts(client: Client) -> None:
    topic = client.topic()
    async with await client.reader(topic) as consumer:
        started = time.monotonic()
        assert await consumer.poll(0.1) is None
        assert await consumer.consume(3, timeout=0.1) == []
        assert time.monotonic() - started >= 0.19
        assert await consumer.consume(0) == []
        for wrong in (-1, 1_000_001):
            with pytest.raises(ValueError, match="num_messages must be between 0 and 1000000"):
                await consumer.consume(wrong)
        with pytest.raises(ValueError, match="isn't a number"):
            await consumer.poll(float("nan"))
        client.fill(topic, 3)
        assert [message.offset() for message in await consumer.consume(10, 1.0)] == [0, 1, 2]
        client.fill(topic, 1)
        assert [message.offset() for message in await consumer.consume(None, WAIT_S)] == [3]
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(consumer.poll(), 0.05)


@in_loop
async def test_cancelled_waits_lose_nothing(client: Client) -> None:
    topic = client.topic()
    offsets: list[int | None] = []
    async with (
        client.producer(**{"linger.ms": 0}) as producer,
        await client.reader(topic) as consumer,
    ):
        for number in range(60):
            waiting = asyncio.create_task(
                consumer.poll() if number % 2 else consumer.consume(3, 30.0)
            )
            if number % 3:
                await asyncio.sleep(0)
            await (await producer.produce(topic, str(number)))
            if number % 5 == 0:
                await asyncio.sleep(0.005)
            waiting.cancel()
            try:
                outcome = await waiting
            except asyncio.CancelledError:
                continue
            offsets += [
                each.offset() for each in (outcome if isinstance(outcome, list) else [outcome])
            ]
        while len(offsets) < 60:
            offsets.append((await poll(consumer)).offset())
        assert offsets == list(range(60))


@in_loop
async def test_messages_of_a_cancelled_consume_are_returned_again(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 10)
    async with await client.reader(topic, **{"enable.partition.eof": True}) as consumer:
        waiting = asyncio.create_task(consumer.consume(1000, WAIT_S))
        partition = TopicPartition(topic, 0)
        await until(lambda: consumer._core.position([partition])[0].offset == 10)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        offsets: list[int | None] = []
        while len(offsets) < 10:
            message = await poll(consumer)
            if message.error() is None:
                offsets.append(message.offset())
        assert offsets == list(range(10))


@in_loop
async def test_many_tasks_share_the_messages(client: Client) -> None:
    topic = client.topic(2)
    found: list[tuple[Any, Any]] = []

    async def read(consumer: AIOConsumer) -> None:
        while len(found) < 2000:
            message = await consumer.poll(0.5)
            if message is not None:
                found.append((message.partition(), message.offset()))

    async with client.producer() as producer, await client.reader(topic, 2) as consumer:
        readers = [asyncio.create_task(read(consumer)) for _ in range(50)]
        for number in range(2000):
            await producer.produce(topic, str(number), partition=number % 2)
            if number % 100 == 0:
                await asyncio.sleep(0.001)
        await asyncio.gather(*readers)
    assert sorted(found) == [
        (partition, offset) for partition in range(2) for offset in range(1000)
    ]


@in_loop
async def test_close_ends_waits(client: Client) -> None:
    topic = client.topic()
    consumer = await client.reader(topic)

    async def iterate() -> list[Message]:
        return [message async for message in consumer]

    waits = [
        asyncio.create_task(each) for each in (consumer.poll(), consumer.consume(5), iterate())
    ]
    await asyncio.sleep(0)
    await asyncio.gather(consumer.close(), consumer.close())
    assert await asyncio.gather(*waits) == [None, [], []]
    await consumer.close()
    for call in (
        consumer.poll,
        consumer.consume,
        consumer.assignment,
        consumer.unassign,
        consumer.unsubscribe,
    ):
        with pytest.raises(RuntimeError, match="Consumer closed"):
            await call()
    assert [message async for message in consumer] == []


@in_loop
async def test_waiting_calls_do_not_block_the_loop(client: Client, cluster: MockCluster) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    consumer = client.consumer(**{"bootstrap.servers": "127.0.0.1:1", **group()})
    ticking = asyncio.create_task(tick())
    for call in (consumer.list_topics, consumer.committed, consumer.offsets_for_times):
        before = ticks
        with pytest.raises(KafkaException):
            await (
                call(timeout=0.1)
                if call == consumer.list_topics
                else call([TopicPartition("t", 0, 0)], 0.1)
            )
        assert ticks > before + 2
    listing = asyncio.create_task(consumer.list_topics(timeout=WAIT_S))
    await asyncio.sleep(0.01)
    listing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listing
    await consumer.close()
    ticking.cancel()


@pytest.mark.parametrize("way", ["poll", "iterate", "consume"])
@in_loop
async def test_an_exception_in_the_block_commits_no_message_of_the_last_call(
    client: Client, way: str
) -> None:
    topic = client.topic()
    client.fill(topic, 10)
    partition = TopicPartition(topic, 0)
    conf = group(**{"auto.commit.interval.ms": 3_600_000})

    async def fail() -> None:
        async with await client.reader(topic, **conf) as consumer:
            if way == "consume":
                assert len(await consumer.consume(3, WAIT_S)) == 3
                assert len(await consumer.consume(4, WAIT_S)) == 4
            for _ in range(0 if way == "consume" else 4):
                await (poll(consumer) if way == "poll" else anext(aiter(consumer)))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with client.consumer(**conf) as consumer:
        assert (await consumer.committed([partition], WAIT_S))[0].offset == 3


@in_loop
async def test_positions_and_offsets(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 10)
    partition = TopicPartition(topic, 0)
    conf = group(**{"enable.auto.commit": False, "enable.auto.offset.store": False})
    async with await client.reader(topic, **conf) as consumer:
        assert await consumer.get_watermark_offsets(partition, WAIT_S) == (0, 10)
        message = await poll(consumer)
        await consumer.seek(TopicPartition(topic, 0, 7))
        assert [each.offset() for each in await consumer.consume(3, WAIT_S)] == [7, 8, 9]
        await consumer.seek_to_beginning([partition])
        assert (await poll(consumer)).offset() == 0
        assert (await consumer.position([partition]))[0].offset == 1
        await consumer.seek_to_end()
        await consumer.seek_to_time(1)
        assert (await poll(consumer)).offset() == 0
        assert (await consumer.offsets_for_times([TopicPartition(topic, 0, 1)], WAIT_S))[
            0
        ].offset == 0
        await consumer.pause([partition])
        assert [each.topic for each in await consumer.paused()] == [topic]
        await consumer.resume(iter([partition]))
        await consumer.store_offsets(message)
        assert [each.offset for each in await consumer.commit(asynchronous=False) or []] == [1]
        assert await consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
        assert (await consumer.committed([partition], WAIT_S))[0].offset == 4
        assert list((await consumer.lag()).values()) == [9]
        assert await consumer.lag_max() == 9
        with kafka_error(KafkaError._CONFLICT):
            await consumer.incremental_assign([partition])
        await consumer.incremental_unassign([partition])
        assert await consumer.assignment() == []
        await consumer.incremental_assign([partition])
        await consumer.unassign()
        with pytest.raises(TypeError, match="a list of TopicPartition is expected"):
            await consumer.assign("topic")  # type: ignore[arg-type]
        assert (await consumer.list_topics(topic, WAIT_S)).topics[topic].error is None
        assert (consumer.memberid(), consumer.fatal_error()) == (None, None)


@in_loop
async def test_an_error_is_a_message_and_iteration_raises_it(
    cluster: MockCluster, client: Client
) -> None:
    topic = client.topic()
    client.fill(topic, 3)
    cluster.corrupt_next_fetch(topic, 0)
    async with await client.reader(topic) as consumer:
        error = (await poll(consumer)).error()
        assert error is not None
        assert "checksum" in error.str()
        assert (await poll(consumer)).offset() == 0
        await consumer.close()
    cluster.corrupt_next_fetch(topic, 0)
    async with await client.reader(topic) as consumer:
        with pytest.raises(KafkaException, match="checksum"):
            await consumer.__anext__()
        assert (await consumer.__anext__()).offset() == 0


@in_loop
async def test_interceptors_see_the_returned_messages(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 4)
    seen: list[int | None] = []

    class Recorder(ConsumerInterceptor):
        def on_consume(self, messages: list[Message]) -> None:
            seen.extend(message.offset() for message in messages)

    async with await client.reader(topic, interceptors=[Recorder()]) as consumer:
        await poll(consumer)
        await consumer.consume(2, WAIT_S)
        await consumer.__anext__()
    assert seen == [0, 1, 2, 3]


def test_consumer_works_in_a_second_loop(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 3)
    kept: list[AIOConsumer] = []

    async def first() -> None:
        kept.append(await client.reader(topic))
        assert (await poll(kept[0])).offset() == 0
        assert await consumer_is_idle(kept[0]) is None

    async def consumer_is_idle(consumer: AIOConsumer) -> Message | None:
        await consumer.consume(2, WAIT_S)
        return await consumer.poll(0.05)

    async def second() -> None:
        client.fill(topic, 1)
        assert (await poll(kept[0])).offset() == 3
        await kept[0].close()

    run(first())
    run(second())


@in_loop
async def test_calls_let_other_tasks_run(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 1)
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with await client.reader(topic) as consumer:
        ticking = asyncio.create_task(tick())
        for _ in range(5):
            before = turns
            await consumer.poll(0)
            assert turns > before
        while turns < 100:
            await consumer.seek(TopicPartition(topic, 0, 0))
            await poll(consumer)
        ticking.cancel()


@in_loop
async def test_constructor_arguments_of_confluent_kafka_are_accepted(client: Client) -> None:
    conf = {**client.conf, **group()}
    await AIOConsumer(conf, max_workers=3).close()
    await AIOConsumer(consumer_conf=conf, max_workers=2, executor=None).close()
    with pytest.raises(ValueError, match="max_workers must be at least 1"):
        AIOConsumer(conf, max_workers=0)
    with pytest.raises(KafkaException, match="No such configuration property"):
        AIOConsumer({"nonsense": 1})
