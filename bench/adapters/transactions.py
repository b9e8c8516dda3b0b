"""Transaction scenarios for clients with confluent_kafka's API. An adapter passes its module."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from bench.adapters import QUEUE_MESSAGES, Figures, Stopwatch, Task, percentiles

WARM_UP = 50
INTERVAL_S = 0.1
WAIT_S = 0.05
CALL_S = 60.0
STEP = 10_000
STARVED_S = 30.0

Transfer = Callable[[Any, Any, str, int], int]
"""Moves available messages, up to a number, from a consumer to a topic. Returns their number."""


def _producer(client: ModuleType, task: Task) -> Any:
    conf = {"bootstrap.servers": task.bootstrap, "transactional.id": task.topic}
    producer = client.Producer({**conf, "queue.buffering.max.messages": QUEUE_MESSAGES})
    producer.init_transactions(CALL_S)
    return producer


def transaction(client: ModuleType, task: Task) -> Figures:
    """Measure transactions of one message, from begin to commit, then as many empty ones."""
    producer = _producer(client, task)
    value = b"x" * task.size
    taken, empty = [], []
    for number in range(task.count + WARM_UP):
        if number == WARM_UP:
            watch = Stopwatch()
        started = time.perf_counter()
        producer.begin_transaction()
        producer.produce(task.topic, value, partition=0)
        producer.commit_transaction(CALL_S)
        taken.append((time.perf_counter() - started) * 1e3)
    figures = watch.figures(task.count)
    for _ in range(task.count):
        started = time.perf_counter()
        producer.begin_transaction()
        producer.commit_transaction(CALL_S)
        empty.append((time.perf_counter() - started) * 1e3)
    figures.percentiles = percentiles(taken[WARM_UP:])
    figures.more = {"empty p50 ms": percentiles(empty)["p50"]}
    return figures


def one_by_one(consumer: Any, producer: Any, target: str, wanted: int) -> int:
    """Move messages with a produce() for each."""
    messages = consumer.consume(min(STEP, wanted), WAIT_S)
    for message in messages:
        while True:
            try:
                producer.produce(target, message.value())
                break
            except BufferError:
                producer.poll(0.01)
    return len(messages)


def copy(client: ModuleType, task: Task, transfer: Transfer, **tuning: Any) -> Figures:
    """Copy a topic. Every 100 ms a transaction with messages and offsets is committed."""
    consumer = client.Consumer(
        {**task.group(), "enable.auto.commit": False, "isolation.level": "read_committed", **tuning}
    )
    consumer.subscribe([task.topic])
    producer = _producer(client, task)
    left, watch = task.count, None
    starved_at = time.monotonic() + STARVED_S
    while left:
        producer.begin_transaction()
        ends = time.monotonic() + INTERVAL_S
        while left and time.monotonic() < ends:
            moved = transfer(consumer, producer, task.second_topic, left)
            if moved:
                watch = watch or Stopwatch()  # the group has assigned its partitions
                starved_at = time.monotonic() + STARVED_S
            elif time.monotonic() > starved_at:
                raise RuntimeError(f"{left} of {task.count} messages did not come")
            left -= moved
        positions = [each for each in consumer.position(consumer.assignment()) if each.offset >= 0]
        if positions:
            producer.send_offsets_to_transaction(
                positions, consumer.consumer_group_metadata(), CALL_S
            )
        producer.commit_transaction(CALL_S)
    assert watch is not None
    figures = watch.figures(task.count)
    consumer.close()
    return figures
