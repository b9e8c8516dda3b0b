"""The scenarios of consumers, for every client that has confluent_kafka's API; the adapters bind the module."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

from bench.adapters import COLD_STARTS, IDLE_S, RATE, Figures, Stopwatch, Task, percentiles

STEP = 10_000
ROWS = 100_000  # of a batch of columns
WAIT_S = 30.0
WARM_UP = 200
STAMP = struct.Struct("d")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MIB = 2**20

Take = Callable[[Any, Task, int], int]


def by_hand(client: ModuleType, task: Task, **tuning: Any) -> Any:
    """A consumer that has each partition of the topic from its beginning."""
    consumer = client.Consumer({**task.group(), "enable.auto.commit": False, **tuning})
    assign(client, consumer, task.topic, task.partitions)
    return consumer


def assign(client: ModuleType, consumer: Any, topic: str, partitions: int) -> None:
    """Each partition from its beginning."""
    consumer.assign(
        [
            client.TopicPartition(topic, number, client.OFFSET_BEGINNING)
            for number in range(partitions)
        ]
    )


def in_group(client: ModuleType, task: Task, number: int = 0, **tuning: Any) -> Any:
    """The only member of a new group, subscribed; it commits as it does by default."""
    consumer = client.Consumer({**task.group(number), **tuning})
    consumer.subscribe([task.topic])
    return consumer


def timed(consumer: Any, task: Task, take: Take) -> Figures:
    """The first message isn't counted: with it everything is connected, joined and under way."""
    first = len(consumer.consume(1, WAIT_S))
    if not first:
        raise RuntimeError("no message came")
    watch = Stopwatch()
    taken = take(consumer, task, task.count - first)
    figures = watch.figures(taken)
    consumer.close()
    return figures


def in_steps(consumer: Any, task: Task, wanted: int) -> int:
    """consume(10000), each value taken."""
    taken = 0
    while taken < wanted:
        messages = consumer.consume(min(STEP, wanted - taken), WAIT_S / 6)
        for message in messages:
            message.value()
        taken += len(messages)
        if not messages:
            raise RuntimeError(f"only {taken} of {wanted} messages came")
    return taken


def one_by_one(consumer: Any, task: Task, wanted: int) -> int:
    """poll(), each value taken."""
    poll = consumer.poll
    for taken in range(wanted):
        message = poll(WAIT_S / 6)
        if message is None:
            raise RuntimeError(f"only {taken} of {wanted} messages came")
        message.value()
    return wanted


def by_iteration(consumer: Iterable[Any], task: Task, wanted: int) -> int:
    """`for message in consumer`, each value taken."""
    taken = 0
    for message in consumer:
        message.value()
        taken += 1
        if taken == wanted:
            break
    return taken


def consume(client: ModuleType, task: Task, **tuning: Any) -> Figures:
    """Assigned by hand, 10,000 at a time, from the beginning to the end of what was produced."""
    return timed(by_hand(client, task, **tuning), task, in_steps)


def group(client: ModuleType, task: Task, **tuning: Any) -> Figures:
    """The same in a group."""
    return timed(in_group(client, task, **tuning), task, in_steps)


def poll(client: ModuleType, task: Task, **tuning: Any) -> Figures:
    """Assigned by hand, one message at a time."""
    return timed(by_hand(client, task, **tuning), task, one_by_one)


def iterate(client: ModuleType, task: Task, **tuning: Any) -> Figures:
    """Iteration over the consumer."""
    return timed(by_hand(client, task, **tuning), task, by_iteration)


def memory(client: ModuleType, task: Task, **tuning: Any) -> Figures:
    """consume(10000) flat out, and by how much the process grew: the most since before there was a consumer."""
    before = resident_mib()
    highest = before

    def watched(consumer: Any, task: Task, wanted: int) -> int:
        nonlocal highest
        taken = 0
        while taken < wanted:
            messages = consumer.consume(min(STEP, wanted - taken), WAIT_S / 6)
            for message in messages:
                message.value()
            taken += len(messages)
            highest = max(highest, resident_mib())
            if not messages:
                raise RuntimeError(f"only {taken} of {wanted} messages came")
        return taken

    figures = timed(by_hand(client, task, **tuning), task, watched)
    figures.more["grown MiB"] = highest - before
    return figures


