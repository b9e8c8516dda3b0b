"""The broker under the benchmarks, and a fresh topic for each measurement."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import confluent_kafka

from kafka_native import Producer
from kafka_native.cli.topics import create_topic, delete_topic


@contextmanager
def broker(bootstrap: str | None) -> Iterator[str]:
    """The cluster that was named, or a real Apache Kafka of our own with its compilers at full strength."""
    if bootstrap:
        yield bootstrap
        return
    from tests.broker.cluster import BENCH_OPTIONS, start

    cluster = start(1, BENCH_OPTIONS)
    try:
        yield cluster.bootstrap
    finally:
        cluster.close()


@contextmanager
def topic(bootstrap: str, partitions: int) -> Iterator[str]:
    """A topic for as long as the block lasts."""
    name = f"bench-{time.time_ns()}"
    with Producer({"bootstrap.servers": bootstrap}) as admin:
        create_topic(admin, name, partitions)
        try:
            yield name
        finally:
            delete_topic(admin, name)


def landed(bootstrap: str, name: str, partitions: int) -> int:
    """How many messages the topic has, as confluent_kafka sees it: a witness that is not the client measured."""
    witness = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "bench-witness"})
    try:
        total = 0
        for number in range(partitions):
            low, high = witness.get_watermark_offsets(confluent_kafka.TopicPartition(name, number), timeout=30)
            total += high - low
        return total
    finally:
        witness.close()
