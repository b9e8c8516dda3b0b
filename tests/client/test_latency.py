"""Each message has its own latency(). A backpressure threshold only delays requests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafka_native import TIMESTAMP_LOG_APPEND_TIME, Message, Producer
from kafka_native.mock import MockCluster

from .support import Client, deliver, read_all

PAUSE_S = 0.15


@contextmanager
def lingering(client: Client) -> Iterator[tuple[Producer, list[Message]]]:
    """Yield a producer whose batches take 600 ms, and its delivery reports."""
    reports: list[Message] = []
    with client.producer(
        **{"linger.ms": 600}, on_delivery=lambda error, report: reports.append(report)
    ) as producer:
        yield producer, reports


def latencies_of_three(client: Client, topic: str, known: bool, **message: Any) -> list[float]:
    """Return the latencies of three messages of one batch, produced with pauses."""
    with lingering(client) as (producer, reports):
        if known:
            deliver(producer, topic, b"", timestamp=1)
            reports.clear()
        for number in range(3):
            if number:
                time.sleep(PAUSE_S)
            producer.produce(topic, str(number), **message)
        assert producer.flush(10) == 0
    assert len({report.offset() for report in reports}) == 3
    latencies = [report.latency() for report in reports]
    assert None not in latencies
    return [latency for latency in latencies if latency is not None]


@pytest.mark.parametrize("known", [True, False], ids=["known topic", "staged first"])
def test_each_message_has_its_own_latency(client: Client, known: bool):
    first, second, third = latencies_of_three(client, client.topic(), known)
    assert first > 2 * PAUSE_S - 0.01
    assert PAUSE_S - 0.01 < first - second < PAUSE_S + 0.2
    assert PAUSE_S - 0.01 < second - third < PAUSE_S + 0.2
    assert third >= 0


@pytest.mark.parametrize("timestamp", [1, 1_700_000_000_000, 1 << 41])
def test_timestamps_of_the_application_have_no_effect_on_latency(client: Client, timestamp: int):
    first, second, third = latencies_of_three(client, client.topic(), True, timestamp=timestamp)
    assert first == second == third > 2 * PAUSE_S - 0.01


def test_one_timestamp_of_the_application_makes_the_latencies_of_a_batch_equal(
    client: Client, topic: str
):
    with lingering(client) as (producer, reports):
        producer.produce(topic, b"a")
        time.sleep(PAUSE_S)
        producer.produce(topic, b"b", timestamp=int(time.time() * 1000))
        deliver(producer, topic, b"c")
    assert reports[0].latency() == reports[1].latency() == reports[2].latency()


def test_log_append_time_leaves_the_latency_of_the_first_message(
    cluster: MockCluster, client: Client, topic: str
):
    cluster.delete_topic(topic)
    cluster.create_topic(topic, 1, configs={"message.timestamp.type": "LogAppendTime"})
    with lingering(client) as (producer, reports):
        producer.produce(topic, b"a")
        time.sleep(PAUSE_S)
        deliver(producer, topic, b"b")
    assert {report.timestamp()[0] for report in reports} == {TIMESTAMP_LOG_APPEND_TIME}
    assert reports[0].latency() == reports[1].latency()
    assert (reports[0].latency() or 0) > PAUSE_S - 0.01


def test_messages_of_produce_many_have_latencies(client: Client, topic: str):
    with lingering(client) as (producer, reports):
        producer.produce(topic, b"a")
        time.sleep(PAUSE_S)
        assert producer.produce_many(topic, [b"b", b"c"]) == 2
        assert producer.flush(10) == 0
    assert (reports[0].latency() or 0) - (reports[2].latency() or 0) > PAUSE_S - 0.01
    assert reports[1].latency() == reports[2].latency()


@pytest.mark.parametrize("threshold", [1, 3])
def test_backpressure_loses_and_reorders_nothing(client: Client, topic: str, threshold: int):
    conf = {
        "queue.buffering.backpressure.threshold": threshold,
        "batch.num.messages": 10,
        "linger.ms": 0,
        "socket.send.buffer.bytes": 4096,  # so that requests do wait for the socket
    }
    with client.producer(**conf) as producer:
        for number in range(2000):
            producer.produce(topic, str(number).encode() + bytes(1000))
        assert producer.flush(20) == 0
    messages = read_all(client, topic, 2000)
    assert [int(m.value().rstrip(b"\0")) for m in messages] == list(range(2000))
