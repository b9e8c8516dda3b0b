"""The adapter of kafka-python. Its loops read or write at most the first 300,000 messages."""

from __future__ import annotations

import time
from functools import partial
from statistics import median
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from bench.adapters import COLD_STARTS, Figures, Stopwatch, Task, import_time, percentiles
from bench.adapters.consumer_api import STEP, WAIT_S
from bench.adapters.producer_api import FLUSH_TIMEOUT_S, WARM_UP

MESSAGES = 300_000
PRODUCER = {"linger_ms": 5, "batch_size": 262_144}
imports = partial(import_time.imports, "kafka", "KafkaProducer, KafkaConsumer")
CONSUMER = {"max_partition_fetch_bytes": 8 * 2**20, "max_poll_records": STEP}


def _servers(task: Task) -> dict[str, Any]:
    if not task.tls:
        return {"bootstrap_servers": task.bootstrap}
    return {
        "bootstrap_servers": task.tls,
        "security_protocol": "SSL",
        "ssl_cafile": task.ca,
    }


def _producer(task: Task, **more: Any) -> KafkaProducer:
    acks: Any = "all" if task.acks == "all" or task.idempotent else int(task.acks)
    return KafkaProducer(
        **_servers(task),
        acks=acks,
        enable_idempotence=task.idempotent,
        compression_type=None if task.codec == "none" else task.codec,
        **{**PRODUCER, **more},
    )


def produce(task: Task) -> Figures:
    """Call send() in a loop, until the last message is acknowledged."""
    return _produce(task, report=False)


def callback(task: Task) -> Figures:
    """Like `produce`, with a counting callback for each message."""
    return _produce(task, report=True)


def _produce(task: Task, *, report: bool) -> Figures:
    producer, values = _producer(task), task.values()
    producer.send(task.topic, values[0]).get(WAIT_S)  # connects before the clock starts
    count = min(task.count, MESSAGES) - 1
    delivered, failed = [0], [0]

    def on_success(_: object) -> None:
        delivered[0] += 1

    def on_failure(_: object) -> None:
        failed[0] += 1

    watch = Stopwatch()
    for number in range(count):
        sent = producer.send(task.topic, values[number % len(values)])
        sent.add_errback(on_failure)
        if report:
            sent.add_callback(on_success)
    producer.flush(FLUSH_TIMEOUT_S)
    figures = watch.figures(count)
    producer.close()
    if failed[0] or (report and delivered[0] != count):
        raise RuntimeError(f"{failed[0]} messages failed, {delivered[0]} of {count} were reported")
    return figures


def latency(task: Task) -> Figures:
    """Send one message at a time with linger_ms=0, and wait for its report."""
    producer, value, taken = _producer(task, linger_ms=0), b"x" * task.size, []
    for number in range(task.count + WARM_UP):
        if number == WARM_UP:
            watch = Stopwatch()
        started = time.perf_counter()
        producer.send(task.topic, value, partition=0).get(WAIT_S)
        taken.append((time.perf_counter() - started) * 1e3)
    figures = watch.figures(task.count)
    producer.close()
    figures.percentiles = percentiles(taken[WARM_UP:])
    return figures


def _consumer(task: Task, **more: Any) -> KafkaConsumer:
    return KafkaConsumer(**_servers(task), auto_offset_reset="earliest", **CONSUMER, **more)


def _by_hand(task: Task) -> KafkaConsumer:
    consumer = _consumer(task, enable_auto_commit=False, consumer_timeout_ms=WAIT_S * 1e3)
    consumer.assign([TopicPartition(task.topic, number) for number in range(task.partitions)])
    return consumer


def _in_group(task: Task, number: int = 0) -> KafkaConsumer:
    consumer = _consumer(
        task, group_id=task.group(number)["group.id"], consumer_timeout_ms=WAIT_S * 1e3
    )
    consumer.subscribe([task.topic])
    return consumer


def _in_steps(consumer: KafkaConsumer, task: Task) -> Figures:
    next(consumer)
    wanted, taken = min(task.count, MESSAGES) - 1, 0
    watch = Stopwatch()
    while taken < wanted:
        found = consumer.poll(WAIT_S / 6 * 1e3, max_records=STEP)
        if not found:
            raise RuntimeError(f"only {taken} of {wanted} messages came")
        for records in found.values():
            for record in records:
                record.value  # noqa: B018
            taken += len(records)
    figures = watch.figures(taken)
    consumer.close()
    return figures


def consume(task: Task) -> Figures:
    """Call poll(max_records=10000), with partitions assigned by hand, and take each value."""
    return _in_steps(_by_hand(task), task)


def group(task: Task) -> Figures:
    """Like `consume`, in a group."""
    return _in_steps(_in_group(task), task)


def poll(task: Task) -> Figures:
    """Iterate over the consumer, its way to take one message at a time."""
    consumer = _by_hand(task)
    next(consumer)
    wanted = min(task.count, MESSAGES) - 1
    watch = Stopwatch()
    for _ in range(wanted):
        next(consumer).value  # noqa: B018
    figures = watch.figures(wanted)
    consumer.close()
    return figures


iterate = poll


def cold(task: Task) -> Figures:
    """Measure from the making of a consumer to its first message, as the only group member."""
    producer = _producer(task)
    producer.send(task.topic, b"x" * task.size).get(WAIT_S)
    producer.close()
    times = []
    watch = Stopwatch()
    for number in range(COLD_STARTS):
        started = time.perf_counter()
        consumer = _in_group(task, number)
        next(consumer)
        times.append((time.perf_counter() - started) * 1e3)
        consumer.close()
    figures = watch.figures(COLD_STARTS)
    figures.more["first ms"] = median(times)
    return figures
