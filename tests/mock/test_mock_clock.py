"""A test moves the cluster's clock forward: all events that are due happen at once."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import pytest

from kafka_native import Consumer, Producer, TopicPartition
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S, wait_for


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1) as running:
        running.create_topic("t", 1)
        yield running


def test_a_delayed_response_is_sent(cluster: MockCluster) -> None:
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        producer.produce("t", b"first")
        assert producer.flush(WAIT_S) == 0
        cluster.delay_responses(1, 3600, ApiKey.PRODUCE)
        producer.produce("t", b"late")
        assert producer.flush(0.3) == 1
        cluster.advance(3599)
        assert producer.flush(0.3) == 1
        cluster.advance(10)
        assert producer.flush(WAIT_S) == 0


def test_a_waiting_fetch_ends(cluster: MockCluster) -> None:
    conf = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "fetch.wait.max.ms": 300_000,
        "socket.timeout.ms": 300_000,
    }
    with Consumer(conf) as consumer:
        consumer.assign([TopicPartition("t", 0, 0)])
        cluster.wait_for_requests(ApiKey.FETCH, 1, timeout=WAIT_S)
        wait_for(lambda: cluster.state.waiters, "the fetch that waits")
        assert len(cluster.requests_of(ApiKey.FETCH)) == 1
        cluster.advance(300)
        cluster.wait_for_requests(ApiKey.FETCH, 2, timeout=WAIT_S)


def test_a_silent_member_is_removed(cluster: MockCluster) -> None:
    conf = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "g",
        "session.timeout.ms": 45_000,
    }
    with Consumer({**conf, "heartbeat.interval.ms": 15_000}) as consumer:
        consumer.subscribe(["t"])
        wait_for(lambda: (consumer.poll(0.02), consumer.assignment())[1], "the assignment")
        cluster.advance(40)
        assert len(cluster.group("g").members) == 1
        cluster.advance(10)
        assert not cluster.group("g").members


def test_time_only_moves_forward(cluster: MockCluster) -> None:
    before = cluster.clock.now()
    for seconds in (-1, math.nan):
        with pytest.raises(ValueError, match="forward"):
            cluster.advance(seconds)
    cluster.advance(0)
    assert 0 <= cluster.clock.now() - before < WAIT_S
    assert abs(cluster.clock.now() - time.monotonic()) < 1
