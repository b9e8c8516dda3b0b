"""The pooled producers of a Python worker, see `client_pool`.

All queued rows of a producer belong to one task. A task ends when none is outstanding. A failed
task closes its producer: the queue may still have rows that the next attempt writes again.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from kafka_native import Producer
from kafka_native.config import parse
from kafka_native.spark.client_pool import Pool, admitted
from kafka_native.spark.options import SinkOptions

__all__ = ["borrowed", "close_idle", "delivery_timeout_s", "wait_for_outcomes"]

_EXIT_FLUSH_S: Final = 5.0
_CHECK_INTERVAL_S: Final = 0.5
_GRACE_S: Final = 60.0
"""Seconds that a task waits after message.timeout.ms, when every row should have an outcome."""


def _has_delivered(producer: Producer) -> bool:
    return len(producer) == 0 and producer.fatal_error() is None


_producers: Final = Pool(lambda config: admitted(Producer(config)), _has_delivered, Producer.close)
close_idle: Final = _producers.close_idle
atexit.register(close_idle, _EXIT_FLUSH_S)


def borrowed(options: SinkOptions) -> AbstractContextManager[Producer]:
    """Borrow a producer for a ``with`` block: an idle one of this worker, or a new one.

    At the end of the block all rows must be delivered. If the block raises, outstanding rows are
    dropped and the producer is closed.

    :raises KafkaException: The configuration is invalid, or the brokers reject the producer (_SSL,
        _AUTHENTICATION).
    """
    return _producers.borrowed(options.producer)


def delivery_timeout_s(options: SinkOptions) -> float:
    """Seconds until a row must have an outcome; infinite if message.timeout.ms is 0."""
    timeout_ms = parse(options.producer, "producer").integer("message.timeout.ms")
    return timeout_ms / 1000 + _GRACE_S if timeout_ms else float("inf")


def wait_for_outcomes(producer: Producer, limit_s: float, check: Callable[[], object]) -> bool:
    """Wait until every queued message has an outcome. False: some have none after ``limit_s``.

    :param check: Called meanwhile and at the end. It raises the error of a failed message.
    """
    deadline = time.monotonic() + limit_s
    while producer.flush(_CHECK_INTERVAL_S) or len(producer):
        check()
        if time.monotonic() > deadline:
            return False
    check()
    return True
