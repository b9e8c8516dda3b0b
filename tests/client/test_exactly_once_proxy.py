"""A million messages over connections that break at random bytes: with idempotence each is written
once and in order.

Without idempotence some are written twice. That shows that the proxy breaks what matters.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kafka_native import KafkaError, Message, Producer
from kafka_native._native import records
from kafka_native.mock import MockCluster
from tests.harness.proxy import Chaos, Proxy

PARTITIONS = 4
MANY = 1_000_000
FEW = 100_000
FEWEST_CUTS = 50
BATCH = 1000
CONF: dict[str, Any] = {
    "acks": "all",
    "linger.ms": 2,
    "batch.num.messages": 200,
    "queue.buffering.max.messages": 50_000,
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 50,
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 50,
    "message.timeout.ms": 100_000,
    "error_cb": lambda error: None,
}


class Setup:
    """A cluster, and a proxy in front of each of its brokers."""

    def __init__(self, cluster: MockCluster, proxies: list[Proxy], chaos: Chaos) -> None:
        self.cluster, self.proxies, self.chaos = cluster, proxies, chaos

    def cuts(self) -> int:
        return sum(proxy.cuts for proxy in self.proxies)


@pytest.fixture
def setup() -> Iterator[Setup]:
    seed = int(os.environ.get("PROXY_SEED") or random.randrange(1 << 32))
    print(f"PROXY_SEED={seed}")
    chaos = Chaos(seed, bytes_max=400_000, answer_bytes_max=3_000)
    with MockCluster(brokers=3) as cluster, ExitStack() as stack:
        proxies = [
            stack.enter_context(Proxy(cluster.address(broker), chaos))
            for broker in cluster.broker_ids
        ]
        for broker, proxy in zip(cluster.broker_ids, proxies, strict=True):
            cluster.advertise(broker, proxy.address)
        cluster.create_topic("t", PARTITIONS)
        yield Setup(cluster, proxies, chaos)


class Ledger:
    """The reports of numbered messages. Number n is for partition n % PARTITIONS."""

    def __init__(self) -> None:
        self.acked: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.failed: dict[int, KafkaError] = {}

    def note(self, error: KafkaError | None, message: Message) -> None:
        number = int(message.value()[:8])
        if error is None:
            self.acked[number % PARTITIONS].append(number)
        else:
            self.failed[number] = error


def produce(setup: Setup, count: int, **conf: Any) -> Ledger:
    ledger = Ledger()
    bootstrap = {"bootstrap.servers": setup.cluster.bootstrap_servers}
    with Producer({**bootstrap, **CONF, **conf, "on_delivery": ledger.note}) as producer:
        for first in range(0, count, BATCH):
            numbers = range(first, min(first + BATCH, count))
            values = [b"%08d %s" % (number, b"x" * 20) for number in numbers]
            partitions = [number % PARTITIONS for number in numbers]
            done = 0
            while done < len(values):
                try:
                    done += producer.produce_many("t", values[done:], partition=partitions[done:])
                except BufferError:
                    producer.poll(0.01)
            producer.poll(0)
        assert producer.flush(100) == 0
    return ledger


def stored(setup: Setup) -> list[list[int]]:
    return [
        [
            int((record.value or b"")[:8])
            for batch in records.decode_batches(b"".join(setup.cluster.batches("t", partition)))
            for record in batch.records
        ]
        for partition in range(PARTITIONS)
    ]


@pytest.mark.slow
def test_each_of_a_million_messages_is_there_once_and_in_order(setup: Setup) -> None:
    start = time.monotonic()
    ledger = produce(setup, MANY, **{"enable.idempotence": True})
    seconds = time.monotonic() - start
    print(f"{MANY} messages over {setup.cuts()} cuts in {seconds:.1f} s")
    found = stored(setup)
    assert ledger.failed == {}
    for partition in range(PARTITIONS):
        expected = list(range(partition, MANY, PARTITIONS))
        assert found[partition] == expected
        assert sorted(ledger.acked[partition]) == expected
    assert setup.cuts() >= FEWEST_CUTS


def test_without_idempotence_some_are_there_twice_and_none_is_missing(setup: Setup) -> None:
    ledger = produce(setup, FEW, **{"enable.idempotence": False, "batch.num.messages": 100})
    found = stored(setup)
    for partition in range(PARTITIONS):
        assert set(ledger.acked[partition]) <= set(found[partition])
    assert len(ledger.failed) + sum(map(len, ledger.acked)) == FEW
    assert sum(map(len, found)) > FEW, (
        "no message is written twice: the proxy broke nothing that matters"
    )