def resident_mib() -> float:
    """What this process has in memory now; Linux only, like the figure's target."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES / MIB


def end_to_end(client: ModuleType, task: Task) -> Figures:
    """A message each millisecond, by one thread that polls in between; from produce() to the Message in hand."""
    producer = client.Producer(
        {"bootstrap.servers": task.bootstrap, "acks": task.acks, "linger.ms": 0}
    )
    consumer = client.Consumer({**task.group(), "enable.auto.commit": False})
    filler = b"x" * max(task.size - STAMP.size, 0)
    producer.produce(task.topic, STAMP.pack(0.0), partition=0)  # connected before the clock starts
    producer.flush(WAIT_S)
    consumer.assign([client.TopicPartition(task.topic, 0, client.OFFSET_BEGINNING)])
    if not consumer.consume(1, WAIT_S):
        raise RuntimeError("no message came")
    taken: list[float] = []
    sent, wanted = 0, task.count + WARM_UP
    watch = Stopwatch()
    next_at = time.perf_counter()
    while len(taken) < wanted:
        now = time.perf_counter()
        if now >= next_at and sent < wanted:
            producer.produce(task.topic, STAMP.pack(now) + filler, partition=0)
            producer.poll(0)
            sent += 1
            next_at = max(next_at + 1 / RATE, now)  # who is late sends no burst afterwards
        left = next_at - time.perf_counter() if sent < wanted else WAIT_S
        message = consumer.poll(max(left, 0.0))
        if message is None and sent == wanted:
            raise RuntimeError(f"only {len(taken)} of {wanted} messages came")
        while message is not None:
            taken.append((time.perf_counter() - STAMP.unpack_from(message.value())[0]) * 1e3)
            message = consumer.poll(0)
    figures = watch.figures(wanted)
    figures.percentiles = percentiles(taken[WARM_UP:])
    consumer.close()
    return figures


def cold(client: ModuleType, task: Task) -> Figures:
    """From making a Consumer to its first message as the only member of a new group, several times."""
    producer = client.Producer({"bootstrap.servers": task.bootstrap})
    producer.produce(task.topic, b"x" * task.size)
    producer.flush(WAIT_S)
    times = []
    watch = Stopwatch()
    for number in range(COLD_STARTS):
        started = time.perf_counter()
        consumer = in_group(client, task, number)
        message = consumer.poll(WAIT_S)
        times.append((time.perf_counter() - started) * 1e3)
        if message is None or message.error() is not None:
            raise RuntimeError(f"no message came: {message and message.error()}")
        consumer.close()
    figures = watch.figures(COLD_STARTS)
    figures.more["first ms"] = median(times)
    return figures


def wide(client: ModuleType, task: Task, **tuning: Any) -> Figures:
    """Messages of many partitions; how many times the CPU of one partition's they cost, and what idling costs then."""
    narrow = client.Consumer({**task.group(1), "enable.auto.commit": False, **tuning})
    assign(client, narrow, task.beside, 1)
    one = timed(narrow, task, in_steps)
    consumer = by_hand(client, task, **tuning)
    first = len(consumer.consume(1, WAIT_S))
    watch = Stopwatch()
    taken = in_steps(consumer, task, task.count - first)
    figures = watch.figures(taken)
    consumer.consume(1, 2.0)  # the last requests of the run itself
    idle = Stopwatch()
    consumer.consume(1, IDLE_S)
    rest = idle.figures(1)
    consumer.close()
    figures.more["CPU / one partition's"] = figures.cpu_us / one.cpu_us
    figures.more["idle CPU %"] = rest.cpu_seconds / rest.seconds * 100
    return figures
