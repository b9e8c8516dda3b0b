"""purge() and throttle_cb: purged messages get one report, and throttling is reported."""

from __future__ import annotations

import logging
import time

import pytest

from kafka_native import KafkaError, Producer, ThrottleEvent, TopicPartition
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from kafka_native.protocol.metadata import MetadataResponse
from tests.waiting import WAIT_S, poll_until, wait_for

from .support import Client, fill

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "error_cb": lambda error: None}


@pytest.mark.parametrize("blocking", [True, False])
def test_purge_gives_up_what_waits(blocking: bool):
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
def test_purge_gives_up_what_is_in_flight_and_the_rest_goes_on(
    cluster: MockCluster, client: Client, idempotence: bool
):
    topic = client.topic()
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
        while not any(seen.api_key == ApiKey.PRODUCE for seen in cluster.requests):
            time.sleep(0.01)
        producer.purge(in_queue=False)
        assert producer.flush(2) == 0
        assert codes == [None, KafkaError._PURGE_INFLIGHT]
        cluster.delay_responses(leader, 0)
        cluster.advance(60)
        send()
        assert producer.flush(10) == 0
    assert codes == [None, KafkaError._PURGE_INFLIGHT, None]
    # the messages in flight had arrived: "possibly" is all that is known
    assert len(cluster.messages(topic, 0)) == 3


def test_purge_of_nothing_and_after_close():
    producer = Producer(NOWHERE)
    producer.purge(False, False)
    producer.purge()
    producer.close(0)
    with pytest.raises(RuntimeError, match="closed"):
        producer.purge()


def test_throttled_producer_waits_and_tells(cluster: MockCluster, client: Client):
    topic = client.topic()
    leader = cluster.leader(topic, 0)
    events: list[ThrottleEvent] = []
    with client.producer(**{"throttle_cb": events.append, "linger.ms": 0}) as producer:
        cluster.throttle_responses(leader, 700)
        producer.produce(topic, b"x")
        assert producer.flush(10) == 0
        started = time.monotonic()
        producer.produce(topic, b"y")
        assert producer.flush(10) == 0
        assert time.monotonic() - started > 0.5
        producer.poll(0)
    assert [(event.broker_id, event.throttle_time) for event in events] == [(leader, 0.7)]
    assert events[0].broker_name == cluster.bootstrap_servers.split(",")[leader - 1]


def test_throttled_consumer_tells(cluster: MockCluster, client: Client):
    topic = client.topic()
    fill(client, topic, 10)
    events: list[ThrottleEvent] = []
    cluster.throttle_responses(cluster.leader(topic, 0), 50)
    with client.consumer(throttle_cb=events.append) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        poll_until(lambda: events, consumer)
    assert [event.throttle_time for event in events] == [0.05]


@pytest.mark.parametrize("milliseconds", [60_001, 2**31 - 1])
def test_a_throttle_time_that_is_too_long_is_cut_and_warned_of(
    cluster: MockCluster, client: Client, milliseconds: int, caplog: pytest.LogCaptureFixture
):
    topic = client.topic()
    events: list[ThrottleEvent] = []
    with client.producer(
        **{"throttle_cb": events.append, "linger.ms": 0, "logger": logging.getLogger("cut")}
    ) as one:
        cluster.throttle_responses(cluster.leader(topic, 0), milliseconds)
        one.produce(topic, b"x")
        assert one.flush(WAIT_S) == 0
        wait_for(lambda: one.poll(0.01) >= 0 and bool(events))
    assert [event.throttle_time for event in events] == [60.0]
    assert [each.levelname for each in caplog.records if "throttle" in each.getMessage()] == [
        "WARNING"
    ]


def claim_throttled(reply: MetadataResponse) -> None:
    reply.throttle_time_ms = 400


def test_throttled_admin_request_holds_the_next_one_back_and_tells(
    cluster: MockCluster, client: Client
):
    topic = client.topic()
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
