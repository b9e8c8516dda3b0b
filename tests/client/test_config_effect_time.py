"""Properties that are times: seen from the broker's side, by what can't have come earlier or would
not have come yet.

Only lower bounds of times are asserted, and orders of magnitude: a slow machine makes everything
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

from kafka_native import OFFSET_BEGINNING, KafkaError, Producer, TopicPartition
from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import wait_for

from .support import Client, fill

pytestmark = pytest.mark.usefixtures("repaired_cluster")

JITTER = 0.2
LATE = 0.7  # part of a pause that remains if the cluster notes the earlier request late
NEVER_S = 600.0


def pauses(cluster: MockCluster, api_key: int) -> list[float]:
    return [later.time - earlier.time for earlier, later in pairwise(cluster.requests_of(api_key))]


@pytest.mark.parametrize("name", ["linger.ms", "queue.buffering.max.ms"])
def test_batch_lingers(cluster: MockCluster, client: Client, name: str):
    topic = client.topic()
    with client.producer(**{name: 600}) as producer:
        producer.produce(topic, b"", partition=0)
        producer.flush(20)
        cluster.clear_requests()
        before = time.monotonic()
        producer.produce(topic, b"", partition=0)
        [request] = cluster.wait_for_requests(ApiKey.PRODUCE, timeout=30)
    assert request.time - before >= 0.59


def test_retries_wait_as_long_as_told(cluster: MockCluster, client: Client):
    topic = client.topic()
    with client.producer(
        **{"retry.backoff.ms": 500, "retry.backoff.max.ms": 500, "linger.ms": 0}
    ) as producer:
        producer.produce(topic, b"")
        assert producer.flush(20) == 0
        cluster.clear_requests()
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.NOT_ENOUGH_REPLICAS] * 2)
        producer.produce(topic, b"")
        assert producer.flush(20) == 0
    assert min(pauses(cluster, ApiKey.PRODUCE)) >= 0.5 * (1 - JITTER) * LATE


def test_pauses_between_retries_end_at_the_maximum(cluster: MockCluster, client: Client):
    topic = client.topic()
    with client.producer(
        **{"retry.backoff.ms": 1, "retry.backoff.max.ms": 2, "linger.ms": 0}
    ) as producer:
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.NOT_ENOUGH_REPLICAS] * 100)
        producer.produce(topic, b"")
        assert producer.flush(40) == 0  # by default it takes a second for each of the last ninety


def test_metadata_are_asked_for_again_as_fast_as_told(cluster: MockCluster, client: Client):
    conf = {"topic.metadata.refresh.fast.interval.ms": 500, "retry.backoff.max.ms": 500}
    topic = client.topic()
    cluster.clear_requests()
    cluster.hide_topic(topic, 3)
    with client.producer(**conf) as producer:
        producer.produce(topic, b"")
        assert producer.flush(20) == 0
    assert min(pauses(cluster, ApiKey.METADATA)[:3]) >= 0.5 * (1 - JITTER) * LATE


def test_metadata_are_refreshed_as_often_as_told(cluster: MockCluster, client: Client):
    topic = client.topic()
    with client.producer(**{"topic.metadata.refresh.interval.ms": 50}) as producer:
        producer.produce(topic, b"")
        assert producer.flush(20) == 0
        cluster.clear_requests()
        cluster.wait_for_requests(ApiKey.METADATA, 5, timeout=30)


def test_request_is_made_again_when_its_time_is_over(cluster: MockCluster, client: Client):
    topic = client.topic()
    cluster.clear_requests()
    cluster.delay_responses(None, NEVER_S, ApiKey.METADATA)
    with client.producer(**{"socket.timeout.ms": 200}, error_cb=lambda error: None) as producer:
        producer.produce(topic, b"")
        # by default it would take a minute
        cluster.wait_for_requests(ApiKey.METADATA, 2, timeout=30)
        producer.purge()


def test_question_for_versions_is_asked_again_when_its_time_is_over(
    cluster: MockCluster, client: Client
):
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
            # by default they'd take 30 s
            cluster.wait_for_requests(ApiKey.API_VERSIONS, 4, timeout=25)
            producer.purge()
    finally:
        for broker in cluster.broker_ids[1:]:
            cluster.broker_up(broker)


def test_connecting_is_given_up_when_its_time_is_over():
    errors: list[KafkaError] = []
    with socket.create_server(("127.0.0.1", 0), backlog=1) as server:
        # it accepts no connection, so requests are never answered
        address = "{}:{}".format(*server.getsockname())
        conf = {"bootstrap.servers": address, "socket.connection.setup.timeout.ms": 1000}
        with Producer(conf, error_cb=errors.append) as producer:
            producer.produce("any", b"")
            wait_for(lambda: producer.poll(0.05) or errors, timeout_s=20)
            producer.purge()
    assert "socket.connection.setup.timeout.ms" in errors[0].str()


def test_connections_are_made_anew_after_a_pause(cluster: MockCluster, client: Client):
    topic = client.topic()
    conf = {
        "reconnect.backoff.ms": 500,
        "reconnect.backoff.max.ms": 500,
        "retry.backoff.ms": 1,
        "linger.ms": 0,
    }
    with client.producer(**conf, error_cb=lambda error: None) as producer:
        producer.produce(topic, b"")
        assert producer.flush(20) == 0
        cluster.clear_requests()
        cluster.push_request_errors(ApiKey.PRODUCE, [CLOSE_CONNECTION] * 3)
        producer.produce(topic, b"")
        assert producer.flush(30) == 0
    assert min(pauses(cluster, ApiKey.PRODUCE)[1:]) >= 0.5 * (1 - JITTER) * LATE


def test_pauses_between_connections_end_at_the_maximum():
    conf = {
        "reconnect.backoff.ms": 1,
        "reconnect.backoff.max.ms": 2,
        "error_cb": lambda error: None,
    }
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # without listening: connections are refused
        with Producer(
            {"bootstrap.servers": "{}:{}".format(*nobody.getsockname()), **conf}
        ) as producer:
            producer.produce("any", b"")

            def attempts() -> int:
                producer.poll(0.01)
                return sum(broker.connects for broker in producer.metrics().brokers.values())

            # by default the last seven would take ten seconds each
            wait_for(lambda: attempts() >= 20)
            producer.purge()


def test_idle_connections_are_closed_when_told(cluster: MockCluster, client: Client):
    topic = client.topic()
    with client.producer(**{"connections.max.idle.ms": 100}) as producer:
        producer.produce(topic, b"")
        assert producer.flush(20) == 0
        wait_for(lambda: sum(map(cluster.connection_count, cluster.broker_ids)) == 0)
        producer.produce(topic, b"")
        assert producer.flush(20) == 0


@pytest.mark.parametrize("most", [1, 2])
def test_so_many_requests_are_in_flight(cluster: MockCluster, client: Client, most: int):
    topic = client.topic()
    conf = {
        "max.in.flight": most,
        "linger.ms": 0,
        "batch.num.messages": 1,
        "enable.idempotence": False,
    }
    with client.producer(**conf) as producer:
        producer.produce(topic, b"", partition=0)
        assert producer.flush(20) == 0
        cluster.clear_requests()
        cluster.delay_responses(None, 0.3, ApiKey.PRODUCE)
        for _ in range(6):
            producer.produce(topic, b"", partition=0)
        assert producer.flush(20) == 0
    times = [each.time for each in cluster.requests_of(ApiKey.PRODUCE)]
    assert len(times) == 6
    # The answer to each has to be there before the next but `most`.
    assert min(later - earlier for earlier, later in zip(times, times[most:], strict=False)) >= 0.29


def test_partition_rests_after_an_error(cluster: MockCluster, client: Client):
    topic = client.topic()
    fill(client, topic, 1)
    cluster.clear_requests()
    cluster.push_request_errors(ApiKey.FETCH, [ErrorCode.UNKNOWN_SERVER_ERROR])
    with client.consumer(**{"fetch.error.backoff.ms": 1200}) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        read: list[KafkaError | None] = []
        wait_for(
            lambda: (
                read.extend(message.error() for message in consumer.consume(1, 0.1)) or None in read
            )
        )
    assert pauses(cluster, ApiKey.FETCH)[0] >= 1.2 * LATE


def test_coordinator_is_looked_up_as_often_as_told(cluster: MockCluster, client: Client):
    conf = {"group.id": f"group-{time.monotonic_ns()}", "coordinator.query.interval.ms": 100}
    cluster.clear_requests()
    with client.consumer(**conf) as consumer:
        consumer.subscribe([client.topic()])
        wait_for(
            lambda: consumer.poll(0.02) or len(cluster.requests_of(ApiKey.FIND_COORDINATOR)) >= 4
        )


def test_leader_is_asked_again_when_what_it_said_of_replicas_is_old(
    cluster: MockCluster, client: Client
):
    topic = client.topic()
    leader = cluster.leader(topic, 0)
    near = leader % 3 + 1
    cluster.set_rack(near, "here")
    fill(client, topic, 1)
    conf: dict[str, Any] = {
        "client.rack": "here",
        "metadata.max.age.ms": 200,
        "fetch.wait.max.ms": 50,
    }
    with client.consumer(**conf) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert consumer.poll(30) is not None
        cluster.wait_for_requests(ApiKey.FETCH, 1, near, timeout=30)
        cluster.clear_requests()
        wait_for(lambda: consumer.poll(0.02) or len(cluster.requests_of(ApiKey.FETCH, leader)) >= 2)


@pytest.mark.parametrize(("interval_ms", "syncs"), [(0, True), (-1, False)])
def test_offset_files_are_synced_as_told(
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
    with client.consumer(**conf) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        consumer.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    assert bool(synced) is syncs
