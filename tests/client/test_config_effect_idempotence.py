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

from .support import Client, deliver, errors_into, fill, filled

pytestmark = pytest.mark.usefixtures("repaired_cluster")


def has_producer_ids(cluster: MockCluster, topic: str) -> bool:
    """Return whether all batches of the topic have producer ids. Fail if only some have."""
    wait_for(lambda: cluster.batches(topic, 0))  # with acks=0 there is no response
    [answer] = {
        header.producer_id >= 0
        for batch in cluster.batches(topic, 0)
        for header in batch_headers(batch)
    }
    return answer


def test_batches_have_producer_ids_by_default(cluster: MockCluster, client: Client):
    topic = filled(client, 10)
    assert has_producer_ids(cluster, topic)


def test_idempotence_can_be_turned_off(cluster: MockCluster, client: Client, topic: str):
    cluster.clear_requests()
    fill(client, topic, 10, **{"enable.idempotence": False})
    assert not has_producer_ids(cluster, topic)
    assert cluster.requests_of(ApiKey.INIT_PRODUCER_ID) == []


@pytest.mark.parametrize(
    "conf",
    [{"acks": 1}, {"acks": 0}, {"retries": 0}, {"max.in.flight": 6}, {"queuing.strategy": "lifo"}],
    ids=str,
)
def test_conflicting_settings_turn_off_the_default(
    cluster: MockCluster, client: Client, caplog: pytest.LogCaptureFixture, conf: dict[str, Any]
):
    topic = client.topic()
    caplog.set_level(logging.INFO)
    fill(client, topic, 10, **conf)
    assert not has_producer_ids(cluster, topic)
    [line] = [
        message for message in caplog.messages if message.startswith("enable.idempotence is off")
    ]
    assert next(iter(conf)).split(".")[0] in line


def test_compatible_settings_keep_idempotence(
    cluster: MockCluster, client: Client, topic: str, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    fill(client, topic, 10, **{"acks": "all", "retries": 5, "max.in.flight": 5, "linger.ms": 0})
    assert has_producer_ids(cluster, topic)
    assert not [message for message in caplog.messages if "enable.idempotence" in message]


def test_brokers_that_forbid_idempotence_get_messages_without_producer_ids(
    cluster: MockCluster, client: Client, topic: str, caplog: pytest.LogCaptureFixture
):
    cluster.push_request_errors(ApiKey.INIT_PRODUCER_ID, [ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
    with client.producer() as producer:
        deliver(producer, topic, b"")
        assert producer.fatal_error() is None
    assert not has_producer_ids(cluster, topic)
    assert [message for message in caplog.messages if "enable.idempotence is off" in message]


def test_too_old_brokers_get_messages_without_producer_ids(caplog: pytest.LogCaptureFixture):
    with MockCluster(brokers=1, max_versions=of_release("0.10.2")) as cluster:
        client = Client(cluster)
        topic = client.topic()
        with client.producer() as producer:
            deliver(producer, topic, b"")
            assert producer.fatal_error() is None
        assert len(cluster.messages(topic, 0)) == 1
    assert [message for message in caplog.messages if "enable.idempotence is off" in message]


def test_a_producer_without_messages_requests_no_producer_id(cluster: MockCluster, client: Client):
    cluster.clear_requests()
    with client.producer() as producer:
        producer.list_topics(timeout=20)
    assert cluster.requests_of(ApiKey.INIT_PRODUCER_ID) == []


@pytest.mark.parametrize(
    "code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID]
)
def test_lost_producer_state_is_not_fatal_by_default(client: Client, topic: str, code: ErrorCode):
    errors: list[object] = []
    with client.producer(**{"retry.backoff.ms": 20}) as producer:
        # the first message is written, and the second may be
        for codes in ([], [ErrorCode.REQUEST_TIMED_OUT, code]):
            client.cluster.push_request_errors(ApiKey.PRODUCE, codes)
            deliver(producer, topic, b"x", on_delivery=errors_into(errors))
        assert producer.fatal_error() is None
    assert errors == [None, None]
    assert has_producer_ids(client.cluster, topic)
