"""The same awaited calls on confluent_kafka.aio and on kafka_native.aio, on one mock cluster.

`tests/broker/test_aio_side_by_side.py` makes them on a real Apache Kafka.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kafka_native import KafkaError
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.aio.support import run
from tests.compat.aio_calls import (
    CONSUMER_CALLS,
    MESSAGES,
    PRODUCER_CALLS,
)
from tests.compat.sides import BASE_MS, BOTH, Side, Stage, assert_same, on_both
from tests.waiting import WAIT_S

pytest.importorskip("confluent_kafka.aio", reason="this confluent_kafka has no aio")


def producer_of(side: Side, batch_size: int = 1000, buffer_timeout: float = 0, **conf: Any) -> Any:
    """Return an AIOProducer that keeps messages until a flush, or until it has a batch of them."""
    whole = side.producing(**{"topic_metadata_propagation_max_ms": 500, **conf})
    return side.lib.aio.AIOProducer(whole, batch_size=batch_size, buffer_timeout=buffer_timeout)


def consumer_of(side: Side, **conf: Any) -> Any:
    whole = side.consuming(**{"topic_metadata_propagation_max_ms": 500, **conf})
    return side.lib.aio.AIOConsumer(whole, max_workers=8)


def assert_both(cluster: Stage, use: Callable[[Side], Awaitable[Any]]) -> None:
    """Check that both libraries have the same result, each in a new event loop."""

    async def used(side: Side) -> Any:
        return await use(side)

    assert_same(cluster, lambda side: run(used(side)))


async def outcome(call: Callable[[], Awaitable[Any]]) -> Any:
    """Return the result of a call, or the class of its exception and the name of its error."""
    try:
        return await call()
    except Exception as error:
        name = getattr(error.args[0], "name", None) if error.args else None
        return type(error).__name__, name() if callable(name) else ""


def report_of(message: Any) -> list[Any]:
    """Return the fields of a delivery report that don't depend on the time."""
    fields = (
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        message.error(),
    )
    return [*fields, message.timestamp()[0]]


