"""Clients of the cluster under test, and an event loop for a test that can't hang."""

from __future__ import annotations

import asyncio
import functools
import itertools
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from kafka_native import OFFSET_BEGINNING, KafkaException, Producer, TopicPartition
from kafka_native.aio import AIOConsumer, AIOProducer
from kafka_native.mock import MockCluster
from tests.waiting import WAIT_S

_numbers = itertools.count()


def run(test: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in a new loop, with a timeout."""
    return asyncio.run(asyncio.wait_for(test, 100))


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test that is a coroutine in its own loop."""

    @functools.wraps(test)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        run(test(*args, **kwargs))

    return wrapper


async def until(condition: Callable[[], object]) -> None:
    """Wait in the loop until a condition is true."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "the condition stayed false"
        await asyncio.sleep(0.005)


@contextmanager
def kafka_error(code: int) -> Iterator[None]:
    """Check that the block raises KafkaException with this error code."""
    with pytest.raises(KafkaException) as caught:
        yield
    assert caught.value.args[0].code() == code


@dataclass
class Client:
    """Makes clients of one cluster, with short timings."""

    cluster: MockCluster

    @property
    def conf(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.cluster.bootstrap_servers, "reconnect.backoff.ms": 20}

    def topic(self, partitions: int = 1) -> str:
        """Create a new topic, and return its name."""
        name = f"aio-{next(_numbers)}"
        self.cluster.create_topic(name, partitions)
        return name

    def fill(self, topic: str, count: int, start: int = 0) -> None:
        """Produce the numbers from ``start`` on as text."""
        with Producer(self.conf) as producer:
            for number in range(start, start + count):
                producer.produce(topic, str(number))

    def producer(self, **conf: Any) -> AIOProducer:
        return AIOProducer({**self.conf, **conf})

    def consumer(self, **conf: Any) -> AIOConsumer:
        return AIOConsumer({**self.conf, **conf})

    async def reader(self, topic: str, partitions: int = 1, **conf: Any) -> AIOConsumer:
        """Return a consumer of each partition of the topic, from its beginning."""
        consumer = self.consumer(**conf)
        await consumer.assign(
            [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)]
        )
        return consumer


def group(**more: Any) -> dict[str, Any]:
    """Return the configuration of a new group that reads from the beginning."""
    return {"group.id": f"group-{next(_numbers)}", "auto.offset.reset": "earliest", **more}
