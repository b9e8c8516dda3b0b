"""Messages without keys: their spread over partitions. Slow brokers get fewer (KIP-794)."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from kafka_native import Producer
from kafka_native.mock import MockCluster

from .support import Client, deliver


def produce_evenly(producer: Producer, topic: str, seconds: float, per_ms: int = 3) -> Counter[int]:
    """Produce evenly for some seconds, flush, and return the messages of each partition."""
    given: Counter[int] = Counter()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for _ in range(per_ms):
            producer.produce(
                topic,
                bytes(100),
                on_delivery=lambda error, message: given.update([message.partition()]),
            )
        time.sleep(0.001)
        producer.poll(0)
    assert producer.flush(20) == 0
    return given


@pytest.mark.parametrize("adaptive", [True, False])
def test_slow_broker_gets_fewer_messages_if_enabled(
    cluster: MockCluster, client: Client, adaptive: bool
):
    topic = client.topic(partitions=3)
    slow = cluster.leader(topic, 1)
    conf = {
        "partitioner.adaptive.partitioning.enable": adaptive,
        "linger.ms": 2,
        "sticky.partitioning.linger.ms": 5,
    }
    with client.producer(**conf) as producer:
        deliver(producer, topic, b"", partition=1)
        cluster.delay_responses(slow, 0.4)
        try:
            given = produce_evenly(producer, topic, 2.5)
        finally:
            cluster.delay_responses(slow, 0)
    share = given[1] / given.total()
    assert share < 0.2 if adaptive else share > 0.25, given
    assert min(given[0], given[2]) > 0.2 * given.total(), given


def test_equally_fast_brokers_get_equal_shares(client: Client):
    topic = client.topic(partitions=3)
    with client.producer(**{"linger.ms": 1, "sticky.partitioning.linger.ms": 2}) as producer:
        given = produce_evenly(producer, topic, 2.0)
    assert all(0.2 < given[partition] / given.total() < 0.47 for partition in range(3)), given


@pytest.mark.parametrize("timeout_ms", [200, 0])
def test_silent_broker_gets_no_messages_after_the_timeout(
    cluster: MockCluster, client: Client, timeout_ms: int
):
    topic = client.topic(partitions=3)
    silent = cluster.leader(topic, 1)
    conf = {
        "partitioner.availability.timeout.ms": timeout_ms,
        "linger.ms": 1,
        "sticky.partitioning.linger.ms": 2,
    }
    delivered: Counter[str] = Counter()
    with client.producer(**conf) as producer:

        def send(phase: str) -> None:
            until = time.monotonic() + 1.5
            while time.monotonic() < until or delivered["produced " + phase] < 700:
                producer.produce(
                    topic, bytes(100), on_delivery=lambda error, message: delivered.update([phase])
                )
                delivered["produced " + phase] += 1
                time.sleep(0.001)
                producer.poll(0)

        for partition in range(3):
            producer.produce(topic, b"", partition=partition)
        assert producer.flush(10) == 0
        cluster.delay_responses(silent, 60)
        try:
            send("before")  # some requests go to the silent broker, until no more may
            send("after")
            producer.poll(1.0)
            while producer.poll(0.5):
                pass
        finally:
            cluster.delay_responses(silent, 0)
            cluster.disconnect(silent)
        stuck = delivered["produced after"] - delivered["after"]
        assert stuck == 0 if timeout_ms else stuck > 0, delivered
        assert delivered["before"] < delivered["produced before"]
        assert producer.flush(20) == 0
    assert delivered["after"] == delivered["produced after"]


@pytest.mark.parametrize("linger_ms", [0, 900_000])
def test_sticky_linger_ms_limits_a_partitions_time(
    cluster: MockCluster, client: Client, linger_ms: int
):
    topic = client.topic(partitions=8)
    with client.producer(
        **{"sticky.partitioning.linger.ms": linger_ms, "linger.ms": 50}
    ) as producer:
        deliver(producer, topic, b"", partition=0)
        for _ in range(2000):
            producer.produce(topic, bytes(10))
        assert producer.flush(10) == 0
    counts = [len(cluster.messages(topic, partition)) for partition in range(8)]
    assert sum(counts) == 2001
    if linger_ms:
        assert sorted(counts)[:6] == [0] * 6  # one partition, and that of the first message
    else:
        assert min(counts) > 150


def test_rack_aware_producer_stays_in_its_rack(
    cluster: MockCluster, client: Client, repaired_cluster: None
):
    topic = client.topic(partitions=3)
    near, far = cluster.leader(topic, 1), cluster.leader(topic, 2)
    cluster.logs.set_rack(near, "east")
    cluster.logs.set_rack(far, "west")
    conf = {
        "partitioner.rack.aware": True,
        "client.rack": "east",
        "sticky.partitioning.linger.ms": 0,
    }
    given: Counter[int] = Counter()
    with client.producer(
        **conf, on_delivery=lambda error, message: given.update([message.partition()])
    ) as producer:

        def produce() -> Counter[int]:
            given.clear()
            for _ in range(300):
                producer.produce(topic, b"")
            assert producer.flush(20) == 0
            return given

        assert produce() == {1: 300}
        cluster.logs.set_rack(near, None)  # known with the next metadata
        cluster.logs.set_rack(far, "east")
        producer.list_topics(timeout=10)
        assert produce() == {2: 300}
        cluster.logs.set_rack(far, None)
        producer.list_topics(timeout=10)
        assert min(produce()[partition] for partition in range(3)) > 50
