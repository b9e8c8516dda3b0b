"""`kafka_native.compat.kafka` where things go wrong: threads, callbacks, errors, closed clients."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_native.compat.kafka import KafkaProducer
from kafka_native.mock import MockCluster
from tests.waiting import WAIT_S


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1) as made:
        made.create_topic("orders", 1)
        yield made


@pytest.fixture
def producer(cluster: MockCluster) -> Iterator[KafkaProducer]:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as made:
        yield made


def test_get_returns_although_another_thread_has_made_the_report(
    cluster: MockCluster, producer: KafkaProducer
) -> None:
    offsets: list[int] = []

    def send() -> None:
        offsets.extend(producer.send("orders", b"tea").get().offset for _ in range(30))

    threads = [threading.Thread(target=send, daemon=True) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(WAIT_S)
    assert sorted(offsets) == list(range(120))


def test_get_returns_although_flush_in_another_thread_has_made_the_report(
    cluster: MockCluster, producer: KafkaProducer
) -> None:
    for _ in range(10):
        sent = producer.send("orders", b"tea")
        flushing = threading.Thread(target=producer.flush, daemon=True)
        flushing.start()
        assert sent.get(WAIT_S).topic == "orders"
        flushing.join(WAIT_S)


def test_a_callback_may_wait_for_another_message(producer: KafkaProducer) -> None:
    found: list[int] = []
    first = producer.send("orders", b"tea")
    first.add_callback(lambda _: found.append(producer.send("orders", b"rice").get(WAIT_S).offset))
    first.get(WAIT_S)
    assert found == [1]


def test_the_exception_of_a_callback_is_logged_and_no_other_call_raises_it(
    producer: KafkaProducer, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Any) -> None:
        raise ZeroDivisionError

    called: list[Any] = []
    sent = producer.send("orders", b"tea")
    sent.add_callback(fail)
    sent.add_callback(called.append)
    producer.flush()
    sent.add_callback(fail)
    assert called == [sent.get()]
    raised = [each.exc_info for each in caplog.records if each.name.endswith("compat.kafka")]
    assert [each and each[0] for each in raised] == [ZeroDivisionError] * 2


def test_callbacks_get_their_arguments_before_the_outcome(producer: KafkaProducer) -> None:
    called: list[Any] = []

    def note(*args: Any, **kwargs: Any) -> None:
        called.append((args, kwargs))

    sent = producer.send("orders", b"tea").add_callback(note, 1, name="a").add_errback(note)
    metadata = sent.get(WAIT_S)
    assert called == [((1, metadata), {"name": "a"})]
