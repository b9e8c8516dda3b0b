"""Roles of a Client in an event loop."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest

from kafka_native import Client as SharedClient
from kafka_native import Producer
from kafka_native.aio import AIOAdminClient, AIOConsumer, AIOProducer
from tests.waiting import WAIT_S

from .support import Client, in_loop, until


def control_threads() -> set[str]:
    names = (thread.name for thread in threading.enumerate())
    return {name for name in names if name.startswith("kafka-native")}


@in_loop
async def test_roles_of_asyncio_work_together(client: Client) -> None:
    topic, before = client.topic(), control_threads()
    conf = {"group.id": "aio-shared", "auto.offset.reset": "earliest"}
    async with SharedClient(client.conf) as shared:
        producer = shared.producer(of=AIOProducer)
        consumer = shared.consumer(conf, of=AIOConsumer)
        assert type(producer) is AIOProducer
        await consumer.subscribe([topic])
        for number in range(3):
            message = await (await producer.produce(topic, str(number)))
            assert message.error() is None
        found = [await consumer.poll(WAIT_S) for _ in range(3)]
        assert [message and message.value() for message in found] == [b"0", b"1", b"2"]
        assert len(control_threads() - before) == 1
    for call in (producer.produce(topic, b""), consumer.poll(0)):
        with pytest.raises(RuntimeError, match="closed"):
            await call


@in_loop
async def test_aclose_delivers_the_messages_of_all_roles(client: Client) -> None:
    topic = client.topic()
    shared = SharedClient(client.conf)
    awaited = shared.producer({"linger.ms": 200_000}, of=AIOProducer)
    plain = shared.producer({"linger.ms": 200_000})
    reports: list[Any] = []
    delivery = await awaited.produce(topic, b"1")
    plain.produce(topic, b"2", on_delivery=lambda error, message: reports.append(error))
    await shared.aclose(WAIT_S)
    assert (await delivery).error() is None
    assert reports == [None]
    await shared.aclose()


@in_loop
async def test_an_error_of_a_role_is_raised_at_the_end(client: Client) -> None:
    topic = client.topic()
    shared = SharedClient(client.conf)
    conf = {"group.id": "aio-raises", "auto.offset.reset": "earliest"}
    consumer = shared.consumer(conf, of=AIOConsumer)

    def fail(*_: Any) -> None:
        raise ValueError("in on_revoke")

    await consumer.subscribe([topic], on_revoke=fail)
    producer = shared.producer(of=AIOProducer)
    await (await producer.produce(topic, b"x"))
    assert await consumer.poll(WAIT_S) is not None
    plain = shared.producer()
    with pytest.raises(ValueError, match="in on_revoke"):
        await shared.aclose()
    with pytest.raises(RuntimeError):
        plain.produce(topic, b"")


@in_loop
async def test_close_without_a_loop_ends_asyncios_roles(client: Client) -> None:
    topic = client.topic()
    shared = SharedClient(client.conf)
    producer = shared.producer(of=AIOProducer)
    await (await producer.produce(topic, b"x"))
    shared.close()
    with pytest.raises(RuntimeError, match="closed"):
        await producer.produce(topic, b"y")


@in_loop
async def test_an_admin_client_of_asyncio_uses_the_connections(client: Client) -> None:
    topic = client.topic(2)
    async with SharedClient(client.conf) as shared:
        admin = AIOAdminClient.of(shared)
        assert len((await admin.list_topics(topic)).topics[topic].partitions) == 2
        await admin.close()
        producer = shared.producer(of=AIOProducer)
        assert topic in (await producer.list_topics(topic)).topics


@in_loop
async def test_a_dropped_role_leaves_the_others(client: Client) -> None:
    topic = client.topic()
    async with SharedClient(client.conf) as shared:
        role: Any = shared.producer(of=AIOProducer)
        await (await role.produce(topic, b"x"))
        core = weakref.ref(role._core._client)
        del role
        await until(lambda: gc.collect() >= 0 and core() is None)
        other = shared.producer(of=AIOProducer)
        assert (await (await other.produce(topic, b"y"))).offset() == 1
        assert type(shared.producer()) is Producer
