"""Each retry waits longer than the last, up to a maximum: measured at the brokers.

Only lower bounds and orders of magnitude are asserted, because a slow machine delays everything.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import pytest

from kafka_native import KafkaError
from kafka_native._reference.error_codes import ErrorCode
from kafka_native.control.requests import DOUBLING, FAILOVER_GROWTH
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.protocol import ApiKey

from .support import Client, deliver, errors_into

JITTER = 0.2
LATE = 0.5  # the maximum delay between a request and the cluster's note of it


def pauses(cluster: MockCluster, api_key: int) -> list[float]:
    return [later.time - earlier.time for earlier, later in pairwise(cluster.requests_of(api_key))]


def pauses_after(client: Client, topic: str, errors: list[int], **conf: Any) -> list[float]:
    """Return the pauses between the tries of a message. Each try but the last gets an error."""
    with client.producer(**conf, **{"linger.ms": 0}) as producer:
        deliver(producer, topic, b"warm up")
        client.cluster.clear_requests()
        client.cluster.push_request_errors(ApiKey.PRODUCE, errors)
        deliver(producer, topic, b"x")
    found = pauses(client.cluster, ApiKey.PRODUCE)
    assert len(found) == len(errors)
    return found


@pytest.mark.parametrize("idempotence", [False, True])
def test_pauses_between_tries_double_up_to_the_maximum(
    client: Client, topic: str, idempotence: bool
) -> None:
    expected = [0.03, 0.06, 0.12, 0.24, 0.24]
    conf = {"retry.backoff.ms": 30, "retry.backoff.max.ms": 240, "enable.idempotence": idempotence}
    errors = [ErrorCode.NOT_ENOUGH_REPLICAS] * len(expected)
    found = pauses_after(client, topic, errors, **conf)
    for pause, wanted in zip(found, expected, strict=True):
        assert pause >= wanted * (1 - JITTER) * LATE
    assert sum(found) >= sum(expected) * (1 - JITTER)


def test_pauses_end_at_the_maximum(cluster: MockCluster, client: Client, topic: str) -> None:
    tries = 14
    conf = {"retry.backoff.ms": 2, "retry.backoff.max.ms": 4, "linger.ms": 0}
    with client.producer(**conf) as producer:
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.NOT_ENOUGH_REPLICAS] * tries)
        start = time.monotonic()
        deliver(producer, topic, b"x")
        # Unlimited doubling would have taken 2 ms * 2**14 = 33 s.
        assert time.monotonic() - start < 25
    assert len(cluster.messages(topic, 0)) == 1


def test_pauses_are_random(client: Client, topic: str) -> None:
    conf = {"retry.backoff.ms": 20, "retry.backoff.max.ms": 20}
    found = sorted(pauses_after(client, topic, [ErrorCode.NOT_ENOUGH_REPLICAS] * 20, **conf))
    assert found[0] >= 0.02 * (1 - JITTER) * LATE
    # 20 random values from 16 to 24 ms; without jitter only the machine would differ
    assert found[-1] - found[0] > 0.001


def test_number_of_tries_ends_at_the_maximum(cluster: MockCluster, client: Client) -> None:
    topic = client.topic()
    reports: list[KafkaError | None] = []
    conf = {"retry.backoff.ms": 1, "retry.backoff.max.ms": 2, "retries": 3, "linger.ms": 0}
    with client.producer(**conf) as producer:
        cluster.clear_requests()
        cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.NOT_ENOUGH_REPLICAS] * 4)
        deliver(producer, topic, b"x", on_delivery=errors_into(reports))
    assert [error.code() for error in reports if error] == [KafkaError.NOT_ENOUGH_REPLICAS]
    assert len(cluster.requests_of(ApiKey.PRODUCE)) == 4
    assert cluster.messages(topic, 0) == []


@pytest.mark.parametrize(
    ("api", "code", "growth", "tries"),
    [
        (ApiKey.METADATA, ErrorCode.LEADER_NOT_AVAILABLE, FAILOVER_GROWTH, 15),
        (ApiKey.INIT_PRODUCER_ID, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, DOUBLING, 5),
    ],
)
def test_control_requests_that_fail_wait_longer_each_time(
    client: Client,
    topic: str,
    cluster: MockCluster,
    api: ApiKey,
    code: ErrorCode,
    growth: float,
    tries: int,
) -> None:
    conf = {
        "enable.idempotence": True,
        "retry.backoff.ms": 20,
        "topic.metadata.refresh.fast.interval.ms": 20,
        "retry.backoff.max.ms": 1000,
    }
    cluster.clear_requests()
    cluster.push_request_errors(api, [code] * tries)
    with client.producer(**conf) as producer:
        deliver(producer, topic, b"x")
    found = pauses(cluster, api)[:tries]
    assert len(found) == tries
    assert sum(found) >= sum(0.02 * growth**number for number in range(tries)) * (1 - JITTER) * LATE
    assert max(found[-2:]) > found[0]


def test_broken_connections_are_reopened_after_a_pause(client: Client, topic: str) -> None:
    tries = 5
    conf = {"reconnect.backoff.ms": 40, "reconnect.backoff.max.ms": 40, "retry.backoff.ms": 1}
    conf["error_cb"] = lambda error: None
    found = pauses_after(client, topic, [CLOSE_CONNECTION] * tries, **conf)
    assert sum(found[1:]) >= 0.04 * (1 - JITTER) * (tries - 1) * LATE
