"""`kafka_native.compat.aiokafka` where things go wrong: cancelled calls, errors, stopped clients."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_native import Producer
from kafka_native.compat.aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from kafka_native.compat.aiokafka.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    IllegalStateError,
    ProducerClosed,
    UnknownTopicOrPartitionError,
)
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S

ORDERS = TopicPartition("orders", 0)
WAIT_MS = WAIT_S * 1000


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1) as made:
        made.create_topic("orders", 1)
        with Producer({"bootstrap.servers": made.bootstrap_servers}) as producer:
            for number in range(6):
                producer.produce("orders", b"%d" % number)
        yield made


@pytest.fixture
def options(cluster: MockCluster) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": "billing",
        "auto_offset_reset": "earliest",
    }


def offsets_of(found: dict[Any, list[Any]]) -> list[int]:
    return [record.offset for records in found.values() for record in records]


def fail_at_3(value: bytes) -> bytes:
    if value == b"3":
        raise ValueError(value)
    return value


@pytest.mark.parametrize("max_records", [None, 5])
def test_getmany_loses_no_record_if_one_cannot_be_deserialized(
    options: dict[str, Any], max_records: int | None
) -> None:
    async def read() -> None:
        consumer = AIOKafkaConsumer("orders", value_deserializer=fail_at_3, **options)
        async with consumer:
            found: list[int] = []
            while found != [0, 1, 2]:
                batch = await consumer.getmany(timeout_ms=WAIT_MS, max_records=max_records)
                found += offsets_of(batch)
            with pytest.raises(ValueError, match="3"):
                await consumer.getmany(timeout_ms=WAIT_MS, max_records=max_records)
            with pytest.raises(ValueError, match="3"):
                await consumer.getone()
        async with AIOKafkaConsumer("orders", **options) as consumer:
            assert await consumer.committed(ORDERS) == 3
            assert (await consumer.getone()).offset == 3
            consumer.seek(ORDERS, 5)
            assert (await consumer.getone()).offset == 5

    asyncio.run(asyncio.wait_for(read(), WAIT_S))


def test_a_cancelled_getmany_loses_no_record(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read() -> None:
        async with AIOKafkaConsumer("orders", **options) as consumer:
            client = consumer._started

            async def cancelled(*_: Any) -> Any:
                raise asyncio.CancelledError

            with monkeypatch.context() as patched:
                patched.setattr(client, "consume", cancelled)
                with pytest.raises(asyncio.CancelledError):
                    await consumer.getmany(timeout_ms=WAIT_MS, max_records=2)
            assert (await consumer.getone()).offset == 0

    asyncio.run(asyncio.wait_for(read(), WAIT_S))


def test_a_commit_without_anything_new_does_nothing_and_others_raise(
    cluster: MockCluster, options: dict[str, Any]
) -> None:
    async def read() -> None:
        async with AIOKafkaConsumer("orders", **options) as consumer:
            await consumer.commit()
            await consumer.getone()
            await consumer.commit()
            await consumer.commit()
            assert await consumer.committed(ORDERS) == 1
            await consumer.getone()
            cluster.push_request_errors(ApiKey.OFFSET_COMMIT, [22])
            with pytest.raises(CommitFailedError):
                await consumer.commit()

    asyncio.run(asyncio.wait_for(read(), WAIT_S))


def test_stopped_clients_raise_their_errors_and_end_loops(options: dict[str, Any]) -> None:
    async def read() -> None:
        consumer = AIOKafkaConsumer("orders", **options)
        await consumer.start()
        found: set[int] = set()

        async def loop() -> None:
            async for record in consumer:
                found.add(record.offset)

        looping = asyncio.ensure_future(loop())
        while len(found) < 6:
            await asyncio.sleep(0.01)
        await consumer.stop()
        await looping
        for call in (consumer.getone(), consumer.getmany()):
            with pytest.raises(ConsumerStoppedError):
                await call
        async with AIOKafkaProducer(bootstrap_servers=options["bootstrap_servers"]) as producer:
            pass
        await producer.flush()
        with pytest.raises(ProducerClosed):
            await producer.send("orders", b"tea")

    asyncio.run(asyncio.wait_for(read(), WAIT_S))


def test_limits_and_offsets_are_checked(options: dict[str, Any]) -> None:
    async def read() -> None:
        async with AIOKafkaConsumer("orders", **options) as consumer:
            assert (await consumer.getone()).offset == 0
            with pytest.raises(ValueError, match="max_records"):
                await consumer.getmany(max_records=0)
            with pytest.raises(ValueError, match="offset"):
                consumer.seek(ORDERS, -1)

    asyncio.run(asyncio.wait_for(read(), WAIT_S))


def test_a_seek_before_the_first_partitions_is_an_error(options: dict[str, Any]) -> None:
    async def read() -> None:
        async with AIOKafkaConsumer("orders", **options) as consumer:
            for seek in (consumer.seek_to_beginning, consumer.seek_to_end):
                with pytest.raises(IllegalStateError):
                    await seek()
            with pytest.raises(IllegalStateError):
                consumer.seek(ORDERS, 4)
            await consumer.getone()
            await consumer.seek_to_end()
            await consumer.seek_to_beginning()
            assert (await consumer.getone()).offset == 0

    asyncio.run(asyncio.wait_for(read(), WAIT_S))


def test_start_begins_again_after_it_has_failed_or_was_cancelled(options: dict[str, Any]) -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            servers = f"127.0.0.1:{silent.getsockname()[1]}"
            for client in (
                AIOKafkaConsumer("orders", bootstrap_servers=servers),
                AIOKafkaProducer(bootstrap_servers=servers, transactional_id="billing-1"),
            ):
                for _ in range(2):
                    with pytest.raises(asyncio.TimeoutError):
                        await asyncio.wait_for(client.start(), 0.1)
                client._conf["bootstrap.servers"] = options["bootstrap_servers"]
                async with client:
                    if isinstance(client, AIOKafkaConsumer):
                        assert client.assignment() == {ORDERS}
                    else:
                        await client.begin_transaction()
                        await client.abort_transaction()

    asyncio.run(asyncio.wait_for(run(), WAIT_S))


def test_a_consumer_of_a_topic_that_does_not_exist_says_so(cluster: MockCluster) -> None:
    async def read() -> None:
        options: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "allow.auto.create.topics": False,
            "request_timeout_ms": 300,
        }
        with pytest.raises(UnknownTopicOrPartitionError):
            await AIOKafkaConsumer("bills", **options).start()
        async with AIOKafkaConsumer("bills", group_id="billing", **options) as consumer:
            with pytest.raises(UnknownTopicOrPartitionError):
                await consumer.getone()

    asyncio.run(asyncio.wait_for(read(), WAIT_S))


def test_topics_before_start_are_a_list_and_not_one_str(options: dict[str, Any]) -> None:
    async def subscribe() -> None:
        consumer = AIOKafkaConsumer(**options)
        with pytest.raises(TypeError, match="list"):
            consumer.subscribe("orders")
        with pytest.raises(ValueError, match="pattern"):
            consumer.subscribe()
        consumer.subscribe(pattern="ord.*")
        async with consumer:
            assert (await consumer.getone()).topic == "orders"

    asyncio.run(asyncio.wait_for(subscribe(), WAIT_S))


def test_unsubscribing_does_not_block_the_loop_and_a_new_subscription_follows(
    options: dict[str, Any],
) -> None:
    async def read() -> None:
        events: list[str] = []

        class Listener(ConsumerRebalanceListener):
            async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
                await asyncio.sleep(0)
                events.append("assigned")

            async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
                await asyncio.sleep(0)
                events.append("revoked")

        async with AIOKafkaConsumer(**options) as consumer:
            consumer.subscribe(["orders"], listener=Listener())
            assert (await consumer.getone()).offset == 0
            before_s = time.monotonic()
            consumer.unsubscribe()
            assert time.monotonic() - before_s < 10
            assert await consumer.getmany(timeout_ms=100) == {}
            assert events == ["assigned", "revoked"]
            consumer.subscribe(["orders"], listener=Listener())
            assert (await consumer.getone()).offset == 1

    asyncio.run(asyncio.wait_for(read(), WAIT_S))


def test_unsubscribing_ends_reading_without_a_group(cluster: MockCluster) -> None:
    async def read() -> None:
        async with AIOKafkaConsumer(
            "orders", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            assert (await consumer.getone()).offset == 0
            consumer.unsubscribe()
            assert consumer.assignment() == frozenset()
            assert await consumer.getmany(timeout_ms=100) == {}

    asyncio.run(asyncio.wait_for(read(), WAIT_S))
