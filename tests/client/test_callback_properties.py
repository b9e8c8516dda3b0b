"""Callbacks that librdkafka's documents name: dr_msg_cb, dr_cb, background_event_cb."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from kafka_native import KafkaError, Producer, SerializingProducer
from kafka_native.aio import AIOProducer
from kafka_native.compat.drop_in import confluent_kafka as drop_in
from kafka_native.mock import MockCluster
from tests.waiting import wait_for

from .log_support import PlainLogger

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


@pytest.mark.parametrize("name", ["dr_cb", "dr_msg_cb", "on_delivery"])
@pytest.mark.parametrize(
    "kind", [Producer, SerializingProducer, drop_in.Producer, drop_in.SerializingProducer]
)
def test_delivery_reports_without_a_callback_of_the_call(name: str, kind: Any) -> None:
    seen: list[Any] = []
    own: list[Any] = []
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("t", 1)
        conf = {"bootstrap.servers": cluster.bootstrap_servers}
        conf[name] = lambda error, message: seen.append((error, message.value()))
        producer = kind(conf)
        producer.produce("t", value=b"1")
        producer.produce("t", value=b"2", on_delivery=lambda *report: own.append(report))
        producer.flush()
        producer.close()
    assert seen == [(None, b"1")]
    assert [message.value() for _, message in own] == [b"2"]


@pytest.mark.parametrize("name", ["dr_cb", "dr_msg_cb"])
def test_delivery_reports_in_asyncio(name: str) -> None:
    seen: list[Any] = []

    async def deliver(conf: dict[str, Any]) -> None:
        async with AIOProducer(conf) as producer:
            await (await producer.produce("t", b"1"))

    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("t", 1)
        conf: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_servers}
        conf[name] = lambda error, message: seen.append(message.value())
        asyncio.run(deliver(conf))
    assert seen == [b"1"]


def test_events_come_from_a_thread_of_the_client() -> None:
    events: list[tuple[object, str]] = []

    def on_event(event: object) -> None:
        events.append((event, threading.current_thread().name))

    conf = {**NOWHERE, "statistics.interval.ms": 50, "background_event_cb": on_event}
    with Producer(conf) as producer:
        producer.produce("t", b"x")
        wait_for(lambda: len({type(event) for event, _ in events}) == 2)
        producer.close(0)
    errors = [event for event, _ in events if isinstance(event, KafkaError)]
    assert {error.name() for error in errors} == {"_TRANSPORT", "_ALL_BROKERS_DOWN"}
    assert "txmsgs" in json.loads(next(event for event, _ in events if isinstance(event, str)))
    assert {name.partition(" ")[0] for _, name in events} == {"kafka-native"}


def test_events_with_a_callback_of_their_own_go_there() -> None:
    errors: list[KafkaError] = []
    events: list[object] = []
    conf = {**NOWHERE, "error_cb": errors.append, "background_event_cb": events.append}
    with Producer(conf) as producer:
        producer.produce("t", b"x")
        wait_for(lambda: [producer.poll(0.01), errors][1])
        producer.close(0)
    assert not events


def test_exception_of_the_callback_is_logged() -> None:
    def fail(event: object) -> None:
        raise ValueError("no")

    logger = PlainLogger()
    conf = {"bootstrap.servers": "127.0.0.1:1", "logger": logger, "background_event_cb": fail}
    with Producer(conf) as producer:
        producer.produce("t", b"x")
        wait_for(lambda: logger.matching("background_event_cb has raised"))
        producer.close(0)
