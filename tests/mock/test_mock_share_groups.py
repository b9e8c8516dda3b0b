"""Share groups of the mock cluster, tested with confluent_kafka's share consumer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import confluent_kafka
import pytest

from kafka_native import KafkaError
from kafka_native.mock import MockCluster
from kafka_native.mock.share_partitions import State
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S, wait_for


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=2) as running:
        running.share.settings.auto_offset_reset = "earliest"
        running.create_topic("jobs")
        yield running


def produce(cluster: MockCluster, count: int, first: int = 0) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(first, first + count):
        producer.produce("jobs", str(number))
    assert producer.flush(WAIT_S) == 0


@contextmanager
def sharing(cluster: MockCluster, **conf: Any) -> Iterator[Any]:
    config = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "workers", "log_level": 0}
    consumer = confluent_kafka.ShareConsumer(
        config | {name.replace("_", "."): value for name, value in conf.items()}
    )
    try:
        consumer.subscribe(["jobs"])
        yield consumer
    finally:
        consumer.close()


def take(consumer: Any, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count}"
        found += [each for each in consumer.poll(0.5) if each.error() is None]
    return found


def test_records_are_delivered_once_and_accepted(cluster: MockCluster) -> None:
    produce(cluster, 500)
    with sharing(cluster) as consumer:
        found = take(consumer, 500)
        assert [int(each.value()) for each in found] == list(range(500))
        assert {each.delivery_count() for each in found} == {1}
        assert set(consumer.commit_sync(10).values()) == {None}
        assert cluster.share.start_offset("workers", "jobs", 0) == 500
    wait_for(lambda: not cluster.share.members("workers"))
    wait_for(lambda: cluster.share.session_count() == 0)


def test_records_are_released_rejected_and_delivered_again(cluster: MockCluster) -> None:
    produce(cluster, 3)
    kinds = confluent_kafka.AcknowledgeType
    with sharing(cluster, share_acknowledgement_mode="explicit") as consumer:
        for message, kind in zip(
            take(consumer, 3), (kinds.ACCEPT, kinds.RELEASE, kinds.REJECT), strict=True
        ):
            consumer.acknowledge(message, kind)
        assert set(consumer.commit_sync(10).values()) == {None}
        assert [cluster.share.record("workers", "jobs", 0, at)[0] for at in (1, 2)] == [
            State.AVAILABLE,
            State.ARCHIVED,
        ]
        (again,) = take(consumer, 1)
        assert (again.offset(), again.delivery_count()) == (1, 2)
        consumer.acknowledge(again)


def test_locks_expire(cluster: MockCluster) -> None:
    produce(cluster, 2)
    with sharing(cluster) as slow, sharing(cluster) as quick:
        assert len(take(slow, 2)) == 2
        cluster.share.expire_locks("workers")
        assert {each.delivery_count() for each in take(quick, 2)} == {2}
        (error,) = slow.commit_sync(10).values()
        assert error.args[0].code() == KafkaError.INVALID_RECORD_STATE


def test_a_closed_connection_releases_its_records(cluster: MockCluster) -> None:
    produce(cluster, 2)
    with sharing(cluster) as consumer:
        take(consumer, 2)
        cluster.disconnect(cluster.leader("jobs", 0))
        wait_for(
            lambda: (
                cluster.share.record("workers", "jobs", 0, 0)[0] is not State.ACQUIRED
                or consumer.poll(0.1)
            )
        )


@pytest.mark.parametrize(
    "code", [KafkaError.SHARE_SESSION_NOT_FOUND, KafkaError.INVALID_SHARE_SESSION_EPOCH]
)
def test_pushed_errors_are_answered(cluster: MockCluster, code: int) -> None:
    produce(cluster, 5)
    cluster.push_request_errors(ApiKey.SHARE_FETCH, [0, code])
    with sharing(cluster) as consumer:
        take(consumer, 5)
        consumer.poll(0.2)
        produce(cluster, 5, 5)
        assert len(take(consumer, 5)) >= 5


def test_end_of_a_session_releases_only_the_records_of_its_broker(cluster: MockCluster) -> None:
    cluster.create_topic("pairs", 2)
    leaders = [cluster.leader("pairs", number) for number in range(2)]
    assert leaders[0] != leaders[1]
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(2):
        producer.produce("pairs", b"x", partition=number)
    assert producer.flush(WAIT_S) == 0
    with sharing(cluster) as consumer:
        consumer.subscribe(["pairs"])
        take(consumer, 2)
        states = [cluster.share.record("workers", "pairs", number, 0)[0] for number in range(2)]
        assert State.ACQUIRED in states  # the first poll accepts nothing yet
        kept = states.index(State.ACQUIRED)
        cluster.broker_down(leaders[1 - kept])
        assert cluster.share.record("workers", "pairs", kept, 0)[0] is not State.AVAILABLE
