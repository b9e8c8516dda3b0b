"""purge() and throttle_cb: purged messages get one report, and throttling is reported."""

from __future__ import annotations

import logging
import time

import pytest

from kafka_native import KafkaError, Producer, ThrottleEvent
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from kafka_native.protocol.metadata import MetadataResponse
from tests.waiting import poll_until, wait_for

from .support import NOWHERE, Client, assigned, deliver, fill


@pytest.mark.parametrize("blocking", [True, False])
def test_purge_reports_queued_messages(blocking: bool):
    reports: list[tuple[KafkaError | None, bytes | None]] = []
    with Producer(NOWHERE) as producer:
        for number in range(10):
            producer.produce(
                "t",
                str(number),
                on_delivery=lambda error, message: reports.append((error, message.value())),
            )
        producer.purge(in_flight=False, blocking=blocking)
        assert producer.flush(5) == 0
        assert len(producer) == 0
    assert [error.code() for error, _ in reports if error] == [KafkaError._PURGE_QUEUE] * 10
    assert [value for _, value in reports] == [str(number).encode() for number in range(10)]


@pytest.mark.parametrize("idempotence", [True, False])
def test_purge_reports_messages_in_flight_and_later_ones_are_sent(
    cluster: MockCluster, client: Client, topic: str, idempotence: bool
):
    leader = cluster.leader(topic, 0)
    codes: list[int | None] = []
    with client.producer(**{"enable.idempotence": idempotence, "linger.ms": 0}) as producer:

        def send() -> None:
            producer.produce(
                topic,
                b"x",
                on_delivery=lambda error, _: codes.append(error.code() if error else None),
            )

        send()
        assert producer.flush(10) == 0
        cluster.delay_responses(leader, 60.0)
        cluster.clear_requests()
        send()
        cluster.wait_for_requests(ApiKey.PRODUCE, 1)
        producer.purge(in_queue=False)
        assert producer.flush(2) == 0
        assert codes == [None, KafkaError._PURGE_INFLIGHT]
        cluster.delay_responses(leader, 0)
        cluster.advance(60)
        send()
        assert producer.flush(10) == 0
    assert codes == [None, KafkaError._PURGE_INFLIGHT, None]
    # The purged message had arrived: the status POSSIBLY_PERSISTED is right.
    assert len(cluster.messages(topic, 0)) == 3


def test_purge_of_an_empty_queue_and_after_close():
    producer = Producer(NOWHERE)
    producer.purge(False, False)
    producer.purge()
    producer.close(0)
    with pytest.raises(RuntimeError, match="closed"):
        producer.purge()


def test_throttled_producer_waits_and_calls_back(cluster: MockCluster, client: Client, topic: str):
    leader = cluster.leader(topic, 0)
    events: list[ThrottleEvent] = []
    with client.producer(**{"throttle_cb": events.append, "linger.ms": 0}) as producer:
        cluster.throttle_responses(leader, 700)
        deliver(producer, topic, b"x")
        started = time.monotonic()
        deliver(producer, topic, b"y")
        assert time.monotonic() - started > 0.5
        producer.poll(0)
    assert [(event.broker_id, event.throttle_time) for event in events] == [(leader, 0.7)]
    assert events[0].broker_name == cluster.bootstrap_servers.split(",")[leader - 1]


def test_throttled_consumer_calls_back(cluster: MockCluster, client: Client, topic: str):
    fill(client, topic, 10)
    events: list[ThrottleEvent] = []
    cluster.throttle_responses(cluster.leader(topic, 0), 50)
    with assigned(client, topic, throttle_cb=events.append) as consumer:
        poll_until(lambda: events, consumer)
    assert [event.throttle_time for event in events] == [0.05]


@pytest.mark.parametrize("milliseconds", [60_001, 2**31 - 1])
def test_a_too_long_throttle_time_is_shortened_with_a_warning(
    cluster: MockCluster,
    client: Client,
    topic: str,
    milliseconds: int,
    caplog: pytest.LogCaptureFixture,
):
    events: list[ThrottleEvent] = []
    with client.producer(
        **{"throttle_cb": events.append, "linger.ms": 0, "logger": logging.getLogger("cut")}
    ) as one:
        cluster.throttle_responses(cluster.leader(topic, 0), milliseconds)
        deliver(one, topic, b"x")
        wait_for(lambda: one.poll(0.01) >= 0 and bool(events))
    assert [event.throttle_time for event in events] == [60.0]
    assert [each.levelname for each in caplog.records if "throttle" in each.getMessage()] == [
        "WARNING"
    ]


def claim_throttled(reply: MetadataResponse) -> None:
    reply.throttle_time_ms = 400


def test_throttled_metadata_delay_the_next_request_and_call_back(
    cluster: MockCluster, client: Client, topic: str
):
    events: list[ThrottleEvent] = []
    with client.producer(throttle_cb=events.append) as producer:
        producer.list_topics(topic, 10)
        for broker in cluster.broker_ids:
            cluster.edit_responses(ApiKey.METADATA, claim_throttled, broker, 2)
        before = time.monotonic()
        for _ in range(2 * len(cluster.broker_ids)):  # the brokers throttle one after the other
            producer.list_topics(topic, 10)
        assert time.monotonic() - before > 0.3
        producer.poll(0)
    assert {event.throttle_time for event in events} == {0.4}
