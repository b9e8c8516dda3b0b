"""AsyncSerializingProducer and AsyncDeserializingConsumer in an event loop, on the mock cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kafka_native import Consumer, TopicPartition
from kafka_native.aio import AsyncDeserializingConsumer, AsyncSerializingProducer
from kafka_native.serialization import SerializationContext
from tests.waiting import WAIT_S

from .support import Client, group, in_loop, until


class SlowText:
    """A deserializer that waits while it is blocked."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.begun = 0
        self.block_at = 0  # the number of the call that waits

    async def __call__(self, data: bytes | None, context: SerializationContext | None) -> str:
        self.begun += 1
        if self.begun > self.block_at:
            await self.ready.wait()
        return (data or b"").decode()


async def consumer_of(client: Client, value: SlowText, **conf: Any) -> Any:
    return await AsyncDeserializingConsumer(
        {**client.conf, **group(**conf), "value.deserializer": value}
    )


async def cancelled(call: Coroutine[Any, Any, Any], value: SlowText, begun: int) -> None:
    """Cancel a call while it awaits the deserializer."""
    task = asyncio.ensure_future(call)
    await until(lambda: value.begun >= begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("call", "blocked_at"),
    [
        (lambda consumer: consumer.poll(WAIT_S), 1),
        (lambda consumer: consumer.consume(5, WAIT_S), 3),
        (lambda consumer: anext(consumer), 1),
    ],
    ids=["poll", "consume", "iteration"],
)
@in_loop
async def test_call_cancelled_in_a_deserializer_loses_no_message(
    client: Client, call: Callable[[Any], Any], blocked_at: int
) -> None:
    topic, value = client.topic(), SlowText()
    client.fill(topic, 5)
    value.block_at = blocked_at - 1
    async with await consumer_of(client, value) as consumer:
        await consumer.subscribe([topic])
        await cancelled(call(consumer), value, blocked_at)
        value.ready.set()
        assert [(await consumer.poll(WAIT_S)).value() for _ in range(5)] == list("01234")
        assert await consumer.poll(0.05) is None


@in_loop
async def test_calls_cancelled_together_lose_no_message(client: Client) -> None:
    topic, value = client.topic(), SlowText()
    client.fill(topic, 6)
    async with await consumer_of(client, value) as consumer:
        await consumer.assign([TopicPartition(topic, 0, 0)])
        tasks = []
        for count in (1, 2, 3):
            call = consumer.consume(2, WAIT_S)
            tasks.append(asyncio.ensure_future(call))
            await until(lambda: value.begun >= count)  # noqa: B023
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        value.ready.set()
        assert [(await consumer.poll(WAIT_S)).value() for _ in range(6)] == list("012345")


@in_loop
async def test_message_of_a_cancelled_poll_is_not_committed(client: Client) -> None:
    topic, value = client.topic(), SlowText()
    client.fill(topic, 2)
    name = str(group()["group.id"])

    async def work() -> None:
        async with await consumer_of(client, value, **{"group.id": name}) as consumer:
            await consumer.subscribe([topic])
            assert (await consumer.poll(WAIT_S)).value() == "0"
            await consumer.poll(WAIT_S)

    value.block_at = 1
    await cancelled(work(), value, 2)
    with Consumer({**client.conf, "group.id": name}) as reader:
        assert reader.committed([TopicPartition(topic, 0)])[0].offset == 1


@in_loop
async def test_auto_commit_leaves_out_a_message_that_was_given_back(client: Client) -> None:
    """The position was noted for the next commit while the message was in the call's hands."""
    topic, value = client.topic(), SlowText()
    client.fill(topic, 2)
    name = str(group()["group.id"])
    async with await consumer_of(
        client, value, **{"group.id": name, "auto.commit.interval.ms": 20}
    ) as consumer:
        await consumer.subscribe([topic])
        for _ in range(2):  # the second call shows that the application goes on
            value.begun = 0
            task = asyncio.ensure_future(consumer.poll(WAIT_S))
            await until(lambda: value.begun)
            await asyncio.sleep(0.2)
            task.cancel()
            await asyncio.wait([task])
    with Consumer({**client.conf, "group.id": name}) as reader:
        assert reader.committed([TopicPartition(topic, 0)])[0].offset < 1


@in_loop
async def test_seek_during_a_cancelled_poll_takes_effect(client: Client) -> None:
    topic, value = client.topic(), SlowText()
    client.fill(topic, 5)
    async with await consumer_of(client, value) as consumer:
        await consumer.assign([TopicPartition(topic, 0, 0)])
        task = asyncio.ensure_future(consumer.poll(WAIT_S))
        await until(lambda: value.begun)
        await consumer.seek(TopicPartition(topic, 0, 3))
        task.cancel()
        await asyncio.wait([task])
        value.ready.set()
        assert (await consumer.poll(WAIT_S)).value() == "3"


class Serde:
    """A serializer and a deserializer that notes its end."""

    closed = False

    def __call__(self, value: Any, context: SerializationContext | None) -> Any:
        return value

    def close(self) -> None:
        self.closed = True

    def build(self, conf: dict[str, Any], is_key: bool) -> tuple[Serde, dict[str, Any]]:
        return self, conf


@in_loop
async def test_close_closes_built_deserializers_after_an_exception(client: Client) -> None:
    topic, built = client.topic(), Serde()

    def on_revoke(consumer: Any, partitions: list[TopicPartition]) -> None:
        raise ZeroDivisionError

    consumer: Any = await AsyncDeserializingConsumer(
        {**client.conf, **group(), "value.deserializer.builder": built}
    )
    await consumer.subscribe([topic], on_revoke=on_revoke)
    while not await consumer.assignment():
        await consumer.poll(0.01)
    with pytest.raises(ZeroDivisionError):
        await consumer.close()
    assert built.closed


@in_loop
async def test_cancelled_close_closes_built_serializers(client: Client) -> None:
    built = Serde()
    conf = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "value.serializer.builder": built}
    producer: Any = await AsyncSerializingProducer(conf)
    report = await producer.produce("nowhere", value=b"x")
    closing = asyncio.ensure_future(producer.close(0.2))
    await asyncio.sleep(0.05)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert built.closed
    await asyncio.wait([asyncio.ensure_future(_outcome(report))])


async def _outcome(report: Any) -> None:
    with pytest.raises(Exception, match="closed"):
        await report
