"""The broker of the benchmarks, and a new topic for each measurement."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import confluent_kafka
import psutil
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient as Witness
from confluent_kafka.admin import OffsetSpec

import kafka_native
from kafka_native import Producer
from kafka_native.admin import AdminClient, NewPartitions
from kafka_native.cli.perf import create_topic, delete_topic

LANDING_S = 5.0
LEADER_S = 90.0  # for 10,000 partitions, while the broker deletes as many
LEADER_PAUSE_S = 0.5
LEADERLESS = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._NOENT,  # confluent_kafka has found no leader in its metadata
)
# Partitions of one request. A controller rejects requests that create 10,000 records.
MADE_AT_ONCE = 9_000
# The default is 10 MB of mapped index for each partition. With thousands of them a measurement
# would mostly see the kernel clear pages.
INDEX_BYTES = 65536
# The requests of warm(): one small batch each, in both directions.
SMALL_BATCH = 20
SMALL_REQUESTS = 10_000
WARM_PARTITIONS = 2
# The broker is at rest if it uses less than this part of a core for this long.
REST_CPU = 0.05
REST_S = 0.3
REST_TIMEOUT_S = 60.0


class Servers(NamedTuple):
    """The listeners of the cluster.

    ``tls`` and ``ca``, the file of its authority, are empty without TLS. ``pids`` are the processes
    of a broker that the benchmark has started, and ``version`` is its version.
    """

    plain: str
    tls: str = ""
    ca: str = ""
    pids: tuple[int, ...] = ()
    version: str = "unknown (a cluster that ran before)"


@contextmanager
def broker(
    bootstrap: str | None, delay_ms: int = 0, *, tls: bool = False, size: int = 1
) -> Iterator[Servers]:
    """Yield the named cluster, or start an Apache Kafka with all of Java's compilers.

    :param delay_ms: How long a started broker waits for more members of a new group.
    :param tls: Whether a started broker also has a listener with TLS.
    :param size: The number of brokers that are started.
    """
    if bootstrap:
        yield Servers(bootstrap)
        return
    from tests.broker.certificates import Authority
    from tests.broker.cluster import BENCH_OPTIONS, Listener, start
    from tests.broker.java import KAFKA_VERSION

    with TemporaryDirectory() as folder:
        authority = Authority(Path(folder)) if tls else None
        listeners = {"TLS": Listener("SSL", authority.listener())} if authority else {}
        changes = {
            "group.initial.rebalance.delay.ms": str(delay_ms),
            "log.index.size.max.bytes": str(INDEX_BYTES),
            # Soon, because a minute later it would disturb a measurement. Not 0: the broker checks
            # at this interval.
            "log.segment.delete.delay.ms": "200",
        }
        others = children()
        cluster = start(size, BENCH_OPTIONS, changes, listeners)
        try:
            warm(cluster.bootstrap)
            tls_at, ca = cluster.listeners.get("TLS", ""), authority.ca if authority else ""
            pids = tuple(children() - others)
            yield Servers(cluster.bootstrap, tls_at, ca, pids, KAFKA_VERSION)
        finally:
            cluster.close()


@contextmanager
def topic(bootstrap: str, partitions: int, more: int = 0) -> Iterator[str]:
    """Make a topic for the block, and ``more`` topics named NAME-0 and so on."""
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
    """Send many small requests, so that Java compiles the broker's hot paths before a short run.

    Two clients fetch, because their protocol versions differ.
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
    """The process ids of all descendants of this process."""
    return {child.pid for child in psutil.Process().children(recursive=True)}


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the CPU time of the broker's processes, user and system."""
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


def loopback_bytes() -> int:
    """Return how many bytes the loopback interface has carried, with all headers; 0 if unknown."""
    found = psutil.net_io_counters(pernic=True).get("lo")
    return found.bytes_recv if found else 0


def at_rest(pids: Iterable[int]) -> None:
    """Wait until the broker's processes do almost nothing.

    For seconds after a run, Java compiles hot code on a core that the next run needs.
    """
    pids = tuple(pids)
    deadline = time.monotonic() + REST_TIMEOUT_S
    before = 0.0
    while time.monotonic() < deadline:
        now = cpu_seconds(pids)
        if now - before <= REST_CPU * REST_S:
            return
        before = now
        time.sleep(REST_S)


def landed(bootstrap: str, name: str, partitions: int, wanted: int) -> int:
    """The number of messages in the topic. Waits up to LANDING_S seconds for ``wanted`` messages.

    confluent_kafka counts them, because it isn't the client measured. For a while a new topic may
    be unknown or have no leaders. A new witness then asks again: one keeps what it has heard.
    """
    witness = Witness({"bootstrap.servers": bootstrap})
    started = time.monotonic()
    deadline = started + LANDING_S
    while True:
        try:
            total = _messages(witness, name, partitions)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() not in LEADERLESS or time.monotonic() > started + LEADER_S:
                raise
            time.sleep(LEADER_PAUSE_S)
            witness = Witness({"bootstrap.servers": bootstrap})
            deadline = time.monotonic() + LANDING_S
            continue
        if total >= wanted or time.monotonic() > deadline:
            return total
        time.sleep(0.1)


def _messages(witness: Witness, name: str, partitions: int) -> int:
    """Return the sum of the ends."""
    ends = {
        confluent_kafka.TopicPartition(name, number): OffsetSpec.latest()
        for number in range(partitions)
    }
    return sum(each.result().offset for each in witness.list_offsets(ends).values())
