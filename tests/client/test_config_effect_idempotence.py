"""enable.idempotence is on by default, unless other settings or brokers prevent it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kafka_native._native.records import batch_headers
from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.mock.versions import of_release
from kafka_native.protocol import ApiKey
from tests.waiting import wait_for

from .support import Client, fill

pytestmark = pytest.mark.usefixtures("repaired_cluster")


def is_numbered(cluster: MockCluster, topic: str) -> bool:
    """Return whether all batches of the topic have producer ids. Fails if only some have."""
    wait_for(lambda: cluster.batches(topic, 0))  # with acks=0 no answer says when they are written
    [answer] = {
        header.producer_id >= 0
        for batch in cluster.batches(topic, 0)
        for header in batch_headers(batch)
    }
    return answer


def test_batches_are_numbered_by_default(cluster: MockCluster, client: Client):
    topic = client.topic()
    fill(client, topic, 10)
    assert is_numbered(cluster, topic)


def test_it_can_be_turned_off(cluster: MockCluster, client: Client):
    topic = client.topic()
    cluster.clear_requests()
    fill(client, topic, 10, **{"enable.idempotence": False})
    assert not is_numbered(cluster, topic)
    assert cluster.requests_of(ApiKey.INIT_PRODUCER_ID) == []


@pytest.mark.parametrize(
    "conf",
    [{"acks": 1}, {"acks": 0}, {"retries": 0}, {"max.in.flight": 6}, {"queuing.strategy": "lifo"}],
    ids=str,
)
def test_what_was_set_goes_before_the_default(
    cluster: MockCluster, client: Client, caplog: pytest.LogCaptureFixture, conf: dict[str, Any]
):
    topic = client.topic()
    caplog.set_level(logging.INFO)
    fill(client, topic, 10, **conf)
    assert not is_numbered(cluster, topic)
    [said] = [
        message for message in caplog.messages if message.startswith("enable.idempotence is off")
    ]
    assert next(iter(conf)).split(".")[0] in said


def test_settings_that_it_can_go_with_keep_it(
    cluster: MockCluster, client: Client, caplog: pytest.LogCaptureFixture
):
    topic = client.topic()
    caplog.set_level(logging.INFO)
    fill(client, topic, 10, **{"acks": "all", "retries": 5, "max.in.flight": 5, "linger.ms": 0})
    assert is_numbered(cluster, topic)
    assert not [message for message in caplog.messages if "enable.idempotence" in message]


def test_brokers_that_do_not_allow_it_get_messages_without_numbers(
    cluster: MockCluster, client: Client, caplog: pytest.LogCaptureFixture
):
    topic = client.topic()
    cluster.push_request_errors(ApiKey.INIT_PRODUCER_ID, [ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
    with client.producer() as producer:
        producer.produce(topic, b"")
        assert producer.flush(20) == 0
        assert producer.fatal_error() is None
    assert not is_numbered(cluster, topic)
    assert [message for message in caplog.messages if "enable.idempotence is off" in message]


def test_brokers_that_are_too_old_get_messages_without_numbers(caplog: pytest.LogCaptureFixture):
    with MockCluster(brokers=1, max_versions=of_release("0.10.2")) as cluster:
        client = Client(cluster)
        topic = client.topic()
        with client.producer() as producer:
            producer.produce(topic, b"")
            assert producer.flush(20) == 0
            assert producer.fatal_error() is None
        assert len(cluster.messages(topic, 0)) == 1
    assert [message for message in caplog.messages if "enable.idempotence is off" in message]


def test_who_produces_nothing_needs_no_producer_id(cluster: MockCluster, client: Client):
    cluster.clear_requests()
    with client.producer() as producer:
        producer.list_topics(timeout=20)
    assert cluster.requests_of(ApiKey.INIT_PRODUCER_ID) == []


@pytest.mark.parametrize(
    "code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID]
)
def test_what_a_broker_has_lost_ends_no_producer_that_did_not_ask_for_it(
    cluster: MockCluster, client: Client, code: ErrorCode
):
    topic = client.topic()
    errors: list[object] = []
    with client.producer(**{"retry.backoff.ms": 20}) as producer:
        # the first one is written, the second may have been
        for codes in ([], [ErrorCode.REQUEST_TIMED_OUT, code]):
            cluster.push_request_errors(ApiKey.PRODUCE, codes)
            producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
            assert producer.flush(20) == 0
        assert producer.fatal_error() is None
    assert errors == [None, None]
    assert is_numbered(cluster, topic)
