"""Consumer scenarios for clients with confluent_kafka's API. An adapter passes its module."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

from bench.adapters import (
    COLD_STARTS,
    IDLE_S,
    Figures,
    Stopwatch,
    Task,
    percentiles,
    steadily,
)

STEP = 10_000
STEP_BYTES = 10_000_000  # consume() keeps all messages of a call in memory
ROWS = 100_000  # the rows of a batch of columns
WAIT_S = 30.0
WARM_UP = 200
STAMP = struct.Struct("d")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MIB = 2**20

Take = Callable[[Any, Task, int], int]


def reader(client: ModuleType, task: Task, **tuning: Any) -> Any:
    """Make a consumer of the topic, from its beginning.

    It assigns all partitions by hand, or joins a group if the task says so.
    """
    if task.member:
        return in_group(client, task, **tuning)
    consumer = client.Consumer({**task.group(), "enable.auto.commit": False, **tuning})
    assign(client, consumer, task.topic, task.partitions)
    return consumer


def assign(client: ModuleType, consumer: Any, topic: str, partitions: int) -> None:
    """Assign all partitions, from their beginnings."""
    consumer.assign(
        [
            client.TopicPartition(topic, number, client.OFFSET_BEGINNING)
            for number in range(partitions)
        ]
    )


def in_group(client: ModuleType, task: Task, number: int = 0, **tuning: Any) -> Any:
    """Make the only member of a new group, with default commits, and subscribe."""
    consumer = client.Consumer({**task.group(number), **tuning})
    consumer.subscribe([task.topic])
    return consumer


def timed(consumer: Any, task: Task, take: Take) -> Figures:
    """Measure from the second message on. Before it the client connects and joins."""
    first = len(consumer.consume(1, WAIT_S))
    if not first:
        raise RuntimeError("no message came")
    watch = Stopwatch()
    taken = take(consumer, task, task.count - first)
    figures = watch.figures(taken)
    consumer.close()
    return figures


def in_steps(
    consumer: Any, task: Task, wanted: int, after_step: Callable[[], None] = lambda: None
) -> int:
    """Read with consume(10000), or fewer if they are large, and take each value."""
    step = min(STEP, max(1, STEP_BYTES // max(1, task.size)))
    taken = 0
    while taken < wanted:
        messages = consumer.consume(min(step, wanted - taken), WAIT_S / 6)
        for message in messages:
            message.value()
        taken += len(messages)
        after_step()
        if not messages:
            raise RuntimeError(f"only {taken} of {wanted} messages came")
    return taken


def one_by_one(consumer: Any, task: Task, wanted: int) -> int:
    """Read with poll(), and take each value."""
    poll = consumer.poll
    for taken in range(wanted):
        message = poll(WAIT_S / 6)
        if message is None:
            raise RuntimeError(f"only {taken} of {wanted} messages came")
        message.value()
    return wanted


def by_iteration(consumer: Iterable[Any], task: Task, wanted: int) -> int:
    """Read with `for message in consumer`, and take each value."""
    taken = 0
    for message in consumer:
        message.value()
        taken += 1
        if taken == wanted:
            break
    return taken


def consume(client: ModuleType, task: Task, **tuning: Any) -> Figures:
    """Read all messages of assigned partitions, 10,000 at a time."""
    return timed(reader(client, task, **tuning), task, in_steps)


def group(client: ModuleType, task: Task, **tuning: Any) -> Figures:
    """Like `consume`, in a group."""
    return timed(in_group(client, task, **tuning), task, in_steps)


def poll(client: ModuleType, task: Task, **tuning: Any) -> Figures:
    """Read all messages of assigned partitions, one at a time."""
    return timed(reader(client, task, **tuning), task, one_by_one)


def iterate(client: ModuleType, task: Task, **tuning: Any) -> Figures:
    """Read all messages by iterating over the consumer."""
    return timed(reader(client, task, **tuning), task, by_iteration)


def memory(client: ModuleType, task: Task, **tuning: Any) -> Figures:
    """Measure the largest growth of the process while it reads with consume(10000)."""
    before = resident_mib()
    highest = before

    def watch() -> None:
        nonlocal highest
        highest = max(highest, resident_mib())

    steps = partial(in_steps, after_step=watch)
    figures = timed(reader(client, task, **tuning), task, steps)
    figures.more["grown MiB"] = highest - before
    return figures


def resident_mib() -> float:
    """The resident memory of this process; Linux only."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES / MIB


def end_to_end(client: ModuleType, task: Task) -> Figures:
    """Measure from produce() to poll(). One thread produces at a steady rate, one polls."""
    producer = client.Producer(
        {"bootstrap.servers": task.bootstrap, "acks": task.acks, "linger.ms": 0}
    )
    consumer = client.Consumer({**task.group(), "enable.auto.commit": False})
    filler = b"x" * max(task.size - STAMP.size, 0)
    producer.produce(task.topic, STAMP.pack(0.0), partition=0)  # connects before the clock starts
    producer.flush(WAIT_S)
    consumer.assign([client.TopicPartition(task.topic, 0, client.OFFSET_BEGINNING)])
    if not consumer.consume(1, WAIT_S):
        raise RuntimeError("no message came")
    taken: list[float] = []
    warm_up = task.warm_up(WARM_UP)
    wanted = task.count + warm_up

    def send(now: float) -> None:
        producer.produce(task.topic, STAMP.pack(now) + filler, partition=0)
        producer.poll(0)

    with ThreadPoolExecutor(1) as sender:
        watch = Stopwatch()
        sending = sender.submit(steadily, task.rate, wanted, send)
        while len(taken) < wanted:
            message = consumer.poll(WAIT_S)
            if message is None:
                sending.result()  # raises what has ended the sender
                raise RuntimeError(f"only {len(taken)} of {wanted} messages came")
            taken.append((time.perf_counter() - STAMP.unpack_from(message.value())[0]) * 1e3)
        figures = watch.figures(wanted)
    figures.percentiles = percentiles(taken[warm_up:])
    consumer.close()
    return figures


def cold(client: ModuleType, task: Task) -> Figures:
    """Measure from the making of a Consumer to its first message, as the only group member."""
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
    """Read messages of many partitions, then idle.

    Extra figures are the ratio of the CPU time to that of one partition, and the CPU while idle.
    """
    narrow = client.Consumer({**task.group(1), "enable.auto.commit": False, **tuning})
    assign(client, narrow, task.second_topic, 1)
    one = timed(narrow, task, in_steps)
    consumer = reader(client, task, **tuning)
    first = len(consumer.consume(1, WAIT_S))
    watch = Stopwatch()
    taken = in_steps(consumer, task, task.count - first)
    figures = watch.figures(taken)
    consumer.consume(1, 2.0)  # the last requests of the measurement
    idle = Stopwatch()
    consumer.consume(1, IDLE_S)
    rest = idle.figures(1)
    consumer.close()
    figures.more["CPU / one partition's"] = figures.cpu_us / one.cpu_us
    figures.more["idle CPU %"] = rest.cpu_seconds / rest.seconds * 100
    return figures
