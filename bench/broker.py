"""The broker under the benchmarks, and a fresh topic for each measurement."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import confluent_kafka
import psutil

import kafka_native
from kafka_native import Producer
from kafka_native.admin import AdminClient, NewPartitions
from kafka_native.cli.topics import create_topic, delete_topic

LANDING_S = 5.0
MADE_AT_ONCE = (
    9_000  # partitions of a topic; a controller refuses requests that make 10,000 records
)
# A broker maps 10 MB of index for each partition otherwise: with thousands of them, what is measured is the kernel
# clearing pages.
INDEX_BYTES = 65536
# Requests of one batch for each partition, each way.
SMALL_BATCH = 20
SMALL_REQUESTS = 10_000
WARM_PARTITIONS = 2
# A broker at rest uses less than that part of a core for so long.
REST_CPU = 0.05
REST_S = 0.3
REST_TIMEOUT_S = 60.0


class Servers(NamedTuple):
    """Where the cluster listens; ``tls`` and the file of its authority, ``ca``, are empty where it has no TLS.

    ``pids``: its processes, where it is ours.
    """

    plain: str
    tls: str = ""
    ca: str = ""
    pids: tuple[int, ...] = ()


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
        changes = {
            "group.initial.rebalance.delay.ms": str(delay_ms),
            "log.index.size.max.bytes": str(INDEX_BYTES),
            # Soon: a minute later it would be beside what is measured then. Not 0: a broker looks again after as long.
            "log.segment.delete.delay.ms": "200",
        }
        others = children()
        cluster = start(1, BENCH_OPTIONS, changes, listeners)
        try:
            warm(cluster.bootstrap)
            tls_at, ca = cluster.listeners.get("TLS", ""), authority.ca if authority else ""
            yield Servers(cluster.bootstrap, tls_at, ca, tuple(children() - others))
        finally:
            cluster.close()


@contextmanager
def topic(bootstrap: str, partitions: int, more: int = 0) -> Iterator[str]:
    """A topic for as long as the block lasts, and as many ``more`` as asked for, named NAME-0 and so on."""
    name = f"bench-{time.time_ns()}"
    names = [name, *(f"{name}-{number}" for number in range(more))]
    with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        for each in names:
            create_topic(admin, each, min(partitions, MADE_AT_ONCE))
            if partitions > MADE_AT_ONCE:
                admin.create_partitions([NewPartitions(each, partitions)])[each].result()
        try:
            yield name
        finally:
            for each in names:
                delete_topic(admin, each)


def warm(bootstrap: str) -> None:
    """Many small requests, after which Java has compiled the broker's hot paths: short runs would measure that.

    Two clients fetch, because they speak different versions of the protocol.
    """
    servers = {"bootstrap.servers": bootstrap}
    count = SMALL_BATCH * SMALL_REQUESTS
    with topic(bootstrap, WARM_PARTITIONS) as name:
        with Producer({**servers, "linger.ms": 0, "batch.num.messages": SMALL_BATCH}) as producer:
            for number in range(count):
                while True:
                    try:
                        producer.produce(name, bytes(100), partition=number % WARM_PARTITIONS)
                        break
                    except BufferError:
                        producer.poll(0.01)
        for client in (kafka_native, confluent_kafka):
            consumer = client.Consumer(
                {**servers, "group.id": "bench-warm", "max.partition.fetch.bytes": 1}
            )
            consumer.assign(
                [client.TopicPartition(name, number, 0) for number in range(WARM_PARTITIONS)]
            )
            taken = 0
            while taken < count:
                taken += len(consumer.consume(min(SMALL_BATCH, count - taken), 10.0)) or count
            consumer.close()


def children() -> set[int]:
    """The processes that this one has started, and theirs."""
    return {child.pid for child in psutil.Process().children(recursive=True)}


def at_rest(pids: Iterable[int]) -> None:
    """Waits until these processes, the broker, do next to nothing.

    For seconds after a run Java compiles what that has made hot, on one of the processors that the next run needs.
    """
    processes = [psutil.Process(pid) for pid in pids]
    deadline = time.monotonic() + REST_TIMEOUT_S
    before = 0.0
    while time.monotonic() < deadline:
        now = sum(sum(process.cpu_times()[:2]) for process in processes)
        if now - before <= REST_CPU * REST_S:
            return
        before = now
        time.sleep(REST_S)


def landed(bootstrap: str, name: str, partitions: int, wanted: int) -> int:
    """How many messages the topic has, after a moment for those without acknowledgement to come to ``wanted``.

    As confluent_kafka sees it: a witness that is not the client measured.
    """
    witness = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench-witness"}
    )
    deadline = time.monotonic() + LANDING_S
    try:
        while True:
            total = 0
            for number in range(partitions):
                low, high = witness.get_watermark_offsets(
                    confluent_kafka.TopicPartition(name, number), timeout=30
                )
                total += high - low
            if total >= wanted or time.monotonic() > deadline:
                return total
            time.sleep(0.1)
    finally:
        witness.close()
