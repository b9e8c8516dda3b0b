"""AIOConsumer: exceptions of callbacks and of close(), each raised once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafka_native import TopicPartition
from kafka_native.aio import AIOConsumer
from tests.waiting import WAIT_S

from .support import Client, group, in_loop, until

Partitions = list[TopicPartition]


def fail(_: AIOConsumer, __: Partitions) -> None:
    raise ZeroDivisionError("mine")


async def close(consumer: AIOConsumer, _: Partitions) -> None:
    await consumer.close()


async def member(client: Client, on_revoke: Any = fail) -> AIOConsumer:
    """Return a consumer with a partition, whose ``on_revoke`` raises."""
    topic = client.topic()
    client.fill(topic, 3)
    consumer = client.consumer(**group())
    await consumer.subscribe([topic], on_revoke=on_revoke)
    assert await consumer.poll(WAIT_S) is not None
    return consumer


@in_loop
async def test_second_close_does_nothing_after_an_exception(client: Client) -> None:
    consumer = await member(client)
    with pytest.raises(ZeroDivisionError):
        await consumer.close()
    await consumer.close()


@in_loop
async def test_one_of_several_calls_of_close_raises_the_exception(client: Client) -> None:
    consumer = await member(client)
    calls = [consumer.close() for _ in range(3)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each) for each in outcomes] == [ZeroDivisionError, type(None), type(None)]


@in_loop
async def test_next_close_raises_the_exception_after_a_cancelled_one(client: Client) -> None:
    begun = asyncio.Event()

    async def fail_later(_: AIOConsumer, __: Partitions) -> None:
        begun.set()
        await asyncio.sleep(0.05)
        raise ZeroDivisionError("mine")

    consumer = await member(client, fail_later)
    closing = asyncio.create_task(consumer.close())
    await begun.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    with pytest.raises(ZeroDivisionError):
        await consumer.close()
    await consumer.close()


@pytest.mark.parametrize("call", ["poll", "consume", "consume_arrow", "iterate"])
@in_loop
async def test_call_whose_callback_closes_raises_the_exception_of_on_revoke(
    client: Client, call: str
) -> None:
    topic = client.topic()
    consumer = client.consumer(**group())
    await consumer.subscribe([topic], on_assign=close, on_revoke=fail)
    with pytest.raises(ZeroDivisionError):
        await {
            "poll": lambda: consumer.poll(WAIT_S),
            "consume": lambda: consumer.consume(1, WAIT_S),
            "consume_arrow": lambda: consumer.consume_arrow(1, WAIT_S),
            "iterate": lambda: anext(consumer),
        }[call]()
    assert consumer._core._client.closed, "it waits until the consumer is closed"
    await consumer.close()


@in_loop
async def test_close_raises_the_exception_if_the_call_was_cancelled(client: Client) -> None:
    begun = asyncio.Event()

    async def close_later(consumer: AIOConsumer, partitions: Partitions) -> None:
        begun.set()
        await asyncio.sleep(0.02)
        await consumer.close()

    consumer = client.consumer(**group())
    await consumer.subscribe([client.topic()], on_assign=close_later, on_revoke=fail)
    polling = asyncio.create_task(consumer.poll(WAIT_S))
    await begun.wait()
    polling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await polling
    await until(lambda: consumer._closing)
    with pytest.raises(ZeroDivisionError):
        await consumer.close()


@in_loop
async def test_unsubscribe_ends_when_its_callback_closes(client: Client) -> None:
    consumer = await member(client, close)
    await asyncio.wait_for(consumer.unsubscribe(), WAIT_S)
    assert consumer._core._client.closed


@in_loop
async def test_unsubscribe_ends_when_another_task_closes(client: Client) -> None:
    consumer = await member(client, None)
    await asyncio.wait_for(asyncio.gather(consumer.unsubscribe(), consumer.close()), WAIT_S)


async def await_cancelled() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


@in_loop
async def test_cancelled_error_of_a_callback_is_raised(client: Client) -> None:
    async def cancelled(_: AIOConsumer, __: Partitions) -> None:
        await await_cancelled()

    topic = client.topic()
    client.fill(topic, 1)
    consumer = client.consumer(**group())
    await consumer.subscribe([topic], on_assign=cancelled, on_revoke=cancelled)
    with pytest.raises(RuntimeError, match="a callback raised CancelledError"):
        await consumer.poll(WAIT_S)
    assert await consumer.poll(WAIT_S) is not None, "the partition is assigned all the same"
    with pytest.raises(RuntimeError, match="a callback raised CancelledError"):
        await consumer.close()
    assert consumer._core._client.closed
