"""Producer.poll(): acknowledged batches end its wait. It counts them, as in confluent_kafka."""

from __future__ import annotations

import threading
import time
from typing import Any

import confluent_kafka
import pytest

from kafka_native import KafkaError, Producer
from tests.waiting import wait_for

from .support import Client

WIDE_S = 60.0
REPORTS: list[KafkaError | None] = []


def report(error: KafkaError | None, message: object) -> None:
    """A delivery callback."""
    REPORTS.append(error)


SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no callback": ({}, {}),
    "a callback a message": ({}, {"on_delivery": report}),
    "a callback a client": ({"on_delivery": report}, {}),
    "only errors": ({"delivery.report.only.error": True}, {"on_delivery": report}),
    "only errors, a callback a client": (
        {"delivery.report.only.error": True, "on_delivery": report},
        {},
    ),
    "only errors, no callback": ({"delivery.report.only.error": True}, {}),
}


@pytest.mark.parametrize("make", [Producer, confluent_kafka.Producer])
@pytest.mark.parametrize("shape", SHAPES)
def test_acknowledged_batches_end_the_wait_and_are_counted(client: Client, make: Any, shape: str):
    conf, each = SHAPES[shape]
    topic = client.topic(partitions=1)
    producer = make({"bootstrap.servers": client.bootstrap, "linger.ms": 100, **conf})
    producer.list_topics(topic)
    for _ in range(10):
        producer.produce(topic, b"x", **each)
    started = time.monotonic()
    assert producer.poll(WIDE_S) == 1, "ten messages are one batch"
    assert time.monotonic() - started < WIDE_S / 2
    assert producer.poll(0) == 0
    assert producer.flush(WIDE_S) == 0


@pytest.mark.parametrize("make", [Producer, confluent_kafka.Producer])
def test_batches_acknowledged_before_the_call_are_counted_once(client: Client, make: Any):
    topic = client.topic(partitions=2)
    producer = make({"bootstrap.servers": client.bootstrap, "linger.ms": 0})
    for partition in (0, 1):
        producer.produce(topic, b"x", partition=partition)
    counts: list[int] = []
    wait_for(lambda: [counts.append(producer.poll(0)), sum(counts) == 2][1])
    assert producer.poll(0) == 0
    producer.produce(topic, b"x", partition=0)
    assert producer.flush(WIDE_S) == 0
    assert producer.poll(0) == 0, "flush() has served the batch"


def test_a_failure_without_a_callback_ends_the_wait_too(client: Client):
    with client.producer(**{"linger.ms": 0}) as producer:
        producer.produce(client.topic(partitions=1), b"x", partition=0)
        producer.purge()
        assert producer.poll(WIDE_S) == 1


def test_poll_in_a_full_queue_does_not_linger(client: Client, topic: str):
    with client.producer(**{"queue.buffering.max.messages": 10, "linger.ms": 300_000}) as producer:
        full = 0
        started = time.monotonic()
        for number in range(100):
            while True:
                try:
                    producer.produce(topic, str(number))
                    break
                except BufferError:
                    full += 1
                    assert producer.poll(WIDE_S) >= 1
        assert full >= 9
        assert time.monotonic() - started < WIDE_S
        assert producer.poll(0.2) == 0, "the queue isn't full any more, so messages linger"


def test_every_wait_ends_while_several_threads_poll(client: Client, topic: str):
    with client.producer(**{"linger.ms": 0}) as producer:
        counted: list[int] = []

        def poll() -> None:
            while sum(counted) < 50:
                counted.append(producer.poll(1))

        threads = [threading.Thread(target=poll) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(50):
            producer.produce(topic, b"x")
            time.sleep(0.001)
        producer.flush(WIDE_S)
        counted.append(50)  # flush() has served the other batches
        for thread in threads:
            thread.join(WIDE_S)
        assert not any(thread.is_alive() for thread in threads)


def test_idle_poll_waits_its_whole_time():
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "error_cb": print, "log_cb": print})
    started = time.monotonic()
    assert producer.poll(0.3) == 0
    assert time.monotonic() - started >= 0.3
    producer.close(0)
