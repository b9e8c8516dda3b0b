"""A broker that keeps its connections open and answers nothing, as one that is frozen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_native import Consumer, Producer, TopicPartition
from kafka_native.mock import MockCluster
from tests.waiting import WAIT_S, poll_until

FROZEN_S = 3600.0
BROKERS = (1, 2, 3)


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=len(BROKERS)) as cluster:
        cluster.create_topic("t", len(BROKERS))
        yield cluster
        for node in BROKERS:
            cluster.delay_responses(node, 0)


@pytest.mark.parametrize("alive", BROKERS)
def test_metadata_come_from_the_other_broker(cluster: MockCluster, alive: int):
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for number in range(len(BROKERS)):  # it is connected to all
            producer.produce("t", b"v", partition=number)
        assert producer.flush(WAIT_S) == 0
        assert set(producer.list_topics(timeout=WAIT_S).brokers) == set(BROKERS)
        for frozen in set(BROKERS) - {alive}:
            cluster.delay_responses(frozen, FROZEN_S)
        assert set(producer.list_topics(timeout=WAIT_S / 2).brokers) == set(BROKERS)


@pytest.mark.parametrize("frozen", BROKERS)
def test_a_group_finds_its_new_coordinator(cluster: MockCluster, frozen: int):
    first, second = set(BROKERS) - {frozen}
    cluster.move_coordinator("g", first)
    for number in range(len(BROKERS)):
        cluster.move_leader("t", number, first)
    with Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"}) as consumer:
        consumer.subscribe(["t"])
        poll_until(lambda: len(consumer.assignment()) == len(BROKERS), consumer)
        cluster.delay_responses(frozen, FROZEN_S)
        cluster.move_coordinator("g", second)
        consumer.commit(offsets=[TopicPartition("t", 0, 7)], asynchronous=False)
        assert consumer.committed([TopicPartition("t", 0)])[0].offset == 7
