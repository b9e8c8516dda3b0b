"""Properties that are times, measured by the times of requests at the brokers.

The tests check only lower bounds and orders of magnitude, because a slow machine makes everything
later, never earlier.
"""

from __future__ import annotations

import os
import socket
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kafka_native import KafkaError, Producer, TopicPartition
from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import wait_for

from .support import Client, assigned, deliver, fill, filled

pytestmark = pytest.mark.usefixtures("repaired_cluster")

JITTER = 0.2
LATE = 0.7  # the measured part of a pause if the cluster records its first request late
NEVER_S = 600.0


def pauses(cluster: MockCluster, api_key: int) -> list[float]:
    """Return the seconds between the requests of an API."""
    return [later.time - earlier.time for earlier, later in pairwise(cluster.requests_of(api_key))]


@pytest.mark.parametrize("name", ["linger.ms", "queue.buffering.max.ms"])
def test_batch_lingers(cluster: MockCluster, client: Client, topic: str, name: str):
    with client.producer(**{name: 600}) as producer:
        producer.produce(topic, b"", partition=0)
        producer.flush(20)
        cluster.clear_requests()
        before = time.monotonic()
        producer.produce(topic, b"", partition=0)
        [request] = cluster.wait_for_requests(ApiKey.PRODUCE, timeout=30)
    assert request.time - before >= 0.59


def test_retries_wait_for_the_configured_backoff(cluster: MockCluster, client: Client, topic: str):
    conf = {"retry.backoff.ms": 500, "retry.backoff.max.ms": 500, "linger.ms": 0}
    with client.producer(**conf) as producer:
        deliver(producer, topic, b"")
        cluster.clear_requests()
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.NOT_ENOUGH_REPLICAS] * 2)
        deliver(producer, topic, b"")
    assert min(pauses(cluster, ApiKey.PRODUCE)) >= 0.5 * (1 - JITTER) * LATE


def test_pauses_between_retries_end_at_the_maximum(cluster: MockCluster, client: Client):
    topic = client.topic()
    conf = {"retry.backoff.ms": 1, "retry.backoff.max.ms": 2, "linger.ms": 0}
    with client.producer(**conf) as producer:
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.NOT_ENOUGH_REPLICAS] * 100)
        producer.produce(topic, b"")
        assert producer.flush(40) == 0  # by default each of the last ninety takes a second


def test_missing_metadata_is_requested_again_at_the_fast_interval(client: Client, topic: str):
    conf = {"topic.metadata.refresh.fast.interval.ms": 500, "retry.backoff.max.ms": 500}
    client.cluster.clear_requests()
    client.cluster.hide_topic(topic, 3)
    with client.producer(**conf) as producer:
        deliver(producer, topic, b"")
    assert min(pauses(client.cluster, ApiKey.METADATA)[:3]) >= 0.5 * (1 - JITTER) * LATE


def test_metadata_is_refreshed_at_the_configured_interval(cluster: MockCluster, client: Client):
    topic = client.topic()
    with client.producer(**{"topic.metadata.refresh.interval.ms": 50}) as producer:
        deliver(producer, topic, b"")
        cluster.clear_requests()
        cluster.wait_for_requests(ApiKey.METADATA, 5, timeout=30)


def test_request_is_repeated_after_its_timeout(cluster: MockCluster, client: Client, topic: str):
    cluster.clear_requests()
    cluster.delay_responses(None, NEVER_S, ApiKey.METADATA)
    with client.producer(**{"socket.timeout.ms": 200}, error_cb=lambda error: None) as producer:
        producer.produce(topic, b"")
        # the default is a minute
        cluster.wait_for_requests(ApiKey.METADATA, 2, timeout=30)
        producer.purge()


def test_api_versions_request_is_repeated_after_its_timeout(cluster: MockCluster, client: Client):
    cluster.clear_requests()
    for broker in cluster.broker_ids[1:]:
        cluster.broker_down(broker)
    cluster.delay_responses(None, NEVER_S, ApiKey.API_VERSIONS)
    conf = {
        "api.version.request.timeout.ms": 200,
        "bootstrap.servers": cluster.address(cluster.broker_ids[0]),
    }
    try:
        with client.producer(**conf, error_cb=lambda error: None) as producer:
            producer.produce("any", b"")
            # the default takes 30 s
            cluster.wait_for_requests(ApiKey.API_VERSIONS, 4, timeout=25)
            producer.purge()
    finally:
        for broker in cluster.broker_ids[1:]:
            cluster.broker_up(broker)


def test_connecting_fails_after_its_timeout():
    errors: list[KafkaError] = []
    with socket.create_server(("127.0.0.1", 0), backlog=1) as server:
        # the server never accepts the connection, so requests are never answered
        address = "{}:{}".format(*server.getsockname())
        conf = {"bootstrap.servers": address, "socket.connection.setup.timeout.ms": 1000}
        with Producer(conf, error_cb=errors.append) as producer:
            producer.produce("any", b"")
            wait_for(lambda: producer.poll(0.05) or errors, timeout_s=20)
            producer.purge()
    assert "socket.connection.setup.timeout.ms" in errors[0].str()


def test_reconnecting_waits_for_the_backoff(cluster: MockCluster, client: Client, topic: str):
    conf = {
        "reconnect.backoff.ms": 500,
        "reconnect.backoff.max.ms": 500,
        "retry.backoff.ms": 1,
        "linger.ms": 0,
    }
    with client.producer(**conf, error_cb=lambda error: None) as producer:
        deliver(producer, topic, b"")
        cluster.clear_requests()
        cluster.push_request_errors(ApiKey.PRODUCE, [CLOSE_CONNECTION] * 3)
        deliver(producer, topic, b"")
    assert min(pauses(cluster, ApiKey.PRODUCE)[1:]) >= 0.5 * (1 - JITTER) * LATE


