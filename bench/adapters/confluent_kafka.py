"""confluent_kafka."""

from __future__ import annotations

import confluent_kafka

from bench.adapters import Figures, Task, python_api


def produce(task: Task) -> Figures:
    """See python_api."""
    return python_api.produce(confluent_kafka, task)


def callback(task: Task) -> Figures:
    """See python_api."""
    return python_api.callback(confluent_kafka, task)


def spread(task: Task) -> Figures:
    """See python_api."""
    return python_api.spread(confluent_kafka, task)


def consume(task: Task) -> Figures:
    """See python_api. With its defaults it pauses for a second whenever 100,000 messages of a partition are queued."""
    tuning = {"queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 1}
    return python_api.consume(confluent_kafka, task, **tuning)


def latency(task: Task) -> Figures:
    """See python_api."""
    return python_api.latency(confluent_kafka, task)


def call(task: Task) -> Figures:
    """See python_api."""
    return python_api.call(confluent_kafka, task)
