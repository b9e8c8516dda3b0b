"""``python -m tests.soak.scale``: many clients, partitions and records, and large messages.

Each part prints its figures. It ends with 1 if a part failed.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

import click

from kafka_native import Consumer, Producer, TopicPartition
from kafka_native.admin import AdminClient
from tests.harness.reliability import record
from tests.harness.runs import report
from tests.soak.clients import KINDS, Loop, Opened, ignore
from tests.soak.mock_process import MockProcess
from tests.soak.resources import (
    MIB,
    forget_peak,
    idle_sample,
    left,
    peak_rss_bytes,
    rss_bytes,
    sample,
)

TOPIC = "scale"
LIMIT_S = 600.0
METADATA_CPU_S = 1.0
IDLE_S = 5.0
DESCRIPTORS_CLIENT = 12
BATCH = 10_000
VALUE = b"0123456789abcdef"
QUEUED_BYTES = 100
"""A queued record of `VALUE` may take so much memory."""
LARGE_COPIES = 6
"""A large message may exist so often: as value, batch, request, response, Message and value."""
FRAME_BYTES = 1 << 30

Figures = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """The size of each part. 0 leaves a part out."""

    clients: int = 1000
    topics: int = 2000
    partitions: int = 10_000
    members: int = 20
    metadata: int = 50_000
    large_mb: int = 100
    queued: int = 10_000_000


class Failed(Exception):
    """A part didn't do what it should."""


def _conf(cluster: MockProcess) -> Figures:
    return {**cluster.client_conf, "error_cb": ignore, "log_cb": ignore}


def _check(holds: bool, text: str) -> None:
    if not holds:
        raise Failed(text)


