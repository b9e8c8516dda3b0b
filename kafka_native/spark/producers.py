"""The producers of a Python worker, see `client_pool`.

What is outstanding in a producer is its task's. A task ends with nothing outstanding; one that failed leaves no
producer behind, because rows that its next attempt writes again may still be queued in it.
"""

from __future__ import annotations

import atexit
from contextlib import AbstractContextManager
from typing import Final

from kafka_native import Producer
from kafka_native.config import parse
from kafka_native.spark.client_pool import Pool, admitted
from kafka_native.spark.options import SinkOptions

__all__ = ["close_idle", "lent", "patience_s"]

_EXIT_FLUSH_S: Final = 5.0
_GRACE_S: Final = 60.0
"""After message.timeout.ms every row has an outcome; a task that still waits so much later gives up."""


def _has_delivered(producer: Producer) -> bool:
    return len(producer) == 0 and producer.fatal_error() is None


_producers: Final = Pool(lambda config: admitted(Producer(config)), _has_delivered, Producer.close)
close_idle: Final = _producers.close_idle
atexit.register(close_idle, _EXIT_FLUSH_S)


def lent(options: SinkOptions) -> AbstractContextManager[Producer]:
    """A producer of this configuration for the length of a ``with`` block: an idle one of this worker, or a new one.

    The block has to end with everything delivered. If it raises, what is outstanding is given up, and the producer is
    closed.

    :raises KafkaException: The configuration can't be; no broker lets the producer in (_SSL, _AUTHENTICATION).
    """
    return _producers.lent(options.producer)


def patience_s(options: SinkOptions) -> float:
    """After how many seconds without an outcome something is wrong; for ever where rows are to wait for ever."""
    timeout_ms = parse(options.producer, "producer").integer("message.timeout.ms")
    return timeout_ms / 1000 + _GRACE_S if timeout_ms else float("inf")
