"""AIOAdminClient, and admin calls on the handles of other asyncio clients, on the mock cluster."""

from __future__ import annotations

import asyncio
import gc
import inspect
import socket
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafka_native import KafkaError, KafkaException, Producer, TopicCollection
from kafka_native.admin import AdminClient, NewTopic
from kafka_native.aio import AIOAdminClient, AIOConsumer, AIOProducer
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S

from .support import in_loop, kafka_error

COROUTINES = {
    "brokers_add",
    "list_topics",
    "client_instance_id",
    "cluster_id",
    "list_groups",
    "set_sasl_credentials",
    "metrics",
    "poll",
    "close",
}
"""The methods that block in AdminClient and are coroutines here."""


def conf(cluster: MockCluster, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": cluster.bootstrap_servers, "retry.backoff.ms": 20, **more}


def calls(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_") and callable(getattr(cls, name))}


def test_aio_admin_client_has_the_calls_and_signatures_of_admin_client() -> None:
    assert calls(AIOAdminClient) == calls(AdminClient)
    for name in sorted(calls(AdminClient) - {"of", "poll"}):
        theirs, ours = getattr(AdminClient, name), getattr(AIOAdminClient, name)
        assert str(inspect.signature(ours)) == str(inspect.signature(theirs)), name
        assert inspect.iscoroutinefunction(ours) is (name in COROUTINES), name
        assert inspect.getdoc(ours), name


@in_loop
async def test_each_item_has_an_asyncio_future_that_fails_alone(cluster: MockCluster) -> None:
    async with AIOAdminClient(conf(cluster)) as admin:
        made = admin.create_topics(
            [NewTopic("aio-made", 2), NewTopic("no name", 1), NewTopic("huge", 1, 2**20)]
        )
        assert all(isinstance(future, asyncio.Future) for future in made.values())
        assert await made["aio-made"] is None
        with kafka_error(KafkaError.TOPIC_EXCEPTION):
            await made["no name"]
        outcomes = await asyncio.gather(*made.values(), return_exceptions=True)
        assert [type(each) for each in outcomes] == [type(None), KafkaException, KafkaException]
        described = await admin.describe_topics(TopicCollection(["aio-made"]))["aio-made"]
        assert len(described.partitions) == 2
        pages = admin.describe_topic_partitions(TopicCollection(["aio-made"]), partition_limit=1)
        assert [
            each.id async for page in pages for topic in page.topics for each in topic.partitions
        ] == [0, 1]
        assert (
            (await admin.describe_cluster()).cluster_id
            == cluster.cluster_id
            == await admin.cluster_id(WAIT_S)
        )
        assert "aio-made" in (await admin.list_topics(timeout=WAIT_S)).topics
        assert await admin.list_groups(timeout=WAIT_S) == []
        assert await admin.describe_user_scram_credentials() == {}
        assert (await admin.metrics()).name.startswith("rdkafka#admin-")
        with pytest.raises(TypeError):
            admin.create_topics("aio-made")  # type: ignore[arg-type]
    assert "closed" in repr(admin)
    with pytest.raises(RuntimeError, match="closed"):
        admin.describe_cluster()
    await admin.close()


@in_loop
async def test_slow_broker_does_not_block_the_loop_and_a_wait_can_be_cancelled(
    cluster: MockCluster,
) -> None:
    async with AIOAdminClient(conf(cluster)) as admin:
        await admin.list_topics(timeout=WAIT_S)
        for broker in cluster.broker_ids:
            cluster.delay_responses(broker, 1.0, ApiKey.LIST_GROUPS)
        waiting = asyncio.ensure_future(admin.list_groups(timeout=WAIT_S))
        answer = admin.list_consumer_groups()
        cancelled = admin.list_consumer_groups()
        turns = 0
        while not answer.done():
            turns += 1
            await asyncio.sleep(0.01)
        assert turns > 20, "the loop ran meanwhile"
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(admin.list_consumer_groups()), 0.05)
        cancelled.cancel()
        assert (await waiting, (await answer).errors) == ([], [])
        for broker in cluster.broker_ids:
            cluster.delay_responses(broker, 0.0, ApiKey.LIST_GROUPS)


@in_loop
async def test_close_fails_unfinished_operations(cluster: MockCluster) -> None:
    cluster.delay_responses(None, 30.0, ApiKey.DESCRIBE_CLUSTER)
    try:
        admin = AIOAdminClient(conf(cluster))
        future = admin.describe_cluster()
        await admin.list_topics(timeout=WAIT_S)
        await admin.close()
        with kafka_error(KafkaError._DESTROY):
            await future
    finally:
        cluster.delay_responses(None, 0.0, ApiKey.DESCRIBE_CLUSTER)


@in_loop
async def test_cancelled_close_continues(cluster: MockCluster) -> None:
    admin = AIOAdminClient(conf(cluster))
    await admin.list_topics(timeout=WAIT_S)
    closing = asyncio.create_task(admin.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    with pytest.raises(RuntimeError, match="closed"):
        admin.list_consumer_groups()
    await asyncio.wait_for(admin.close(), 10)
    assert admin._core._client.closed
    await admin.close()


@in_loop
async def test_a_call_on_a_client_that_is_closing_ends(cluster: MockCluster) -> None:
    producer = AIOProducer(conf(cluster))
    admin = AIOAdminClient.of(producer)
    await admin.list_topics(timeout=WAIT_S)
    closing = asyncio.create_task(producer.close())
    main = producer._core._client.main
    while not main.stopping:
        await asyncio.sleep(0)
    main._thread.join(WAIT_S)  # the loop doesn't know yet that the control thread has ended
    futures = [admin.describe_cluster(), *admin.delete_topics(["of", "it"]).values()]
    await closing
    for future in futures:
        with kafka_error(KafkaError._DESTROY):
            await asyncio.wait_for(future, WAIT_S)


@in_loop
async def test_admin_calls_on_the_handles_of_the_other_clients(cluster: MockCluster) -> None:
    async with (
        AIOProducer(conf(cluster)) as producer,
        AIOConsumer(conf(cluster, **{"group.id": "of"})) as consumer,
    ):
        async with AIOAdminClient.of(producer) as admin:
            assert await admin.create_topics([NewTopic("aio-of", 1)])["aio-of"] is None
            assert "aio-of" in (await admin.list_topics(timeout=WAIT_S)).topics
            assert (await admin.metrics()).type == "producer"
        await (await producer.produce("aio-of", b"x"))
        other = AIOAdminClient.of(consumer)
        assert (await other.describe_cluster()).cluster_id == cluster.cluster_id
        assert (await AIOAdminClient.of(other).list_consumer_groups()).errors == []
        await other.close()
        with pytest.raises(RuntimeError, match="closed"):
            other.list_consumer_groups()
    with pytest.raises(RuntimeError, match="closed"):
        AIOAdminClient.of(producer)
    with (
        Producer(conf(cluster)) as sync,
        pytest.raises(TypeError, match="an asyncio client is expected"),
    ):
        AIOAdminClient.of(sync)  # type: ignore[arg-type]


@in_loop
async def test_callbacks_run_in_the_loop() -> None:
    seen: list[Any] = []
    called = asyncio.Event()

    async def on_stats(text: str) -> None:
        await asyncio.sleep(0)
        seen.append(text)
        called.set()

    with MockCluster(brokers=1) as cluster:
        settings = conf(cluster, **{"stats_cb": on_stats, "statistics.interval.ms": 20})
        async with AIOAdminClient(settings) as admin:
            await asyncio.wait_for(called.wait(), WAIT_S)
            assert await admin.poll() >= 1
    assert "#admin-" in seen[0]


@in_loop
async def test_callbacks_run_in_the_loop_of_any_call() -> None:
    calls: list[Callable[[AIOAdminClient], Awaitable[Any]]] = [
        lambda admin: admin.list_topics(timeout=0.1),
        lambda admin: admin.cluster_id(timeout=0.1),
        lambda admin: admin.describe_cluster(request_timeout=0.1),
    ]
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, but not listening
        server = f"127.0.0.1:{closed.getsockname()[1]}"
        for call in calls:
            called = asyncio.Event()
            settings = {"bootstrap.servers": server, "error_cb": lambda _, it=called: it.set()}
            admin = AIOAdminClient(settings)
            with pytest.raises(KafkaException):
                await call(admin)
            await asyncio.wait_for(called.wait(), WAIT_S)
            await admin.close()


def test_client_works_in_a_second_loop_and_can_be_garbage_collected(cluster: MockCluster) -> None:
    admin = AIOAdminClient(conf(cluster))

    async def cluster_id(client: AIOAdminClient) -> str | None:
        return (await client.describe_cluster()).cluster_id

    assert asyncio.run(cluster_id(admin)) == asyncio.run(cluster_id(admin)) == cluster.cluster_id

    async def start_operation(client: AIOAdminClient) -> None:
        client.list_consumer_groups()

    asyncio.run(start_operation(admin))
    gone = weakref.ref(admin._core)
    del admin
    gc.collect()
    assert gone() is None