def use_many_clients(options: Options) -> Figures:
    """Open so many clients of all kinds in this process, let each work, leave them idle, close."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = DESCRIPTORS_CLIENT * options.clients + 1000
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard) if hard >= 0 else wanted, hard))
    with MockProcess(brokers=1) as cluster:
        cluster.call("create_topic", TOPIC, 4)
        with Producer(_conf(cluster)) as producer:
            producer.produce_many(TOPIC, [VALUE] * 40)
        before, began = sample(), time.monotonic()
        loop = Loop()
        opened: list[Opened] = []
        with ThreadPoolExecutor(10) as pool:
            opened += (
                KINDS[number % len(KINDS)](_conf(cluster), TOPIC, loop)
                for number in range(options.clients)
            )
            list(pool.map(lambda each: each.finish(), opened))
        worked_s = time.monotonic() - began
        used, cpu_s = sample(), time.process_time()
        time.sleep(IDLE_S)
        idle_share = (time.process_time() - cpu_s) / IDLE_S
        began = time.monotonic()
        with ThreadPoolExecutor(50) as pool:
            list(pool.map(lambda each: each.close(10.0), opened))
        loop.close()
        closed_s = time.monotonic() - began
        opened.clear()
        found = list(left(before, idle_sample(before)))
    _check(not found, f"left behind: {found}")
    count = options.clients
    return {
        "all have worked after s": round(worked_s, 1),
        "KiB a client": round((used.rss_bytes - before.rss_bytes) / 1024 / count),
        "descriptors a client": round((used.descriptors - before.descriptors) / count, 1),
        "threads a client": round((used.threads - before.threads) / count, 1),
        "CPU of all while idle": f"{idle_share:.0%} of a core",
        "all closed after s": round(closed_s, 1),
    }


def share_many_partitions(options: Options) -> Figures:
    """Let a group divide all partitions of a pattern: each has one owner, each member some."""
    with ExitStack() as stack:
        cluster = stack.enter_context(MockProcess(brokers=3, internal_topics=False))
        each_has = options.partitions // options.topics
        for number in range(options.topics):
            cluster.call("create_topic", f"{TOPIC}-{number}", each_has)
        before, began, cpu_s = rss_bytes(), time.monotonic(), time.process_time()
        group = {"group.id": "scale", "group.protocol": "consumer"}
        members = [
            stack.enter_context(Consumer({**_conf(cluster), **group}))
            for _ in range(options.members)
        ]
        for member in members:
            member.subscribe([f"^{TOPIC}-.*"])
        wanted = each_has * options.topics
        while True:
            for member in members:
                member.poll(0)
            owners = Counter(
                (each.topic, each.partition) for member in members for each in member.assignment()
            )
            sizes = [len(member.assignment()) for member in members]
            if len(owners) == wanted == sum(sizes) and min(sizes):
                break
            _check(
                time.monotonic() - began < LIMIT_S,
                f"{len(owners)} of {wanted} have owners, the members have {sizes}",
            )
            time.sleep(0.2)
        return {
            "each has an owner after s": round(time.monotonic() - began, 1),
            "CPU s": round(time.process_time() - cpu_s, 1),
            "MiB": round((rss_bytes() - before) / MIB),
            "smallest and largest share": f"{min(sizes)} and {max(sizes)}",
        }


def read_much_metadata(options: Options) -> Figures:
    """Read the metadata of all partitions, and then of one topic's."""
    topics = max(1, options.metadata // 1000)
    with MockProcess(brokers=3) as cluster:
        for number in range(topics):
            cluster.call("create_topic", f"{TOPIC}-{number}", options.metadata // topics)
        with AdminClient(_conf(cluster)) as admin:
            admin.list_topics(f"{TOPIC}-0", timeout=LIMIT_S)
            before, began, cpu_s = rss_bytes(), time.monotonic(), time.process_time()
            found = admin.list_topics(timeout=LIMIT_S)
            count = sum(len(topic.partitions) for topic in found.topics.values())
            took_s, cpu_s = time.monotonic() - began, time.process_time() - cpu_s
            grown = rss_bytes() - before
    _check(count >= options.metadata // topics * topics, f"{count} partitions")
    _check(cpu_s < METADATA_CPU_S * max(1.0, options.metadata / 50_000), f"{cpu_s:.2f} s of CPU")
    return {"CPU s": round(cpu_s, 2), "s": round(took_s, 2), "MiB": round(grown / MIB)}


def carry_a_large_message(options: Options) -> Figures:
    """Produce and consume one message of so many megabytes."""
    size = options.large_mb * 1_000_000
    room = size + 100_000
    value = os.urandom(1_000_000) * options.large_mb
    with MockProcess(brokers=1, message_max_bytes=room, max_frame_bytes=FRAME_BYTES) as cluster:
        cluster.call("create_topic", TOPIC, 1)
        forget_peak()
        before, began, cpu_s = rss_bytes(), time.monotonic(), time.process_time()
        large = {"message.max.bytes": room, "queue.buffering.max.kbytes": 2 * room // 1000}
        with Producer({**_conf(cluster), **large}) as producer:
            producer.produce(TOPIC, value)
            _check(producer.flush(LIMIT_S) == 0, "not delivered")
        fetch = {
            "fetch.max.bytes": room,
            "max.partition.fetch.bytes": room,
            "receive.message.max.bytes": 2 * room,
            "group.id": "large",
        }
        with Consumer({**_conf(cluster), **fetch}) as consumer:
            consumer.assign([TopicPartition(TOPIC, 0, 0)])
            message = consumer.poll(LIMIT_S)
            _check(message is not None and message.value() == value, "another value")
        took_s, cpu_s = time.monotonic() - began, time.process_time() - cpu_s
        peak = peak_rss_bytes() - before
    _check(peak < LARGE_COPIES * size + 16 * MIB, f"{peak / MIB:.0f} MiB")
    return {"s": round(took_s, 1), "CPU s": round(cpu_s, 1), "MiB at most": round(peak / MIB)}


def queue_many_records(options: Options) -> Figures:
    """Queue records for a broker that never answers, and purge them."""
    with MockProcess(brokers=1) as cluster:
        cluster.call("create_topic", TOPIC, 8)
        conf = {
            "queue.buffering.max.messages": 10_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
            "message.timeout.ms": int(LIMIT_S * 1000),
            "linger.ms": int(LIMIT_S * 1000 / 2),
        }
        producer = Producer({**_conf(cluster), **conf})
        producer.list_topics(TOPIC, LIMIT_S)
        cluster.call("broker_down", 1)
        before, began, cpu_s = rss_bytes(), time.monotonic(), time.process_time()
        for start in range(0, options.queued, BATCH):
            producer.produce_many(TOPIC, [VALUE] * min(BATCH, options.queued - start))
        took_s, cpu_s = time.monotonic() - began, time.process_time() - cpu_s
        used = rss_bytes() - before
        _check(len(producer) == options.queued, f"{len(producer)} are queued")
        began = time.monotonic()
        producer.purge()
        _check(producer.flush(LIMIT_S) == 0, "not purged")
        purged_s = time.monotonic() - began
        producer.close(5)
        del producer
        kept = sample().rss_bytes - before
    _check(used < QUEUED_BYTES * options.queued + 16 * MIB, f"{used / MIB:.0f} MiB for the queue")
    return {
        "s": round(took_s, 1),
        "CPU s": round(cpu_s, 1),
        "bytes a record": round(used / options.queued),
        "purged after s": round(purged_s, 1),
        "MiB kept after close()": round(kept / MIB),
    }


Part = Callable[[Options], Figures]


def parts(options: Options) -> Iterator[tuple[str, Part]]:
    """Yield the parts that the options don't leave out, with their sizes in words."""
    if options.clients:
        yield f"{options.clients} clients", use_many_clients
    if options.partitions and options.members:
        text = (
            f"{options.topics} topics, {options.partitions} partitions, {options.members} members"
        )
        yield text, share_many_partitions
    if options.metadata:
        yield f"metadata of {options.metadata} partitions", read_much_metadata
    if options.large_mb:
        yield f"a message of {options.large_mb} MB", carry_a_large_message
    if options.queued:
        yield f"{options.queued} queued records", queue_many_records


@click.command()
@click.option("--clients", default=1000, show_default=True)
@click.option("--topics", default=2000, show_default=True)
@click.option("--partitions", default=10_000, show_default=True, help="Of all topics.")
@click.option("--members", default=20, show_default=True, help="0 leaves the group out.")
@click.option("--metadata", default=50_000, show_default=True, help="Partitions. 0: leave it out.")
@click.option("--large-mb", default=100, show_default=True, help="0: leave it out.")
@click.option("--queued", default=10_000_000, show_default=True, help="0: leave it out.")
@click.option("--record", "recorded", is_flag=True, help="Add the run to bench/reliability.")
def main(recorded: bool, **given: int) -> None:
    """Run all parts, and print their figures."""
    options, began = Options(**given), time.monotonic()
    figures: Figures = {}
    found = []
    for name, part in parts(options):
        try:
            figures[name] = part(options)
            click.echo(f"  {name}: " + ", ".join(f"{k} {v}" for k, v in figures[name].items()))
        except Exception as error:
            found.append(f"{name}: {error!r}")
    report([], found)
    if recorded:
        seconds = time.monotonic() - began
        record("scale", asdict(options), seconds, {}, options.queued, found, figures)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
