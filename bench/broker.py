"""The broker under the benchmarks, and a fresh topic for each measurement."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import confluent_kafka

from kafka_native import Consumer, Producer, TopicPartition
from kafka_native.admin import AdminClient
from kafka_native.cli.topics import create_topic, delete_topic

LANDING_S = 5.0
# A broker maps 10 MB of index for each partition otherwise: with thousands of them, what is measured is the kernel
# clearing pages.
INDEX_BYTES = 65536
# A batch a request, each way.
SMALL_BATCH = 20
SMALL_BATCHES = 10_000


class Servers(NamedTuple):
    """Where the cluster listens; ``tls`` and the file of its authority, ``ca``, are empty where it has no TLS."""

    plain: str
    tls: str = ""
    ca: str = ""


@contextmanager
def broker(bootstrap: str | None, delay_ms: int = 0, *, tls: bool = False) -> Iterator[Servers]:
    """The cluster that was named, or a real Apache Kafka of our own with its compilers at full strength.

    ``delay_ms`` is how long the broker that is ours waits for more members of a new group; ``tls``: it has a listener
    with TLS, too.
    """
    if bootstrap:
        yield Servers(bootstrap)
        return
    from tests.broker.certificates import Authority
    from tests.broker.cluster import BENCH_OPTIONS, Listener, start

    with TemporaryDirectory() as folder:
        authority = Authority(Path(folder)) if tls else None
        listeners = {"TLS": Listener("SSL", authority.listener())} if authority else {}
        changes = {"group.initial.rebalance.delay.ms": str(delay_ms), "log.index.size.max.bytes": str(INDEX_BYTES)}
        cluster = start(1, BENCH_OPTIONS, changes, listeners)
        try:
            warm(cluster.bootstrap)
            yield Servers(cluster.bootstrap, cluster.listeners.get("TLS", ""), authority.ca if authority else "")
        finally:
            cluster.close()


@contextmanager
def topic(bootstrap: str, partitions: int, more: int = 0) -> Iterator[str]:
    """A topic for as long as the block lasts, and as many ``more`` as asked for, named NAME-0 and so on."""
    name = f"bench-{time.time_ns()}"
    names = [name, *(f"{name}-{number}" for number in range(more))]
    with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        for each in names:
            create_topic(admin, each, partitions)
        try:
            yield name
        finally:
            for each in names:
                delete_topic(admin, each)


def warm(bootstrap: str) -> None:
    """Many small requests, after which Java has compiled the broker's hot paths: short runs would measure that."""
    servers = {"bootstrap.servers": bootstrap}
    with topic(bootstrap, 1) as name:
        with Producer({**servers, "linger.ms": 0, "batch.num.messages": SMALL_BATCH}) as producer:
            for value in repeat(bytes(100), SMALL_BATCHES * SMALL_BATCH):
                while True:
                    try:
                        producer.produce(name, value)
                        break
                    except BufferError:
                        producer.poll(0.01)
        with Consumer({**servers, "group.id": "bench-warm", "max.partition.fetch.bytes": 1}) as consumer:
            consumer.assign([TopicPartition(name, 0, 0)])
            while consumer.consume(SMALL_BATCH * SMALL_BATCHES, 1.0):
                pass


def landed(bootstrap: str, name: str, partitions: int, wanted: int) -> int:
    """How many messages the topic has, after a moment for those without acknowledgement to come to ``wanted``.

    As confluent_kafka sees it: a witness that is not the client measured.
    """
    witness = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "bench-witness"})
    deadline = time.monotonic() + LANDING_S
    try:
        while True:
            total = 0
            for number in range(partitions):
                low, high = witness.get_watermark_offsets(confluent_kafka.TopicPartition(name, number), timeout=30)
                total += high - low
            if total >= wanted or time.monotonic() > deadline:
                return total
            time.sleep(0.1)
    finally:
        witness.close()
