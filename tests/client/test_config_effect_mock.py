"""test.mock.num.brokers: a client with its own mock cluster, as in librdkafka."""

from __future__ import annotations

import logging
import time

import confluent_kafka
import pytest

from kafka_native import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from kafka_native.admin import AdminClient

from .support import deliver, errors_into


def servers(client: Producer | Consumer | confluent_kafka.Producer) -> str:
    """Return the bootstrap servers of a client's own cluster, for another client."""
    brokers = client.list_topics(timeout=20).brokers.values()
    return ",".join(f"{broker.host}:{broker.port}" for broker in brokers)


@pytest.mark.parametrize("brokers", [1, 3, "2"])
def test_client_has_its_own_cluster(brokers: int | str, caplog: pytest.LogCaptureFixture):
    conf = {"test.mock.num.brokers": brokers, "bootstrap.servers": "unused.invalid:1"}
    with Producer(conf) as producer:
        assert len(producer.list_topics(timeout=20).brokers) == int(brokers)
        deliver(producer, "made-for-it", b"x")
        # librdkafka's number
        assert len(producer.list_topics("made-for-it", 20).topics["made-for-it"].partitions) == 4
    warnings = [each.message for each in caplog.records if each.levelno == logging.WARNING]
    assert any("test.mock.num.brokers" in warning for warning in warnings)


def test_cluster_ends_with_its_client():
    with Producer({"test.mock.num.brokers": 1}) as producer:
        where = servers(producer)
    with Producer({"bootstrap.servers": where}) as other, pytest.raises(KafkaException):
        other.list_topics(timeout=0.5)


def test_clients_share_the_cluster_of_one():
    with Consumer({"test.mock.num.brokers": 3, "group.id": "g"}) as consumer:
        where = servers(consumer)
        with Producer({"bootstrap.servers": where}) as producer:
            deliver(producer, "shared", b"from another client", partition=2)
        consumer.assign([TopicPartition("shared", 2, OFFSET_BEGINNING)])
        message = consumer.poll(20)
        assert message is not None
        assert message.value() == b"from another client"


def test_each_client_has_a_separate_cluster():
    with (
        Producer({"test.mock.num.brokers": 1}) as one,
        Producer({"test.mock.num.brokers": 1}) as other,
    ):
        assert servers(one) != servers(other)
        deliver(one, "only-here", b"x")
        assert "only-here" not in other.list_topics(timeout=20).topics


@pytest.mark.parametrize("rtt_ms", [1, 60])
def test_responses_take_the_round_trip_time(rtt_ms: int):
    with Producer({"test.mock.num.brokers": 2, "test.mock.broker.rtt": rtt_ms}) as producer:
        producer.list_topics(timeout=20)
        before = time.monotonic()
        producer.list_topics(timeout=20)
        assert time.monotonic() - before >= rtt_ms / 1000


def test_admin_client_has_its_own_cluster_too():
    admin = AdminClient({"test.mock.num.brokers": 2})
    assert len(admin.list_topics(timeout=20).brokers) == 2


def test_librdkafkas_cluster_serves_ours_and_ours_serves_librdkafka():
    theirs = confluent_kafka.Producer({"test.mock.num.brokers": 2})
    with Producer({"bootstrap.servers": servers(theirs)}) as producer:
        deliver(producer, "t", b"x")
    with Producer({"test.mock.num.brokers": 2}) as ours:
        other = confluent_kafka.Producer({"bootstrap.servers": servers(ours)})
        reports: list[object] = []
        deliver(other, "t", b"x", on_delivery=errors_into(reports))
        assert reports == [None]