async def next_of(consumer: Any) -> Any:
    """Return the next message. confluent_kafka's poll() may also return None early."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        message = await consumer.poll(1)
        if message is not None:
            return message
    raise AssertionError("no message in time")


async def poll_until(client: Any, condition: Callable[[], object]) -> None:
    """Poll until a condition is true or the time is over."""
    deadline = time.monotonic() + WAIT_S
    while not condition() and time.monotonic() < deadline:
        await client.poll(0.05)


async def consumed(consumer: Any, count: int) -> list[Any]:
    """Return this number of messages from consume()."""
    got: list[Any] = []
    deadline = time.monotonic() + WAIT_S
    while len(got) < count:
        assert time.monotonic() < deadline, f"{len(got)} of {count} messages in time"
        got += await consumer.consume(num_messages=count - len(got), timeout=1)
    return got


# --- producing ---


@pytest.mark.parametrize("batch_size", [1, 2, 1000])
def test_deliveries_of_batches(cluster: Stage, batch_size: int) -> None:
    async def use(side: Side) -> Any:
        async with producer_of(side, batch_size, linger_ms=60_000) as producer:
            deliveries = [
                await producer.produce(side.topic, f"v{number}", "k", partition=1)
                for number in range(5)
            ]
            deliveries.append(
                await producer.produce(topic=side.topic, value=None, key=b"k", partition=0)
            )
            before = len(producer), [asyncio.isfuture(each) for each in deliveries]
            left = await producer.flush(WAIT_S)
            messages = [report_of(each) for each in await asyncio.gather(*deliveries)]
            states = [(each.done(), each.cancelled(), each.exception()) for each in deliveries]
            return (
                before,
                left,
                messages,
                states,
                report_of(deliveries[0].result()),
                len(producer),
                bool(producer),
            )

    assert_both(cluster, use)


@on_both
async def test_a_batch_is_sent_after_its_buffer_timeout(side: Side) -> Any:
    async with producer_of(side, buffer_timeout=0.1) as producer:
        delivery = await producer.produce(side.topic, "x", partition=0)
        deadline = time.monotonic() + WAIT_S
        served = 0
        while not delivery.done() and time.monotonic() < deadline:
            served += await producer.poll(0.05)
        return report_of(await asyncio.wait_for(delivery, WAIT_S)), type(served).__name__


@on_both
async def test_a_full_batch_needs_no_flush(side: Side) -> Any:
    async with producer_of(side, 3) as producer:
        deliveries = [
            await producer.produce(side.topic, str(number), partition=0) for number in range(3)
        ]
        await poll_until(producer, lambda: all(each.done() for each in deliveries))
        return [report_of(each.result()) for each in deliveries]


@on_both
async def test_keys_choose_the_partition(side: Side) -> Any:
    async with producer_of(side, partitioner="murmur2_random") as producer:
        deliveries = [
            await producer.produce(side.topic, "x", f"key {number}") for number in range(20)
        ]
        await producer.flush(WAIT_S)
        return [(await each).partition() for each in deliveries]


@on_both
async def test_leaving_the_block_delivers(side: Side) -> Any:
    async with producer_of(side, linger_ms=60_000) as producer:
        delivery = await producer.produce(side.topic, "x", partition=0)
    return delivery.done(), report_of(await delivery), len(producer)


@on_both
async def test_an_executor_can_be_given(side: Side) -> Any:
    with ThreadPoolExecutor(2) as executor:
        conf = {"bootstrap.servers": side.servers, "group.id": side.group, "log_level": 0}
        producer = side.lib.aio.AIOProducer({"bootstrap.servers": side.servers}, executor=executor)
        delivery = await producer.produce(side.topic, "x", partition=0)
        await producer.flush(WAIT_S)
        consumer = side.lib.aio.AIOConsumer(conf, executor=executor)
        await consumer.assign([side.at(0, 0)])
        message = await next_of(consumer)
        await consumer.close()
        await producer.close()
        return report_of(await delivery), message.value(), message.offset()


async def sent(side: Side, message: dict[str, Any]) -> Any:
    """Return the report of a message, or the exception of produce(), flush() or the report."""
    producer = producer_of(side, message_max_bytes=2000)

    async def deliver() -> Any:
        delivery = await producer.produce(**{"topic": side.topic, **message})
        await producer.flush(WAIT_S)
        return report_of(await delivery)

    try:
        return side.plain(await outcome(deliver))
    finally:
        # confluent_kafka retries at each flush the messages that it could not queue
        await producer.purge()
        await producer.close()


@pytest.mark.parametrize("name", MESSAGES)
def test_each_message_has_the_same_outcome(cluster: Stage, name: str) -> None:
    theirs, ours = (run(sent(Side(lib, cluster), MESSAGES[name])) for lib in BOTH)
    assert ours == theirs


@pytest.mark.parametrize("batch_size", [1, 2, 1000])
@on_both
async def test_a_purge_ends_reports(side: Side, batch_size: int) -> Any:
    """It cancels the reports of messages in the buffer. Those of other messages fail."""
    producer = producer_of(side, batch_size, linger_ms=60_000)
    deliveries = [await producer.produce(side.topic, "x", partition=0) for _ in range(3)]
    returned = await producer.purge()
    left = await producer.flush(WAIT_S)
    ended = [
        "cancelled" if each.cancelled() else await outcome(lambda each=each: each)
        for each in deliveries
    ]
    await producer.close()
    return returned, left, ended


@pytest.mark.parametrize("name", ["value int", "partition str", "topic int", "bytearray"])
@pytest.mark.parametrize("batch_size", [1, 1000])
@on_both
async def test_produce_or_flush_raises_what_the_report_has(
    side: Side, name: str, batch_size: int
) -> Any:
    producer = producer_of(side, batch_size)

    async def produce() -> str:
        return type(await producer.produce(**{"topic": side.topic, **MESSAGES[name]})).__name__

    produced = await outcome(produce)
    flushed = await outcome(lambda: producer.flush(WAIT_S))
    await producer.purge()
    await producer.close()
    return isinstance(produced, tuple) and produced, batch_size == 1 or flushed


@on_both
async def test_a_given_executor_is_shut_down_by_the_producer_only(side: Side) -> Any:
    executors = ThreadPoolExecutor(2), ThreadPoolExecutor(2)
    conf = {"bootstrap.servers": side.servers, "log_level": 0}
    producer = side.lib.aio.AIOProducer(conf, executor=executors[0])
    consumer = side.lib.aio.AIOConsumer({**conf, "group.id": "g"}, executor=executors[1])
    same = producer.executor is executors[0], consumer.executor is executors[1]
    await producer.close()
    await consumer.close()
    found = [side.tried(lambda each=each: each.submit(len, "x").result()) for each in executors]
    executors[1].shutdown()
    return same, found


@on_both
async def test_classes_that_hooks_put_in_place_are_used(side: Side) -> Any:
    calls: list[str] = []
    producer_class, consumer_class = side.lib.Producer, side.lib.Consumer

    class HookedProducer(producer_class):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            calls.append("producer")
            super().__init__(*args, **kwargs)

        def produce(self, *args: Any, **kwargs: Any) -> None:
            raise AssertionError("AIOProducer doesn't call it")

    class HookedConsumer(consumer_class):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            calls.append("consumer")
            super().__init__(*args, **kwargs)

        def poll(self, *args: Any, **kwargs: Any) -> Any:
            message = super().poll(*args, **kwargs)
            if message is not None:
                calls.append("poll")
            return message

    async def on_assign(consumer: Any, partitions: Any) -> None:
        calls.append(type(consumer).__name__)
        for each in partitions:
            each.offset = 0
        await consumer.assign(partitions)

    side.lib.Producer, side.lib.Consumer = HookedProducer, HookedConsumer
    try:
        producer, consumer = producer_of(side), consumer_of(side)
    finally:
        side.lib.Producer, side.lib.Consumer = producer_class, consumer_class
    delivery = await producer.produce(side.topic, "x", partition=0)
    await producer.close()
    await consumer.subscribe([side.topic], on_assign=on_assign)
    message = await next_of(consumer)
    position = await consumer.position([side.at(0)])
    found = [report_of(await delivery), message.value(), position]
    async with consumer:
        found.append(len(await consumer.assignment()))
    ended = (consumer.close, lambda: consumer.poll(0))
    found += [await outcome(call) for call in ended]
    return found, calls


@on_both
async def test_metadata_and_the_cluster_of_both_clients(side: Side) -> Any:
    found = []
    for client in (producer_of(side), consumer_of(side)):
        metadata = await client.list_topics(side.topic, timeout=WAIT_S)
        everything = await client.list_topics(timeout=WAIT_S)
        topic = metadata.topics[side.topic]
        found.append(
            [
                sorted(metadata.brokers),
                [
                    (each.id, each.leader, each.replicas, each.isrs)
                    for each in topic.partitions.values()
                ],
                (sorted(metadata.topics), topic.error, side.topic in everything.topics),
                (
                    metadata.cluster_id == await client.cluster_id(timeout=WAIT_S),
                    metadata.controller_id,
                ),
                await client.set_sasl_credentials("somebody", "a password"),
            ]
        )
        await client.close()
    return found


# --- transactions ---


def transactional(side: Side, **conf: Any) -> Any:
    return producer_of(
        side, transactional_id=f"id-of-{side.topic}", transaction_timeout_ms=60_000, **conf
    )


async def committed_values(side: Side, *partitions: int) -> list[Any]:
    """Return the values of each partition that a read_committed consumer gets, and its end."""
    found = []
    consumer = consumer_of(side, isolation_level="read_committed", enable_partition_eof=True)
    for number in partitions:
        await consumer.assign([side.at(number, 0)])
        values: list[Any] = []
        while (message := await next_of(consumer)).error() is None:
            values.append(message.value())
        found.append([values, message.error()])
    await consumer.close()
    return found


@on_both
async def test_transactions_that_are_committed_and_aborted(side: Side) -> Any:
    returned = []
    async with transactional(side) as producer:
        returned.append(await producer.init_transactions(WAIT_S))
        for value in ("kept", "thrown away", "kept, too"):
            returned.append(await producer.begin_transaction())
            deliveries = [
                await producer.produce(side.topic, value, partition=number) for number in (0, 1)
            ]
            if value.startswith("kept"):
                returned.append(await producer.commit_transaction(WAIT_S))
            else:
                await producer.flush(WAIT_S)
                returned.append(await producer.abort_transaction(WAIT_S))
            returned += [report_of(await each) for each in deliveries]
    return returned, await committed_values(side, 0, 1)


@on_both
async def test_abort_sends_messages_first(side: Side) -> Any:
    async with transactional(side, linger_ms=30_000) as producer:
        await producer.init_transactions(WAIT_S)
        await producer.begin_transaction()
        delivery = await producer.produce(side.topic, "x", partition=0)
        await producer.abort_transaction(WAIT_S)
        report = report_of(await delivery)
    return report, await committed_values(side, 0)


@on_both
async def test_abort_after_a_message_that_is_too_large(side: Side) -> Any:
    async with transactional(side, message_max_bytes=2000) as producer:
        await producer.init_transactions(WAIT_S)
        await producer.begin_transaction()
        good = await producer.produce(side.topic, "x", partition=0)
        large = await producer.produce(side.topic, "x" * 5000, partition=0)
        ended = [await outcome(lambda: producer.abort_transaction(WAIT_S))]
        ended += [report_of(await good), await outcome(lambda: large)]
    return ended


@on_both
async def test_offsets_in_a_transaction(side: Side) -> Any:
    side.fill()
    consumer = consumer_of(side)
    await consumer.assign([side.at(0, 0), side.at(1, 0)])
    await consumed(consumer, 10)
    steps = []
    async with transactional(side) as producer:
        await producer.init_transactions(WAIT_S)
        for number, end in ((4, producer.abort_transaction), (7, producer.commit_transaction)):
            await producer.begin_transaction()
            metadata = await consumer.consumer_group_metadata()
            steps.append(
                await producer.send_offsets_to_transaction([side.at(0, number)], metadata, WAIT_S)
            )
            steps.append(await end(WAIT_S))
            steps.append(await consumer.committed([side.at(0)], timeout=WAIT_S))
        await producer.begin_transaction()
        positions = await consumer.position(await consumer.assignment())
        await producer.send_offsets_to_transaction(
            positions, await consumer.consumer_group_metadata(), WAIT_S
        )
        await producer.commit_transaction()
        steps.append(await consumer.committed([side.at(0), side.at(1)], timeout=WAIT_S))
    await consumer.close()
    return steps


@on_both
async def test_transaction_calls_in_a_wrong_order(side: Side) -> Any:
    producer = transactional(side)
    calls = {
        "begin": producer.begin_transaction,
        "commit": producer.commit_transaction,
        "abort": producer.abort_transaction,
        "init": lambda: producer.init_transactions(WAIT_S),
    }
    order = (
        "begin",
        "commit",
        "abort",
        "init",
        "commit",
        "abort",
        "begin",
        "begin",
        "init",
        "commit",
        "abort",
    )
    found = [(name, await outcome(calls[name])) for name in order]
    await producer.close()
    return found


@on_both
async def test_a_producer_that_is_fenced(side: Side) -> Any:
    old, new = transactional(side), transactional(side)
    await old.init_transactions(WAIT_S)
    await old.begin_transaction()
    delivery = await old.produce(side.topic, "old", partition=0)
    assert await old.flush(WAIT_S) == 0
    assert (await delivery).error() is None
    await new.init_transactions(WAIT_S)
    fenced = await outcome(lambda: old.commit_transaction(WAIT_S))
    await new.begin_transaction()
    await new.produce(side.topic, "new", partition=0)
    await new.commit_transaction(WAIT_S)
    await new.close()
    await outcome(old.close)  # confluent_kafka raises its fatal error here
    return fenced, await committed_values(side, 0)


# --- consuming ---


def test_unsubscribe_raises_after_a_fatal_error(cluster: MockCluster) -> None:
    async def use(side: Side) -> Any:
        conf = {"group_instance_id": "i", "heartbeat_interval_ms": 100}
        async with consumer_of(side, **conf) as consumer:
            await consumer.subscribe([side.topic])
            while not await consumer.assignment():
                await consumer.poll(0.1)
            cluster.push_request_errors(ApiKey.HEARTBEAT, [KafkaError.FENCED_INSTANCE_ID])
            fatal = await next_of(consumer)
            return fatal.error().name(), await outcome(consumer.unsubscribe)

    assert_both(cluster, use)


@on_both
async def test_messages_of_a_partition(side: Side) -> Any:
    side.fill()
    async with consumer_of(side, enable_partition_eof=True) as consumer:
        await consumer.assign([side.at(0, 7)])
        got = [await next_of(consumer) for _ in range(4)]
        positions = await consumer.position([side.at(0), side.at(1)])
        marks = await consumer.get_watermark_offsets(side.at(0), timeout=WAIT_S)
        cached = await consumer.get_watermark_offsets(side.at(0), cached=True)
        nothing = (
            await consumer.poll(0),
            await consumer.poll(timeout=0.01),
            await consumer.consume(5, 0),
        )
        return got[:3], got[3].error(), positions, marks, cached, nothing


@on_both
async def test_consume_returns_many_messages(side: Side) -> Any:
    side.fill()
    async with consumer_of(side) as consumer:
        await consumer.assign([side.at(0, side.lib.OFFSET_BEGINNING)])
        return (
            await consumed(consumer, 10),
            await consumer.consume(0, 0),
            await consumer.consume(timeout=0),
        )


@on_both
async def test_tasks_share_a_consumer(side: Side) -> Any:
    side.fill()
    async with consumer_of(side) as consumer:
        await consumer.assign([side.at(0, 0)])
        halves = await asyncio.gather(consumed(consumer, 5), consumed(consumer, 5))
        return sorted(message.offset() for half in halves for message in half)


@pytest.mark.parametrize("offset", ["OFFSET_BEGINNING", "OFFSET_END", "3"])
@on_both
async def test_seeking(side: Side, offset: str) -> Any:
    side.fill()
    async with consumer_of(side, enable_partition_eof=True) as consumer:
        await consumer.assign([side.at(0, 5)])
        first = (await next_of(consumer)).offset()
        position = int(offset) if offset.isdigit() else getattr(side.lib, offset)
        returned = await consumer.seek(side.at(0, position))
        message = await next_of(consumer)
        return first, returned, message.offset(), message.error()


@on_both
async def test_incremental_assignment(side: Side) -> Any:
    side.fill()
    async with consumer_of(side) as consumer:
        steps = [await consumer.assignment()]
        for call, partitions in (
            (consumer.incremental_assign, [side.at(0, 9)]),
            (consumer.incremental_assign, [side.at(1, 0)]),
            (consumer.pause, [side.at(0), side.at(1), side.at(7)]),
            (consumer.resume, [side.at(0), side.at(1)]),
            (consumer.incremental_unassign, [side.at(1)]),
        ):
            steps.append([await call(partitions), sorted(await consumer.assignment())])
        message = await next_of(consumer)
        steps.append([await consumer.unassign(), await consumer.assignment()])
        return steps, message.offset()


@on_both
async def test_a_paused_partition_returns_no_messages(side: Side) -> Any:
    side.fill()
    async with consumer_of(side, enable_partition_eof=True) as consumer:
        await consumer.assign([side.at(0, 8), side.at(1, 0)])
        await consumer.pause([side.at(0)])
        only = await next_of(consumer)  # the end of the other partition
        await consumer.resume([side.at(0)])
        return (
            only.partition(),
            only.error(),
            [(await next_of(consumer)).offset() for _ in range(3)],
        )


@on_both
async def test_watermarks_and_offsets_of_times(side: Side) -> Any:
    side.fill()
    async with consumer_of(side) as consumer:
        marks = [
            await consumer.get_watermark_offsets(side.at(number), timeout=WAIT_S)
            for number in (0, 1)
        ]
        times = (BASE_MS - 5, BASE_MS + 3000, BASE_MS + 3001, BASE_MS + 10_000_000)
        found = [
            await consumer.offsets_for_times([side.at(0, when), side.at(1, when)], timeout=WAIT_S)
            for when in times
        ]
        return marks, found


# --- groups ---


@on_both
async def test_offsets_of_groups(side: Side) -> Any:
    side.fill()
    async with consumer_of(side, enable_auto_offset_store=False) as consumer:
        both = [side.at(0), side.at(1)]
        found = [await consumer.committed(both, timeout=WAIT_S)]
        await consumer.assign([side.at(0, 2), side.at(1, 0)])
        message = await next_of(consumer)
        found.append(await outcome(lambda: consumer.commit(asynchronous=False)))
        found.append(await consumer.commit(message=message, asynchronous=False))
        given = side.lib.TopicPartition(side.topic, 1, 5, "some metadata")
        found.append(await consumer.commit(offsets=[given], asynchronous=False))
        found.append(await consumer.store_offsets(message))
        found.append(await consumer.commit(asynchronous=False))
        found.append(await consumer.store_offsets(offsets=[side.at(0, 6)]))
        found.append(await consumer.commit(asynchronous=False))
        found.append(await consumer.committed(both, timeout=WAIT_S))
        return message.offset(), found


@on_both
async def test_arguments_of_on_commit(side: Side) -> Any:
    calls: list[Any] = []

    async def on_commit(error: Any, partitions: Any) -> None:
        await asyncio.sleep(0)
        calls.append([error, sorted(partitions)])

    side.fill()
    consumer = consumer_of(side, on_commit=on_commit)
    await consumer.assign([side.at(0, 9), side.at(1, 0)])
    message = await next_of(consumer)
    returned = []
    for given in ({"message": message}, {"offsets": [side.at(0, 8)]}, {}):
        returned.append(await consumer.commit(**given, asynchronous=True))
        await poll_until(consumer, lambda: len(calls) >= len(returned))
    await consumer.close()
    return returned, calls


@on_both
async def test_a_group_of_one(side: Side) -> Any:
    calls: list[Any] = []
    consumer = consumer_of(side, enable_auto_commit=True)

    def recorder(name: str) -> Any:
        async def callback(client_of_callback: Any, partitions: Any) -> None:
            await asyncio.sleep(0)
            calls.append(
                [
                    name,
                    client_of_callback is consumer,
                    sorted((each.topic, each.partition) for each in partitions),
                ]
            )

        return callback

    side.fill()
    callbacks = {name: recorder(name) for name in ("on_assign", "on_revoke", "on_lost")}
    returned = [await consumer.subscribe([side.topic], **callbacks)]
    got = [await next_of(consumer) for _ in range(10)]
    assigned = sorted(await consumer.assignment())
    returned += [await consumer.unsubscribe(), await consumer.close()]
    async with consumer_of(side) as again:
        committed = await again.committed([side.at(0)], timeout=WAIT_S)
    return returned, got, assigned, calls, committed


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@on_both
async def test_callbacks_change_the_assignment(side: Side, strategy: str) -> Any:
    steps: list[Any] = []
    cooperative = strategy == "cooperative-sticky"

    async def on_assign(consumer: Any, partitions: Any) -> None:
        for each in partitions:
            each.offset = 8 if each.partition == 0 else 0
        await (consumer.incremental_assign if cooperative else consumer.assign)(partitions)
        steps.append(sorted(await consumer.assignment()))

    async def on_revoke(consumer: Any, partitions: Any) -> None:
        if cooperative:
            await consumer.incremental_unassign(partitions)
        else:
            await consumer.unassign()
        steps.append(sorted((each.topic, each.partition) for each in partitions))

    side.fill()
    consumer = consumer_of(side, partition_assignment_strategy=strategy)
    await consumer.subscribe([side.topic], on_assign=on_assign, on_revoke=on_revoke)
    offsets = [(await next_of(consumer)).offset() for _ in range(2)]
    await consumer.unsubscribe()
    await poll_until(consumer, lambda: len(steps) >= 2)
    await consumer.close()
    return offsets, steps


@on_both
async def test_poll_raises_the_exception_of_on_assign(side: Side) -> Any:
    async def on_assign(consumer: Any, partitions: Any) -> None:
        raise ValueError("said by on_assign")

    consumer = consumer_of(side)
    await consumer.subscribe([side.topic], on_assign=on_assign)
    try:
        return await next_of(consumer)
    finally:
        await consumer.close()


@pytest.mark.parametrize("kind", ["producer", "consumer"])
@on_both
async def test_error_cb_and_stats_cb_may_be_coroutines(side: Side, kind: str) -> Any:
    errors: list[Any] = []
    documents: list[Any] = []

    async def error_cb(error: Any) -> None:
        await asyncio.sleep(0)
        errors.append(error.name())

    async def stats_cb(text: str) -> None:
        await asyncio.sleep(0)
        documents.append(json.loads(text)["type"])

    made = {"producer": producer_of, "consumer": consumer_of}[kind]
    conf = {"bootstrap_servers": "127.0.0.1:1", "statistics_interval_ms": 20}
    client = made(side, error_cb=error_cb, stats_cb=stats_cb, **conf)
    await outcome(lambda: client.list_topics(timeout=0.1))  # our client connects on demand
    await poll_until(client, lambda: "_ALL_BROKERS_DOWN" in errors and documents)
    await client.close()
    return "_ALL_BROKERS_DOWN" in errors, documents[0]


def test_throttle_cb_may_be_a_coroutine(cluster: MockCluster) -> None:
    async def use(side: Side) -> Any:
        calls: list[Any] = []

        async def throttle_cb(event: Any) -> None:
            await asyncio.sleep(0)
            calls.append(event)

        leader = cluster.leader(side.topic, 0)
        cluster.throttle_responses(leader, 50)
        async with producer_of(side, throttle_cb=throttle_cb) as producer:
            await producer.produce(side.topic, "x", partition=0)
            assert await producer.flush(WAIT_S) == 0
            await poll_until(producer, lambda: calls)
        [event] = calls
        fields = (event.broker_name, event.broker_id == leader, event.throttle_time, str(event))
        return isinstance(event, side.lib.ThrottleEvent), *fields

    assert_both(cluster, use)


# --- wrong arguments, and calls after the end ---


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_wrong_arguments_and_calls_after_close(cluster: Stage, kind: str) -> None:
    make, calls = {
        "producer": (producer_of, PRODUCER_CALLS),
        "consumer": (consumer_of, CONSUMER_CALLS),
    }[kind]

    async def use(side: Side) -> dict[str, Any]:
        client = make(side)
        return {
            name: side.plain(
                await outcome(lambda call=call: asyncio.wait_for(call(client, side), WAIT_S))
            )
            for name, call in calls.items()
        }

    theirs, ours = (run(use(Side(lib, cluster))) for lib in BOTH)
    assert ours == theirs