def test_pauses_between_connections_end_at_the_maximum():
    conf = {
        "reconnect.backoff.ms": 1,
        "reconnect.backoff.max.ms": 2,
        "error_cb": lambda error: None,
    }
    with socket.socket() as refusing:
        refusing.bind(("127.0.0.1", 0))  # without listening: connections are refused
        with Producer(
            {"bootstrap.servers": "{}:{}".format(*refusing.getsockname()), **conf}
        ) as producer:
            producer.produce("any", b"")

            def attempts() -> int:
                producer.poll(0.01)
                return sum(broker.connects for broker in producer.metrics().brokers.values())

            # by default the last seven take ten seconds each
            wait_for(lambda: attempts() >= 20)
            producer.purge()


def test_idle_connections_are_closed_after_the_configured_time(client: Client, topic: str):
    with client.producer(**{"connections.max.idle.ms": 100}) as producer:
        deliver(producer, topic, b"")
        wait_for(lambda: sum(map(client.cluster.connection_count, client.cluster.broker_ids)) == 0)
        deliver(producer, topic, b"")


@pytest.mark.parametrize("limit", [1, 2])
def test_requests_in_flight_are_limited(cluster: MockCluster, client: Client, limit: int):
    topic = client.topic()
    conf = {
        "max.in.flight": limit,
        "linger.ms": 0,
        "batch.num.messages": 1,
        "enable.idempotence": False,
    }
    with client.producer(**conf) as producer:
        deliver(producer, topic, b"", partition=0)
        cluster.clear_requests()
        cluster.delay_responses(None, 0.3, ApiKey.PRODUCE)
        for _ in range(6):
            producer.produce(topic, b"", partition=0)
        assert producer.flush(20) == 0
    times = [each.time for each in cluster.requests_of(ApiKey.PRODUCE)]
    assert len(times) == 6
    # Each response must arrive before the request that is `limit` places later.
    for earlier, later in zip(times, times[limit:], strict=False):
        assert later - earlier >= 0.29


def test_partition_is_not_fetched_for_a_time_after_an_error(cluster: MockCluster, client: Client):
    topic = filled(client, 1)
    cluster.clear_requests()
    cluster.push_request_errors(ApiKey.FETCH, [ErrorCode.UNKNOWN_SERVER_ERROR])
    with assigned(client, topic, **{"fetch.error.backoff.ms": 1200}) as consumer:
        read: list[KafkaError | None] = []
        wait_for(
            lambda: (
                read.extend(message.error() for message in consumer.consume(1, 0.1)) or None in read
            )
        )
    assert pauses(cluster, ApiKey.FETCH)[0] >= 1.2 * LATE


def test_partition_that_may_not_be_read_is_not_fetched_for_a_longer_time(
    cluster: MockCluster, client: Client
):
    topic = filled(client, 1)
    cluster.clear_requests()
    denied = [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
    cluster.push_request_errors(ApiKey.FETCH, denied, topic=topic, partition=0)
    with assigned(client, topic, **{"fetch.error.backoff.ms": 130}) as consumer:
        read: list[KafkaError | None] = []
        wait_for(
            lambda: (
                read.extend(message.error() for message in consumer.consume(1, 0.1)) or None in read
            )
        )
    first, *more = read
    assert first is not None
    assert first.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert more == [None]  # reported once
    assert min(pauses(cluster, ApiKey.FETCH)[:2]) >= 1.3 * LATE


def test_coordinator_is_looked_up_at_the_configured_interval(cluster: MockCluster, client: Client):
    conf = {"group.id": f"group-{time.monotonic_ns()}", "coordinator.query.interval.ms": 100}
    cluster.clear_requests()
    with client.consumer(**conf) as consumer:
        consumer.subscribe([client.topic()])
        wait_for(
            lambda: consumer.poll(0.02) or len(cluster.requests_of(ApiKey.FIND_COORDINATOR)) >= 4
        )


def test_the_preferred_replica_expires(cluster: MockCluster, client: Client, topic: str):
    leader = cluster.leader(topic, 0)
    near = leader % 3 + 1
    cluster.set_rack(near, "here")
    fill(client, topic, 1)
    conf: dict[str, Any] = {
        "client.rack": "here",
        "metadata.max.age.ms": 200,
        "fetch.wait.max.ms": 50,
    }
    with assigned(client, topic, **conf) as consumer:
        assert consumer.poll(30) is not None
        cluster.wait_for_requests(ApiKey.FETCH, 1, near, timeout=30)
        cluster.clear_requests()
        wait_for(lambda: consumer.poll(0.02) or len(cluster.requests_of(ApiKey.FETCH, leader)) >= 2)


def test_old_metadata_is_requested_again_without_a_refresh_interval(
    cluster: MockCluster, client: Client, topic: str
):
    conf = {"topic.metadata.refresh.interval.ms": -1, "metadata.max.age.ms": 100}
    with client.producer(**conf) as producer:
        deliver(producer, topic)
        cluster.clear_requests()
        wait_for(lambda: len(cluster.requests_of(ApiKey.METADATA)) >= 2)


@pytest.mark.parametrize(("interval_ms", "syncs"), [(0, True), (-1, False)])
def test_offset_files_are_synced_as_configured(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval_ms: int, syncs: bool
):
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    conf = {
        "offset.store.method": "file",
        "offset.store.path": str(tmp_path),
        "offset.store.sync.interval.ms": interval_ms,
        "enable.auto.commit": False,
    }
    topic = client.topic()
    with assigned(client, topic, **conf) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    assert bool(synced) is syncs
