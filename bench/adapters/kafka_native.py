"""kafka_native."""

from __future__ import annotations

import kafka_native
from bench.adapters import Figures, Task, python_api


def produce(task: Task) -> Figures:
    """See python_api."""
    return python_api.produce(kafka_native, task)


def consume(task: Task) -> Figures:
    """See python_api."""
    return python_api.consume(kafka_native, task)


def latency(task: Task) -> Figures:
    """See python_api."""
    return python_api.latency(kafka_native, task)


def call(task: Task) -> Figures:
    """See python_api."""
    return python_api.call(kafka_native, task)
