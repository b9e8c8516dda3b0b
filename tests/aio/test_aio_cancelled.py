"""AIOConsumer: messages of calls that are cancelled or ended, and what is committed then."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from kafka_native import OFFSET_STORED, Consumer, KafkaException, TopicPartition
from kafka_native.aio import AIOConsumer
from tests.waiting import WAIT_S

from .support import Client, group, in_loop, until

TakeAll = Callable[[AIOConsumer], Awaitable[Any]]
"""A call that waits for more messages than there are."""

CALLS: dict[str, TakeAll] = {
    "consume": lambda consumer: consumer.consume(1000, WAIT_S),
    "consume_arrow": lambda consumer: consumer.consume_arrow(1000, WAIT_S),
}
each_call = pytest.mark.parametrize(
    "call", [pytest.param(call, id=name) for name, call in CALLS.items()]
)


def committed(client: Client, conf: dict[str, Any], topic: str, partition: int = 0) -> int:
    """Return the committed offset of a partition, 0 without one."""
    with Consumer({**client.conf, **conf}) as consumer:
        found = consumer.committed([TopicPartition(topic, partition)], WAIT_S)
        return max(0, found[0].offset)


def start(consumer: AIOConsumer, call: TakeAll) -> asyncio.Task[Any]:
    async def take() -> Any:
        return await call(consumer)

    return asyncio.create_task(take())


def has_taken_all(consumer: AIOConsumer, topic: str) -> bool:
    return consumer._core.position([TopicPartition(topic, 0)])[0].offset == 10


async def taking(consumer: AIOConsumer, call: TakeAll, topic: str) -> asyncio.Task[Any]:
    """Start a call and return it when it has taken all ten messages and waits for more."""
    task = start(consumer, call)
    await until(lambda: has_taken_all(consumer, topic))
    return task


async def after_cancel(
    consumer: AIOConsumer, call: TakeAll, topic: str, then: Callable[[], Awaitable[Any]]
) -> Any:
    """Cancel a call that has taken all ten messages. Its task calls ``then`` at once."""

    async def take() -> Any:
        with pytest.raises(asyncio.CancelledError):
            await call(consumer)
        return await then()

    task = asyncio.create_task(take())
    await until(lambda: has_taken_all(consumer, topic))
    task.cancel()
    return await task


async def commit(consumer: AIOConsumer, topic: str) -> object:
    done = await consumer.commit(asynchronous=False)
    return done and done[0].offset


async def position(consumer: AIOConsumer, topic: str) -> object:
    return (await consumer.position([TopicPartition(topic, 0)]))[0].offset


async def unassign(consumer: AIOConsumer, topic: str) -> object:
    await consumer.unassign()  # commits
    while (offset := (await consumer.committed([TopicPartition(topic, 0)]))[0].offset) < 2:
        await asyncio.sleep(0.01)
    return offset


@each_call
@pytest.mark.parametrize("ask", [commit, position, unassign])
@in_loop
async def test_the_next_call_counts_no_message_of_a_cancelled_call(
    client: Client, call: TakeAll, ask: Callable[[AIOConsumer, str], Awaitable[object]]
) -> None:
    topic = client.topic()
    client.fill(topic, 10)
    conf = group(**{"auto.commit.interval.ms": 3_600_000})
    async with await client.reader(topic, **conf) as consumer:
        assert len(await consumer.consume(2, WAIT_S)) == 2
        await consumer.committed([TopicPartition(topic, 0)])  # the coordinator is known
        offset = await after_cancel(consumer, call, topic, lambda: ask(consumer, topic))
        assert offset == 2


@each_call
@in_loop
async def test_messages_of_a_waiting_call_do_not_count_for_other_tasks(
    client: Client, call: TakeAll
) -> None:
    topic = client.topic()
    client.fill(topic, 10)
    conf = group(**{"enable.auto.commit": False})
    async with await client.reader(topic, **conf) as consumer:
        assert len(await consumer.consume(2, WAIT_S)) == 2
        task = await taking(consumer, call, topic)
        assert await position(consumer, topic) == 2
        assert await commit(consumer, topic) == 2
        with pytest.raises(KafkaException, match="_NO_OFFSET"):
            await consumer.commit(asynchronous=False)
        task.cancel()
        await asyncio.wait([task])
        assert len(await consumer.consume(8, WAIT_S)) == 8
        assert await commit(consumer, topic) == 10
    assert await asyncio.to_thread(committed, client, conf, topic) == 10


@each_call
@pytest.mark.parametrize("before", [0, 2])
@in_loop
async def test_commit_has_no_messages_that_a_call_takes_after_it(
    client: Client, call: TakeAll, before: int
) -> None:
    topic = client.topic()
    client.fill(topic, 10)
    conf = group(**{"enable.auto.commit": False})
    async with await client.reader(topic, **conf) as consumer:
        if before:
            assert len(await consumer.consume(before, WAIT_S)) == before
        await consumer.committed([TopicPartition(topic, 0)])  # the coordinator is known
        assigned = consumer._core._control.fetches.assigned[topic, 0]
        await until(lambda: assigned.cursor is not None)  # its broker thread fetches
        busy = threading.Event()
        consumer._core._client.main.post(partial(busy.wait, WAIT_S))
        committing = asyncio.create_task(consumer.commit(asynchronous=False))
        await asyncio.sleep(0)
        task = await taking(consumer, call, topic)
        busy.set()
        await asyncio.wait([committing])
        task.cancel()
        await asyncio.wait([task])
    assert await asyncio.to_thread(committed, client, conf, topic) == before


@in_loop
async def test_commit_after_a_seek_moves_back(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 10)
    async with await client.reader(topic, **group(**{"enable.auto.commit": False})) as consumer:
        assert len(await consumer.consume(10, WAIT_S)) == 10
        assert await commit(consumer, topic) == 10
        await consumer.seek(TopicPartition(topic, 0, 4))
        assert len(await consumer.consume(1, WAIT_S)) == 1
        assert await commit(consumer, topic) == 5


@each_call
@in_loop
async def test_a_seek_after_a_cancelled_call_stays(client: Client, call: TakeAll) -> None:
    topic = client.topic()
    client.fill(topic, 10)
    async with await client.reader(topic) as consumer:
        where = TopicPartition(topic, 0, 7)
        await after_cancel(consumer, call, topic, lambda: consumer.seek(where))
        assert [each.offset() for each in await consumer.consume(3, WAIT_S)] == [7, 8, 9]


@each_call
@pytest.mark.parametrize("turns", range(4))
@in_loop
async def test_close_commits_no_message_of_a_call_cancelled_meanwhile(
    client: Client, call: TakeAll, turns: int
) -> None:
    topic = client.topic()
    client.fill(topic, 10)
    conf = group()
    consumer = await client.reader(topic, **conf)
    assert len(await consumer.consume(2, WAIT_S)) == 2
    task = await taking(consumer, call, topic)
    closing = asyncio.create_task(consumer.close())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await closing
    outcomes = await asyncio.gather(task, return_exceptions=True)
    returned = 0 if isinstance(outcomes[0], BaseException) else len(outcomes[0])
    assert await asyncio.to_thread(committed, client, conf, topic) == 2 + returned


@in_loop
async def test_close_commits_no_message_of_several_cancelled_calls(client: Client) -> None:
    topic = client.topic(2)
    conf = group()
    consumer = await client.reader(topic, 2, **conf)
    tasks = []
    async with client.producer() as producer:
        for number, call in enumerate(CALLS.values()):
            partition = TopicPartition(topic, number)
            await consumer.pause([TopicPartition(topic, 1 - number)])
            await consumer.resume([partition])
            await (await producer.produce(topic, b"x", partition=number))
            tasks.append(start(consumer, call))
            await until(lambda at=partition: consumer._core.position([at])[0].offset == 1)  # type: ignore[misc]
    closing = asyncio.create_task(consumer.close())
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await closing
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)
    for number in range(2):
        assert await asyncio.to_thread(committed, client, conf, topic, number) == 0


@each_call
@in_loop
async def test_close_commits_the_messages_that_it_makes_a_call_return(
    client: Client, call: TakeAll
) -> None:
    topic = client.topic()
    client.fill(topic, 10)
    conf = group()
    consumer = await client.reader(topic, **conf)
    task = await taking(consumer, call, topic)
    await consumer.close()
    assert len(await task) == 10
    assert await asyncio.to_thread(committed, client, conf, topic) == 10


CHANGES: dict[str, Callable[[AIOConsumer, str], Awaitable[None]]] = {
    "unassign": lambda consumer, topic: consumer.unassign(),
    "incremental_unassign": lambda consumer, topic: consumer.incremental_unassign(
        [TopicPartition(topic, 0)]
    ),
    "assign": lambda consumer, topic: consumer.assign([TopicPartition(topic, 1, 0)]),
}


@each_call
@pytest.mark.parametrize("change", [pytest.param(each, id=name) for name, each in CHANGES.items()])
@pytest.mark.parametrize("turns", [0, 1, 3, 100])
@in_loop
async def test_a_message_of_a_call_cancelled_after_its_partition_is_gone_comes_again(
    client: Client,
    call: TakeAll,
    change: Callable[[AIOConsumer, str], Awaitable[None]],
    turns: int,
) -> None:
    topic = client.topic(2)
    async with client.producer() as producer:
        for number in range(10):
            await (await producer.produce(topic, str(number), partition=0))
    async with await client.reader(topic, **group()) as consumer:
        assert len(await consumer.consume(2, WAIT_S)) == 2
        await consumer.committed([TopicPartition(topic, 0)])  # the coordinator is known
        task = await taking(consumer, call, topic)
        changing = asyncio.ensure_future(change(consumer, topic))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await changing
        with pytest.raises(asyncio.CancelledError):
            await task
        await consumer.assign([TopicPartition(topic, 0, OFFSET_STORED)])
        assert [each.offset() for each in await consumer.consume(8, WAIT_S)] == [*range(2, 10)]


@each_call
@pytest.mark.parametrize("polls", [False, True])
@pytest.mark.parametrize("turns", [*range(6), 100])
@in_loop
async def test_leaving_the_group_commits_only_messages_that_calls_return(
    client: Client, call: TakeAll, polls: bool, turns: int
) -> None:
    topic, conf = client.topic(), group()
    client.fill(topic, 10)
    async with client.consumer(**conf) as consumer:
        await consumer.subscribe([topic])
        assert len(await consumer.consume(2, WAIT_S)) == 2
        task = await taking(consumer, call, topic)
        others = [asyncio.create_task(consumer.unsubscribe())]
        if polls:
            others.append(asyncio.create_task(consumer.poll(0)))  # type: ignore[arg-type]
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait(others)
        outcomes = await asyncio.gather(task, return_exceptions=True)
        returned = 0 if isinstance(outcomes[0], BaseException) else len(outcomes[0])
    assert await asyncio.to_thread(committed, client, conf, topic) == 2 + returned


@in_loop
async def test_a_coroutine_that_is_dropped_gives_its_messages_back(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 10)
    async with await client.reader(topic) as consumer:
        call: Any = consumer.consume(1000, WAIT_S)
        while not has_taken_all(consumer, topic):
            waiter = call.send(None)  # as its task does
            if waiter is None:  # from `asyncio.sleep(0)`
                await asyncio.sleep(0)
                continue
            waiter._asyncio_future_blocking = False
            await asyncio.wait([waiter], timeout=0.1)
        call.close()
        assert await position(consumer, topic) == 0
