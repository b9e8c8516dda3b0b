"""Producer scenarios for clients with confluent_kafka's API. An adapter passes its module."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from types import ModuleType
from typing import Any

from bench.adapters import QUEUE_MESSAGES, Figures, Stopwatch, Task, percentiles, steadily

STEP = 10_000
FLUSH_TIMEOUT_S = 120.0
WARM_UP = 200
POLL_EVERY = 1000
CALL_ROUNDS = 5


def produce(client: ModuleType, task: Task) -> Figures:
    """Produce in a loop, until the last message is acknowledged."""
    producer = client.Producer(task.config)
    values = task.values()
    producer.list_topics(task.topic, 30)
    producer.produce(task.topic, values[0])
    producer.flush(FLUSH_TIMEOUT_S)  # connects before the clock starts
    count = (task.count - 1) // task.threads * task.threads
    share = count // task.threads
    streams = [list(islice(cycle(values), share)) for _ in range(task.threads)]
    watch = Stopwatch()
    if task.threads == 1:
        _produce_all(producer, task.topic, streams[0])
    else:
        with ThreadPoolExecutor(task.threads) as pool:
            list(pool.map(lambda stream: _produce_all(producer, task.topic, stream), streams))
    left = producer.flush(FLUSH_TIMEOUT_S)
    figures = watch.figures(count)
    if left:
        raise RuntimeError(f"{left} messages were not delivered")
    return figures


def _produce_all(producer: Any, topic: str, values: list[bytes]) -> None:
    call = producer.produce
    for value in values:
        try:
            call(topic, value)
        except BufferError:
            while True:
                producer.poll(0.01)
                try:
                    call(topic, value)
                    break
                except BufferError:
                    continue


def spread(client: ModuleType, task: Task) -> Figures:
    """Produce in a loop to many topics in turn. Each partition has a message before the start.

    An extra figure is the ratio of the CPU time to that of one partition.
    """
    producer = client.Producer(task.config)
    value = b"x" * task.size
    names = task.names()
    for name in [task.topic, *names]:
        for partition in range(task.partitions):
            producer.produce(name, value, partition=partition)
    producer.flush(FLUSH_TIMEOUT_S)
    one = _in_turn(producer, [task.topic], 0, value, task.count)
    figures = _in_turn(producer, names, -1, value, task.count)
    figures.more["CPU / one partition's"] = figures.cpu_us / one.cpu_us
    return figures


def _in_turn(producer: Any, names: list[str], partition: int, value: bytes, count: int) -> Figures:
    """Produce about ``count`` messages to the topics in turn."""
    rounds = count // len(names)
    call = producer.produce
    watch = Stopwatch()
    for _ in range(rounds):
        for name in names:
            try:
                call(name, value, None, partition)
            except BufferError:
                producer.flush(1.0)
                call(name, value, None, partition)
    left = producer.flush(FLUSH_TIMEOUT_S)
    figures = watch.figures(rounds * len(names))
    if left:
        raise RuntimeError(f"{left} messages were not delivered")
    return figures


def callback(client: ModuleType, task: Task) -> Figures:
    """Produce in a loop with a counting callback for each message, and poll from time to time."""
    producer = client.Producer(task.config)
    value = b"x" * task.size
    producer.list_topics(task.topic, 30)
    producer.produce(task.topic, value)
    producer.flush(FLUSH_TIMEOUT_S)
    count = task.count - 1
    delivered = 0

    def on_delivery(error: Any, _: Any) -> None:
        nonlocal delivered
        if error is None:
            delivered += 1

    call, topic = producer.produce, task.topic
    watch = Stopwatch()
    for number in range(count):
        while True:
            try:
                call(topic, value, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.01)
        if number % POLL_EVERY == 0:
            producer.poll(0)
    producer.flush(FLUSH_TIMEOUT_S)
    figures = watch.figures(count)
    if delivered != count:
        raise RuntimeError(f"{delivered} of {count} messages were reported as delivered")
    return figures


def latency(client: ModuleType, task: Task) -> Figures:
    """Produce one message at a time with linger.ms=0, and wait for its delivery report."""
    producer = client.Producer(
        {"bootstrap.servers": task.bootstrap, "acks": task.acks, "linger.ms": 0}
    )
    value = b"x" * task.size
    served: list[Any] = []
    taken = []
    for number in range(task.count + WARM_UP):
        if number == WARM_UP:
            watch = Stopwatch()
        started = time.perf_counter()
        producer.produce(
            task.topic, value, partition=0, on_delivery=lambda error, message: served.append(error)
        )
        while len(served) <= number:
            producer.poll(1.0)
        taken.append((time.perf_counter() - started) * 1e3)
    figures = watch.figures(task.count)
    if any(error is not None for error in served):
        raise RuntimeError("a message was not delivered")
    figures.percentiles = percentiles(taken[WARM_UP:])
    return figures


def round_trip(client: ModuleType, task: Task) -> Figures:
    """Measure from produce() to each report. One thread produces at a steady rate, one polls."""
    producer = client.Producer(
        {"bootstrap.servers": task.bootstrap, "acks": task.acks, "linger.ms": 0}
    )
    value = b"x" * task.size
    warm_up = task.warm_up(WARM_UP)
    wanted, taken, failed = task.count + warm_up, [], 0

    def report(error: Any, started: float) -> None:
        nonlocal failed
        failed += error is not None
        taken.append((time.perf_counter() - started) * 1e3)

    producer.produce(task.topic, value, partition=0)  # connects before the clock starts
    producer.flush(FLUSH_TIMEOUT_S)

    def send(now: float) -> None:
        on_delivery = lambda error, _: report(error, now)  # noqa: E731
        producer.produce(task.topic, value, partition=0, on_delivery=on_delivery)

    with ThreadPoolExecutor(1) as sender:
        watch = Stopwatch()
        sending = sender.submit(steadily, task.rate, wanted, send)
        while len(taken) < wanted:
            if not producer.poll(FLUSH_TIMEOUT_S) and len(taken) < wanted:
                sending.result()  # raises what has ended the sender
                raise RuntimeError(f"only {len(taken)} of {wanted} messages were reported")
        figures = watch.figures(wanted)
    if failed:
        raise RuntimeError(f"{failed} messages were not delivered")
    figures.percentiles = percentiles(taken[warm_up:])
    return figures


def call(client: ModuleType, task: Task) -> Figures:
    """Measure one produce() call: the best of several rounds, with a flush between them."""
    conf = {
        "bootstrap.servers": task.bootstrap,
        "acks": task.acks,
        "queue.buffering.max.messages": QUEUE_MESSAGES,
    }
    producer = client.Producer(conf)
    value = b"x" * task.size
    count = min(task.count, QUEUE_MESSAGES // 4)
    loops, empty = [], []
    whole = Stopwatch()
    function, topic = producer.produce, task.topic
    for _ in range(CALL_ROUNDS):
        started = time.perf_counter()
        for _ in range(count):
            function(topic, value)
        loops.append(time.perf_counter() - started)
        started = time.perf_counter()
        for _ in range(count):
            pass
        empty.append(time.perf_counter() - started)
        producer.flush(FLUSH_TIMEOUT_S)
    figures = whole.figures(count * CALL_ROUNDS)
    figures.call_ns = net_call_ns(loops, empty, count)
    return figures


def net_call_ns(loops: list[float], empty: list[float], count: int) -> float:
    """The fastest loop minus the fastest empty loop.

    The empty loop of the same round isn't subtracted. If another process used the core during that
    loop, the difference is too small, even negative. The best of several rounds would be such a
    difference.
    """
    return (min(loops) - min(empty)) / count * 1e9
