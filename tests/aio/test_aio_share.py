"""AIOShareConsumer: a share group in an event loop, on the mock cluster."""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
from typing import Any

import pyarrow
import pytest

from kafka_native import (
    AcknowledgeType,
    ConcurrentModificationException,
    IllegalStateException,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from kafka_native import Client as SharedClient
from kafka_native.aio import AIODeserializingShareConsumer, AIOShareConsumer
from kafka_native.mock import MockCluster
from kafka_native.mock.share_partitions import State
from kafka_native.serialization import SerializationContext
from tests.waiting import WAIT_S

from .support import Client, in_loop, until

EXPLICIT = {"share.acknowledgement.mode": "explicit"}
_numbers = itertools.count()


@pytest.fixture
def group(cluster: MockCluster) -> str:
    """A name for a share group. Groups of this cluster begin at the earliest offset."""
    cluster.share.settings.auto_offset_reset = "earliest"
    return f"aio-share-{next(_numbers)}"


@pytest.fixture
def topic(cluster: MockCluster) -> str:
    name = f"aio-shared-{next(_numbers)}"
    cluster.create_topic(name, 1)
    return name


def conf_of(client: Client, group: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": client.cluster.bootstrap_servers,
        "group.id": group,
        "fetch.wait.max.ms": 50,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def fill(client: Client, topic: str, count: int, start: int = 0) -> None:
    with Producer({"bootstrap.servers": client.cluster.bootstrap_servers}) as producer:
        for number in range(start, start + count):
            producer.produce(topic, str(number))


async def take(consumer: AIOShareConsumer, count: int) -> list[Message]:
    found: list[Message] = []
    while len(found) < count:
        found += await consumer.poll(WAIT_S)
    assert len(found) == count
    return found


@in_loop
async def test_iteration_returns_each_record_once(client: Client, topic: str, group: str) -> None:
    fill(client, topic, 500)
    seen: list[int] = []
    async with AIOShareConsumer(conf_of(client, group, max_poll_records=50)) as consumer:
        await consumer.subscribe([topic])
        assert await consumer.subscription() == [topic]
        async for message in consumer:
            seen.append(int(message.value() or b""))
            if len(seen) == 500:
                break
        assert await consumer.commit_sync() == {TopicPartition(topic, 0): None}
    assert seen == list(range(500))
    assert client.cluster.share.start_offset(group, topic, 0) == 500
    assert client.cluster.share.members(group) == []


@in_loop
async def test_tasks_acknowledge_while_one_polls(client: Client, topic: str, group: str) -> None:
    fill(client, topic, 20)
    async with AIOShareConsumer(conf_of(client, group), **EXPLICIT) as consumer:
        await consumer.subscribe([topic])
        messages = await take(consumer, 20)
        for each in messages:
            consumer.acknowledge(each, AcknowledgeType.RENEW)

        async def work(message: Message) -> None:
            await asyncio.sleep(0)
            consumer.acknowledge(message)

        polling = asyncio.create_task(consumer.poll())
        await asyncio.sleep(0)
        with pytest.raises(ConcurrentModificationException, match="polls"):
            await consumer.poll(0)
        await asyncio.gather(*map(work, messages))
        assert await consumer.commit_sync() == {TopicPartition(topic, 0): None}
        assert client.cluster.share.start_offset(group, topic, 0) == 20
        fill(client, topic, 1, 20)
        (last,) = await polling
        consumer.acknowledge_offset(topic, 0, 20, AcknowledgeType.REJECT)
        assert await consumer.commit_sync() == {TopicPartition(topic, 0): None}
        assert last.offset() == 20


@in_loop
async def test_cancelled_poll_loses_no_record(client: Client, topic: str, group: str) -> None:
    async with AIOShareConsumer(conf_of(client, group)) as consumer:
        await consumer.subscribe([topic])
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(consumer.poll(), 0.05)
        fill(client, topic, 10)
        assert {each.delivery_count() for each in await take(consumer, 10)} == {1}


@in_loop
async def test_poll_has_a_timeout_and_lets_other_tasks_run(
    client: Client, topic: str, group: str
) -> None:
    ran: list[bool] = []

    async def other() -> None:
        ran.append(True)

    async with AIOShareConsumer(conf_of(client, group)) as consumer:
        with pytest.raises(IllegalStateException, match="subscribed"):
            await consumer.poll(0)
        await consumer.subscribe([topic])
        task = asyncio.create_task(other())
        assert (await consumer.poll(0)).is_empty()
        assert ran
        await task
        assert (await consumer.poll(0.05)).is_empty()
        with pytest.raises(TypeError):
            await consumer.poll(None)  # type: ignore[arg-type]


@in_loop
async def test_wakeup_ends_a_poll_and_an_iteration(client: Client, topic: str, group: str) -> None:
    async with AIOShareConsumer(conf_of(client, group)) as consumer:
        await consumer.subscribe([topic])
        polling = asyncio.create_task(consumer.poll())
        await asyncio.sleep(0.01)
        thread = threading.Thread(target=consumer.wakeup)
        thread.start()
        assert (await polling).is_empty()
        thread.join()
        consumer.wakeup()
        assert [each async for each in consumer] == []


@pytest.mark.parametrize("kind", ["function", "coroutine"])
@in_loop
async def test_the_commit_callback_runs_in_the_loop(
    client: Client, topic: str, group: str, kind: str
) -> None:
    fill(client, topic, 3)
    seen: list[Any] = []
    refused: list[str] = []

    def note(offsets: dict[TopicPartition, set[int]], error: KafkaException | None) -> None:
        seen.append((offsets, error))

    async def slow(offsets: dict[TopicPartition, set[int]], error: KafkaException | None) -> None:
        await asyncio.sleep(0)
        for call in (consumer.poll(0), consumer.commit_sync(), consumer.close()):
            with pytest.raises(IllegalStateException, match="callback"):
                await call
            refused.append("")
        note(offsets, error)

    async with AIOShareConsumer(conf_of(client, group)) as consumer:
        consumer.set_acknowledgement_commit_callback(note if kind == "function" else slow)
        await consumer.subscribe([topic])
        await take(consumer, 3)
        assert await consumer.commit_sync() == {TopicPartition(topic, 0): None}
        assert seen == [({TopicPartition(topic, 0): {0, 1, 2}}, None)]
        fill(client, topic, 1, 3)
        await take(consumer, 1)
        await consumer.commit_async()

        async def polled() -> None:
            while len(seen) < 2:
                await consumer.poll(0.05)

        await asyncio.wait_for(polled(), WAIT_S)
    assert seen[1] == ({TopicPartition(topic, 0): {3}}, None)
    assert len(refused) == (0 if kind == "function" else 6)


@in_loop
async def test_exceptions_of_callbacks_are_raised(client: Client, topic: str, group: str) -> None:
    fill(client, topic, 1)

    async def fail(offsets: object, error: object) -> None:
        raise ZeroDivisionError

    async with AIOShareConsumer(conf_of(client, group)) as consumer:
        consumer.set_acknowledgement_commit_callback(fail)
        await consumer.subscribe([topic])
        await take(consumer, 1)
        with pytest.raises(ZeroDivisionError):
            await consumer.commit_sync()
        fill(client, topic, 1, 1)
        await take(consumer, 1)
        await consumer.commit_async()
        with pytest.raises(ZeroDivisionError):
            await consumer.close()
    assert client.cluster.share.start_offset(group, topic, 0) == 2


@in_loop
async def test_columns_are_acknowledged_by_a_mask(client: Client, topic: str, group: str) -> None:
    fill(client, topic, 4)
    async with AIOShareConsumer({**conf_of(client, group), **EXPLICIT}) as consumer:
        await consumer.subscribe([topic])
        batch = await consumer.consume_arrow(WAIT_S, columns=["value"])
        assert pyarrow.record_batch(batch)["value"].to_pylist() == [b"0", b"1", b"2", b"3"]
        consumer.acknowledge_arrow(batch)
        consumer.acknowledge_arrow(batch, AcknowledgeType.RELEASE, mask=[False, False, False, True])
        assert await consumer.commit_sync() == {TopicPartition(topic, 0): None}
        assert client.cluster.share.start_offset(group, topic, 0) == 3
        again = await consumer.consume_arrow(WAIT_S, columns=["delivery_count"])
        assert pyarrow.record_batch(again)["delivery_count"].to_pylist() == [2]
        consumer.acknowledge_arrow(again)
        assert len(await consumer.consume_arrow(0.05)) == 0


@in_loop
async def test_unsubscribing_releases_records(client: Client, topic: str, group: str) -> None:
    fill(client, topic, 2)
    async with AIOShareConsumer(conf_of(client, group)) as consumer:
        await consumer.unsubscribe()
        await consumer.subscribe([topic])
        await take(consumer, 2)
        await consumer.unsubscribe()
        assert client.cluster.share.members(group) == []
        assert client.cluster.share.record(group, topic, 0, 0) == (State.AVAILABLE, 1)
        await consumer.subscribe([topic])
        assert {each.delivery_count() for each in await take(consumer, 2)} == {2}


@in_loop
async def test_close_ends_polls_and_further_calls_raise(
    client: Client, topic: str, group: str
) -> None:
    consumer = AIOShareConsumer(conf_of(client, group))
    await consumer.subscribe([topic])
    polling = asyncio.create_task(consumer.poll())
    await until(lambda: client.cluster.share.session_count() > 0)
    await asyncio.gather(consumer.close(), consumer.close())
    assert (await polling).is_empty()
    assert client.cluster.share.members(group) == []
    await consumer.close()
    assert [each async for each in consumer] == []
    assert "closed" in repr(consumer)
    for call in (consumer.poll, consumer.commit_sync, consumer.commit_async, consumer.unsubscribe):
        with pytest.raises(IllegalStateException, match="closed"):
            await call()  # type: ignore[operator]
    for made in (
        consumer.subscribe([topic]),
        consumer.consume_arrow(),
        consumer.subscription(),
        consumer.client_instance_id(),
        consumer.set_sasl_credentials("a", "b"),
    ):
        with pytest.raises(IllegalStateException, match="closed"):
            await made
    with pytest.raises(IllegalStateException, match="closed"):
        consumer.acknowledge_offset(topic, 0, 0)
    with pytest.raises(IllegalStateException, match="closed"):
        consumer.set_acknowledgement_commit_callback(None)


@in_loop
async def test_refused_acknowledgement_is_the_result(
    client: Client, topic: str, group: str
) -> None:
    fill(client, topic, 1)
    async with AIOShareConsumer(conf_of(client, group)) as consumer:
        await consumer.subscribe([topic])
        await take(consumer, 1)
        client.cluster.share.expire_locks(group)
        (error,) = (await consumer.commit_sync()).values()
        assert error is not None
        assert error.args[0].code() == KafkaError.INVALID_RECORD_STATE
        assert (await consumer.metrics()).client_id
        assert consumer.fatal_error() is None


@in_loop
async def test_dropped_consumer_leaves_its_group(client: Client, topic: str, group: str) -> None:
    consumer = AIOShareConsumer(conf_of(client, group))
    await consumer.subscribe([topic])
    await consumer.poll(0.05)
    await until(lambda: client.cluster.share.members(group))
    del consumer
    gc.collect()
    await until(lambda: not client.cluster.share.members(group))


@in_loop
async def test_it_may_be_a_role_of_a_shared_client(client: Client, topic: str, group: str) -> None:
    fill(client, topic, 3)
    conf = conf_of(client, group)
    with SharedClient({"bootstrap.servers": conf.pop("bootstrap.servers")}) as shared:
        async with shared.share_consumer(conf, of=AIOShareConsumer) as consumer:
            assert await consumer.brokers_add("127.0.0.1:1") == 1
            await consumer.subscribe([topic])
            await take(consumer, 3)
            assert await consumer.commit_sync() == {TopicPartition(topic, 0): None}
    assert client.cluster.share.start_offset(group, topic, 0) == 3


@in_loop
async def test_deserializers_may_be_coroutines(client: Client, topic: str, group: str) -> None:
    with Producer({"bootstrap.servers": client.cluster.bootstrap_servers}) as producer:
        producer.produce(topic, b"value", b"key")
        producer.produce(topic, b"\xff", b"key")
    blocked = asyncio.Event()
    calls: list[str] = []

    async def text(data: bytes | None, context: SerializationContext | None) -> str:
        calls.append("begun")
        await blocked.wait()
        return (data or b"").decode()

    conf = {**conf_of(client, group), **EXPLICIT, "value.deserializer": text}
    async with await AIODeserializingShareConsumer(
        {**conf, "key.deserializer": lambda data, _: (data or b"").decode()}
    ) as consumer:
        await consumer.subscribe([topic])
        polling = asyncio.create_task(consumer.poll(WAIT_S))
        await until(lambda: calls)
        with pytest.raises(ConcurrentModificationException):
            await consumer.poll(0)
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling
        blocked.set()
        good, bad = await consumer.poll(WAIT_S)
        assert (good.key(), good.value()) == ("key", "value")
        error = bad.error()
        assert error is not None
        assert error.code() == KafkaError._VALUE_DESERIALIZATION
        assert bad.value() == b"\xff"
        consumer.acknowledge(good)
        consumer.acknowledge(bad, AcknowledgeType.REJECT)
        assert await consumer.commit_sync() == {TopicPartition(topic, 0): None}
    assert client.cluster.share.start_offset(group, topic, 0) == 2


@in_loop
async def test_iteration_ends_with_close(client: Client, topic: str, group: str) -> None:
    fill(client, topic, 5)
    consumer = AIOShareConsumer(conf_of(client, group))
    await consumer.subscribe([topic])
    assert (await anext(consumer)).offset() == 0
    closing = asyncio.ensure_future(consumer.close())
    await asyncio.sleep(0)  # close() has begun
    for _ in range(2):
        with pytest.raises(StopAsyncIteration):
            await anext(consumer)
        await closing
    async with AIOShareConsumer(conf_of(client, group)) as other:
        await other.subscribe([topic])
        assert len(await take(other, 5)) == 5  # close() has released all of them


@in_loop
async def test_subscribing_to_nothing_releases_records_and_awaits_callbacks(
    client: Client, topic: str, group: str
) -> None:
    fill(client, topic, 3)
    committed: list[set[int]] = []

    async def on_commit(offsets: dict[TopicPartition, set[int]], _: KafkaException | None) -> None:
        committed.extend(offsets.values())

    async with AIOShareConsumer({**conf_of(client, group), **EXPLICIT}) as consumer:
        consumer.set_acknowledgement_commit_callback(on_commit)
        await consumer.subscribe([topic])
        consumer.acknowledge(await anext(consumer))
        await consumer.subscribe([])
        assert committed == [{0}]
        with pytest.raises(IllegalStateException, match="not subscribed"):
            await anext(consumer)


class Blocked:
    """A consumer whose poll() was cancelled while it awaited a deserializer."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.calls = 0

    async def text(self, data: bytes | None, context: SerializationContext | None) -> str:
        self.calls += 1
        await self.ready.wait()
        return (data or b"").decode()

    async def poll(self, client: Client, topic: str, group: str) -> Any:
        """Return a consumer of five records after the cancelled call."""
        fill(client, topic, 5)
        consumer: Any = await AIODeserializingShareConsumer(
            {**conf_of(client, group), "value.deserializer": self.text}
        )
        await consumer.subscribe([topic])
        polling = asyncio.ensure_future(consumer.poll(WAIT_S))
        await until(lambda: self.calls)
        polling.cancel()
        await asyncio.wait([polling])
        self.ready.set()
        return consumer


@in_loop
async def test_no_commit_accepts_records_of_a_cancelled_poll(
    client: Client, topic: str, group: str
) -> None:
    shared = client.cluster.share
    async with await Blocked().poll(client, topic, group) as consumer:
        assert await consumer.commit_sync() == {}
        await consumer.commit_async()
        assert len(await consumer.consume_arrow(0.05)) == 0
        assert await consumer.commit_sync() == {}
        assert {shared.record(group, topic, 0, each)[0] for each in range(5)} == {State.ACQUIRED}
        assert len(await consumer.poll(WAIT_S)) == 5
        assert await consumer.commit_sync() == {TopicPartition(topic, 0): None}
    assert shared.start_offset(group, topic, 0) == 5


@in_loop
async def test_closing_and_unsubscribing_release_records_of_a_cancelled_poll(
    client: Client, topic: str, group: str
) -> None:
    consumer = await Blocked().poll(client, topic, group)
    await consumer.unsubscribe()
    async with AIOShareConsumer(conf_of(client, group)) as other:
        await other.subscribe([topic])
        await take(other, 5)
        await consumer.subscribe([topic])
        assert (await consumer.poll(0.05)).is_empty()
    await consumer.close()
    consumer = await Blocked().poll(client, topic, group)
    await consumer.close()
    with pytest.raises(IllegalStateException, match="closed"):
        await consumer.poll(0)


@pytest.mark.parametrize("ends", ["close", "unsubscribe"])
@in_loop
async def test_poll_returns_no_record_that_was_released_during_the_call(
    client: Client, topic: str, group: str, ends: str
) -> None:
    blocked = Blocked()
    consumer = await blocked.poll(client, topic, group)
    blocked.ready.clear()
    polling = asyncio.ensure_future(consumer.poll(WAIT_S))
    await until(lambda: blocked.calls == 2)
    await getattr(consumer, ends)()
    blocked.ready.set()
    assert (await polling).is_empty()
    await consumer.close()
