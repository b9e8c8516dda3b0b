"""Arrow columns in an event loop: consume_arrow() and arrow_stream()."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from typing import Any

import pyarrow
import pytest

from kafka_native import (
    ConsumerInterceptor,
    KafkaError,
    Producer,
    TopicPartition,
)
from kafka_native.aio import AIOConsumer
from kafka_native.codecs import Avro, SchemaLookupError
from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import SchemaRegistryError
from tests.codecs.consume_support import ORDER, FakeRegistry, orders
from tests.waiting import WAIT_S, wait_for

from .columns import Ticks, numbers, values
from .support import Client, group, in_loop, kafka_error, until

# --- consume_arrow() ---


@in_loop
async def test_records_come_as_columns_and_move_positions(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 30_000)
    async with await client.reader(topic) as consumer:
        batch = await consumer.consume_arrow(20_000, WAIT_S, columns=["value", "offset"])
        assert values(batch) == numbers(0, 20_000)
        assert batch.column_names == ["value", "offset"]
        assert batch.positions == {(topic, 0): 20_000}
        message = await consumer.poll(WAIT_S)
        assert message is not None
        assert message.value() == b"20000"
        rest = await consumer.consume_arrow(timeout=0.3, columns={"value": "string"})
        assert values(rest) == [str(number) for number in range(20_001, 30_000)]
        assert len(await consumer.consume_arrow(timeout=0.01)) == 0
        assert len(await consumer.consume_arrow(0)) == 0


@in_loop
async def test_call_waits_for_all_records_without_blocking_the_loop(client: Client) -> None:
    topic = client.topic()
    async with await client.reader(topic) as consumer:
        reading = asyncio.create_task(consumer.consume_arrow(20, WAIT_S))
        for start in (0, 10):
            await asyncio.sleep(0.05)
            assert not reading.done()
            await asyncio.to_thread(client.fill, topic, 10, start)
        assert values(await reading) == numbers(0, 20)


@in_loop
async def test_cancelled_call_loses_no_record(client: Client) -> None:
    topic = client.topic()
    async with await client.reader(topic) as consumer:
        reading = asyncio.create_task(consumer.consume_arrow(1000, WAIT_S))
        client.fill(topic, 50)
        positions = [TopicPartition(topic, 0)]

        await until(lambda: consumer._core.position(positions)[0].offset == 50)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        batch = await consumer.consume_arrow(50, WAIT_S)
        assert values(batch) == numbers(0, 50)
        reading = asyncio.create_task(consumer.consume_arrow(1000, WAIT_S))
        await asyncio.sleep(0.05)
        reading.cancel()  # it has nothing
        client.fill(topic, 1, 50)
        assert values(await consumer.consume_arrow(1, WAIT_S)) == [b"50"]


@in_loop
async def test_many_cancelled_calls_lose_and_repeat_no_record(client: Client) -> None:
    topic = client.topic(3)
    taken: dict[int, list[int]] = {0: [], 1: [], 2: []}
    reader = await client.reader(topic, 3, **{"fetch.wait.max.ms": 10})
    async with client.producer() as producer, reader as consumer:
        rows = pyarrow.table({"value": [b""] * 3000, "partition": [0, 1, 2] * 1000})

        async def produce() -> None:
            for _ in range(20):
                await producer.produce_arrow(topic, rows, partition="partition")
                await asyncio.sleep(0.01)

        producing, cancelled = asyncio.create_task(produce()), 0
        chance = random.Random(7)
        while sum(map(len, taken.values())) < 60_000:
            reading = consumer.consume_arrow(20_000, WAIT_S, columns=["partition", "offset"])
            try:
                batch = await asyncio.wait_for(reading, chance.choice((0.002, 0.02, 0.1)))
            except asyncio.TimeoutError:
                cancelled += 1
                batch = await consumer.consume_arrow(20_000, chance.choice((0, 0.01)))
            offsets = zip(values(batch, "partition"), values(batch, "offset"), strict=True)
            for partition, offset in offsets:
                taken[partition].append(offset)
        await producing
    assert cancelled
    assert taken == {partition: list(range(20_000)) for partition in taken}


@in_loop
async def test_offsets_of_a_cancelled_call_are_not_committed(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 50)
    conf = group()
    where = [TopicPartition(topic, 0)]
    async with client.consumer(**conf) as consumer:
        await consumer.subscribe([topic])
        assert len(await consumer.consume_arrow(20, WAIT_S)) == 20
        reading = asyncio.create_task(consumer.consume_arrow(1000, WAIT_S))
        await until(lambda: consumer._core.position(where)[0].offset == 50)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    async with client.consumer(**conf) as consumer:
        assert [each.offset for each in await consumer.committed(where)] == [20]


@pytest.mark.parametrize("way", ["call", "stream"])
@in_loop
async def test_an_exception_in_the_block_commits_no_record_of_the_last_call(
    client: Client, way: str
) -> None:
    topic = client.topic()
    client.fill(topic, 10)
    conf = group(**{"auto.commit.interval.ms": 3_600_000})
    counts: list[int] = []

    async def fail() -> None:
        async with await client.reader(topic, **conf) as consumer:
            stream = consumer.arrow_stream(3, WAIT_S)
            for _ in range(2):
                next_batch = consumer.consume_arrow(3, WAIT_S) if way == "call" else anext(stream)
                counts.append(len(await next_batch))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert all(counts)
    async with client.consumer(**conf) as consumer:
        where = [TopicPartition(topic, 0)]
        assert (await consumer.committed(where, WAIT_S))[0].offset == counts[0]


@in_loop
async def test_due_callback_ends_the_call_and_runs_in_the_next_one(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 5)
    committed = []
    async with client.consumer(**group(**{"enable.auto.commit": False})) as consumer:
        consumer.on_commit = lambda error, _: committed.append(error)
        await consumer.subscribe([topic])
        assert len(await consumer.consume_arrow(2, WAIT_S)) == 2
        reading = asyncio.create_task(consumer.consume_arrow(1000, WAIT_S))
        where = [TopicPartition(topic, 0)]
        await until(lambda: consumer._core.position(where)[0].offset == 5)
        await consumer.commit(offsets=[TopicPartition(topic, 0, 2)])
        assert values(await reading) == numbers(2, 5)
        assert committed == []
        await consumer.consume_arrow(0)
        assert committed == [None]


@in_loop
async def test_each_record_goes_to_one_of_two_tasks(client: Client) -> None:
    topic = client.topic()
    async with await client.reader(topic) as consumer:
        calls = [asyncio.create_task(consumer.consume_arrow(10, WAIT_S)) for _ in range(2)]
        await asyncio.sleep(0.02)
        client.fill(topic, 20)
        taken = [values(batch) for batch in await asyncio.gather(*calls)]
        assert sorted(taken[0] + taken[1], key=int) == numbers(0, 20)
        assert [len(each) for each in taken] == [10, 10]


@in_loop
async def test_callbacks_run_in_the_loop_before_the_records(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 5)
    seen = []

    async def assigned(_: AIOConsumer, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0)
        seen.append((partitions[0].topic, threading.current_thread()))

    async with client.consumer(**group()) as consumer:
        await consumer.subscribe([topic], on_assign=assigned)
        assert values(await consumer.consume_arrow(5, WAIT_S)) == numbers(0, 5)
        assert seen == [(topic, threading.main_thread())]


@in_loop
async def test_end_of_partition_and_errors(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 3)
    conf: dict[str, Any] = {"enable.partition.eof": True, "auto.offset.reset": "error"}
    async with await client.reader(topic, **conf) as consumer:
        batch = await consumer.consume_arrow(timeout=WAIT_S)
        ends = batch.ends or (await consumer.consume_arrow(timeout=WAIT_S)).ends
        assert len(batch) == 3
        assert [(each.topic, each.offset) for each in ends] == [(topic, 3)]
        await consumer.assign([TopicPartition(topic, 0, 1000)])
        with kafka_error(KafkaError._AUTO_OFFSET_RESET):
            await consumer.consume_arrow(timeout=WAIT_S)
        await consumer.assign([TopicPartition(topic, 0, 0)])
        with pytest.raises(ValueError, match="max_records"):
            await consumer.consume_arrow(-1)
        with pytest.raises(ValueError, match="only topic"):
            await consumer.consume_arrow(columns=["nothing"])
        with pytest.raises(TypeError, match="codec"):
            await consumer.consume_arrow(value="avro")  # type: ignore[arg-type]


@in_loop
async def test_closing_ends_calls_and_further_calls_raise(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 2)
    consumer = await client.reader(topic)
    reading = asyncio.create_task(consumer.consume_arrow(10, WAIT_S))
    stream = consumer.arrow_stream()
    await asyncio.sleep(0.2)
    await consumer.close()
    assert len(await reading) in (0, 2)
    assert [each async for each in stream] == []
    with pytest.raises(RuntimeError, match="closed"):
        await consumer.consume_arrow()
    with pytest.raises(RuntimeError, match="closed"):
        consumer.arrow_stream()


@in_loop
async def test_interceptor_with_on_consume_refuses_columns(client: Client) -> None:
    class Interceptor(ConsumerInterceptor):
        def on_consume(self, messages: Any) -> None:
            pass

    async with await client.reader(client.topic(), interceptors=[Interceptor()]) as consumer:
        with kafka_error(KafkaError._UNSUPPORTED_FEATURE):
            await consumer.consume_arrow()
        with kafka_error(KafkaError._UNSUPPORTED_FEATURE):
            await anext(consumer.arrow_stream())


# --- arrow_stream() ---


@in_loop
async def test_stream_returns_queued_records_and_ends_after_its_timeout(client: Client) -> None:
    topic = client.topic()
    client.fill(topic, 25)
    async with await client.reader(topic) as consumer:
        stream = consumer.arrow_stream(10, 0.3, columns=["value"])
        taken: list[bytes] = []
        async for batch in stream:
            assert 1 <= len(batch) <= 10
            taken += values(batch)
        assert taken == numbers(0, 25)
        client.fill(topic, 1, 25)
        assert values(await anext(stream)) == [b"25"]
        waiting = asyncio.create_task(anext(consumer.arrow_stream()))
        await asyncio.sleep(0.05)
        waiting.cancel()
        client.fill(topic, 1, 26)
        assert values(await anext(consumer.arrow_stream(timeout=WAIT_S))) == [b"26"]
        with pytest.raises(ValueError, match="1 or more"):
            consumer.arrow_stream(0)


@in_loop
async def test_each_record_goes_to_one_of_two_streams(client: Client) -> None:
    topic = client.topic()
    async with await client.reader(topic) as consumer:

        async def read() -> list[bytes]:
            stream = consumer.arrow_stream(10, 0.5)
            return [value async for batch in stream for value in values(batch)]

        reading = asyncio.gather(read(), read())
        await asyncio.to_thread(client.fill, topic, 200)
        first, second = await reading
        assert sorted(first + second, key=int) == numbers(0, 200)


# --- codecs ---


TYPED: dict[str, Any] = {"columns": ["value"], "flatten": True}


@in_loop
async def test_typed_columns_go_there_and_back(client: Client) -> None:
    topic = client.topic()
    rows = pyarrow.table({"number": range(1000)})
    with MockSchemaRegistry() as server:
        avro = Avro(server.url)
        async with client.producer() as producer, await client.reader(topic) as consumer:
            delivery = await producer.produce_arrow(topic, rows, value=avro)
            report = await delivery
            assert (report.rows, report.delivered, report.failed) == (1000, 1000, [])
            batch = await consumer.consume_arrow(400, WAIT_S, value=avro, **TYPED)
            assert values(batch, "number") == list(range(400))
            stream = consumer.arrow_stream(timeout=WAIT_S, value=avro, **TYPED)
            assert values(await anext(stream), "number") == list(range(400, 1000))


def slow_registry(client: Client, topic: str) -> FakeRegistry:
    """Fill a topic with records. Return a registry whose schemas take a while."""
    registry = FakeRegistry()
    number = registry.add(ORDER, f"{topic}-value")
    with Producer(client.conf) as producer:
        for value in orders(number, *range(10)):
            producer.produce(topic, value)
    registry.hook = lambda: time.sleep(0.3)
    return registry


@in_loop
async def test_slow_registry_blocks_no_other_task(client: Client) -> None:
    topic = client.topic()
    registry = slow_registry(client, topic)
    async with await client.reader(topic) as consumer:
        ticks = Ticks()
        ticking = asyncio.create_task(ticks.run())

        def answer_later() -> None:
            before = ticks.count
            wait_for(lambda: ticks.count > before + 3, "the other task while the registry is asked")

        registry.hook = answer_later
        batch = await consumer.consume_arrow(10, WAIT_S, value=Avro(registry), **TYPED)
        ticking.cancel()
        assert values(batch, "id") == list(range(10))
        assert registry.asked


@in_loop
async def test_cancelled_look_up_loses_no_record(client: Client) -> None:
    topic = client.topic()
    registry = slow_registry(client, topic)
    avro = Avro(registry, schema=ORDER)  # asks for the writer's schema when a record needs it
    async with await client.reader(topic) as consumer:
        reading = asyncio.create_task(consumer.consume_arrow(10, WAIT_S, value=avro, **TYPED))
        await until(lambda: registry.asked)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        batch = await consumer.consume_arrow(10, WAIT_S, value=avro, **TYPED)
        assert values(batch, "id") == list(range(10))


@in_loop
async def test_close_commits_no_record_of_a_call_cancelled_in_a_look_up(client: Client) -> None:
    topic = client.topic()
    registry = slow_registry(client, topic)
    other = registry.add({**ORDER, "doc": "another"}, "other")
    with Producer(client.conf) as producer:
        producer.produce(topic, orders(other, 10)[0])
    asked, closed = threading.Event(), threading.Event()

    def answer_later() -> None:
        if registry.asked[-1] == other:
            asked.set()
            closed.wait(WAIT_S)

    registry.hook = answer_later
    conf = group()
    consumer = await client.reader(topic, **conf)
    reading = asyncio.create_task(consumer.consume_arrow(11, WAIT_S, value=Avro(registry), **TYPED))
    await until(asked.is_set)
    where = [TopicPartition(topic, 0)]
    assert consumer._core.position(where)[0].offset == 10
    assert (await consumer.position(where))[0].offset == 0
    closing = asyncio.create_task(consumer.close())
    await asyncio.sleep(0.05)
    reading.cancel()
    await closing
    closed.set()
    with pytest.raises(asyncio.CancelledError):
        await reading
    async with client.consumer(**conf) as other_consumer:
        assert (await other_consumer.committed(where, WAIT_S))[0].offset < 1


@in_loop
async def test_look_up_that_fails_returns_earlier_records_first(client: Client) -> None:
    topic = client.topic()
    registry = slow_registry(client, topic)
    other = registry.add({**ORDER, "doc": "another"}, "other")
    with Producer(client.conf) as producer:
        producer.produce(topic, orders(other, 10)[0])
    avro = Avro(registry)

    def fail_for_other() -> None:
        if registry.asked[-1] == other:
            raise SchemaRegistryError(503, -1, "down")

    registry.hook = fail_for_other
    async with await client.reader(topic) as consumer:
        batch = await consumer.consume_arrow(11, WAIT_S, value=avro, **TYPED)
        assert values(batch, "id") == list(range(10))
        with pytest.raises(SchemaLookupError, match="at offset 10"):
            await consumer.consume_arrow(1, WAIT_S, value=avro, **TYPED)
        registry.hook = lambda: None
        batch = await consumer.consume_arrow(1, WAIT_S, value=avro, **TYPED)
        assert values(batch, "id") == [10]
        await consumer.seek(TopicPartition(topic, 0, 0))
        batch = await consumer.consume_arrow(11, WAIT_S, value=Avro(registry), **TYPED)
        assert values(batch, "id") == list(range(11))  # both schemas are asked for in one call
