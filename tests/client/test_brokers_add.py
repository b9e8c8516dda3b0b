"""brokers_add(): bootstrap servers that a running client gets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import kafka_native
from kafka_native import Consumer, KafkaError, Producer, ShareConsumer
from kafka_native.admin import AdminClient
from kafka_native.aio import AIOAdminClient, AIOConsumer, AIOProducer
from kafka_native.mock import MockCluster
from tests.waiting import WAIT_S

from .share_support import new_group, take, values
from .support import NOWHERE, Client, errors_into, fill, raises_code

CONF = {**NOWHERE, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50}
GROUP = {**CONF, "group.id": "g"}
MAKERS: list[Callable[[], Any]] = [
    lambda: Producer(CONF),
    lambda: Consumer(GROUP),
    lambda: AdminClient(CONF),
]
ASYNC_MAKERS: list[Callable[[], Any]] = [
    lambda: AIOProducer(CONF),
    lambda: AIOConsumer(GROUP),
    lambda: AIOAdminClient(CONF),
]


def test_waiting_message_is_delivered_once_a_server_is_added():
    reports: list[KafkaError | None] = []
    with MockCluster(brokers=1) as cluster, Producer(CONF) as producer:
        cluster.create_topic("t", 1)
        producer.produce("t", "v", on_delivery=errors_into(reports))
        assert producer.brokers_add(f" {cluster.bootstrap_servers}, ") == 1
        assert producer.flush(WAIT_S) == 0
    assert reports == [None]


@pytest.mark.parametrize("make", MAKERS)
def test_each_client_finds_the_cluster_through_an_added_server(make: Callable[[], Any]):
    with MockCluster(brokers=1) as cluster, make() as client:
        assert client.brokers_add(cluster.bootstrap_servers) == 1
        assert set(client.list_topics(timeout=WAIT_S).brokers) == {1}


@pytest.mark.parametrize("by_role", [False, True])
def test_roles_of_a_shared_client_find_the_cluster_through_an_added_server(by_role: bool):
    with MockCluster(brokers=1) as cluster, kafka_native.Client(CONF) as client:
        producer = client.producer()
        adder = client.producer() if by_role else client
        assert adder.brokers_add(cluster.bootstrap_servers) == 1
        assert set(producer.list_topics(timeout=WAIT_S).brokers) == {1}
    with pytest.raises(RuntimeError, match="closed"):
        client.brokers_add("a:1")


@pytest.mark.parametrize("make", ASYNC_MAKERS)
def test_each_asyncio_client_finds_the_cluster_through_an_added_server(make: Callable[[], Any]):
    async def program(cluster: MockCluster) -> set[int]:
        async with make() as client:
            assert await client.brokers_add(cluster.bootstrap_servers) == 1
            return set((await client.list_topics(timeout=WAIT_S)).brokers)

    with MockCluster(brokers=1) as cluster:
        assert asyncio.run(program(cluster)) == {1}


def test_share_consumer_finds_the_cluster_through_an_added_server():
    with MockCluster(brokers=1) as cluster, ShareConsumer(GROUP) as consumer:
        client = Client(cluster)
        fill(client, client.topic(), 1)
        new_group(client)
        consumer.subscribe([*cluster.topics])
        assert consumer.brokers_add(cluster.bootstrap_servers) == 1
        assert values(take(consumer, 1)) == [b"0"]


def test_added_servers_serve_a_rebootstrap():
    with MockCluster(brokers=1) as old, MockCluster(brokers=1) as new:
        for cluster in (old, new):
            cluster.create_topic("t", 1)
        with Producer({**CONF, "bootstrap.servers": old.bootstrap_servers}) as producer:
            producer.produce("t", "first")
            assert producer.flush(WAIT_S) == 0
            producer.brokers_add(new.bootstrap_servers)
            old.broker_down(1)
            producer.produce("t", "second")
            assert producer.flush(WAIT_S) == 0
        assert [record.value for record in new.messages("t", 0)] == [b"second"]


def test_known_servers_count_but_are_not_added_again():
    with Producer(CONF) as producer:
        assert producer.brokers_add("127.0.0.1:1,b,b:9092") == 3
        assert producer.brokers_add("b:9092") == 1
        assert producer.brokers_add("") == 0
        assert [each.address for each in producer._client.context.pool.bootstrap] == [
            ("127.0.0.1", 1),
            ("b", 9092),
        ]


def test_canonical_names_are_looked_up_for_added_servers():
    lookup = {"client.dns.lookup": "resolve_canonical_bootstrap_servers_only"}
    with MockCluster(brokers=1) as cluster, Producer({**CONF, **lookup}) as producer:
        assert producer.brokers_add(cluster.bootstrap_servers) == 1
        assert set(producer.list_topics(timeout=WAIT_S).brokers) == {1}


@pytest.mark.parametrize("servers", ["good:9092,bad:port", "ssl://good:9092"])
def test_invalid_server_is_an_error_and_nothing_is_added(servers: str):
    with Producer(CONF) as producer:
        with raises_code(KafkaError._INVALID_ARG):
            producer.brokers_add(servers)
        assert len(producer._client.context.pool.bootstrap) == 1


def test_other_types_and_closed_clients_are_refused():
    producer = Producer(CONF)
    with pytest.raises(TypeError, match="brokers must be a str, not list"):
        producer.brokers_add(["a:1"])  # type: ignore[arg-type]
    producer.close()
    with pytest.raises(RuntimeError, match="closed"):
        producer.brokers_add("a:1")
