"""The mock cluster accepts and refuses metrics of clients as Kafka does with a metrics plugin."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_native._native import records
from kafka_native.control.metrics import Metric, Point, Times, encode
from kafka_native.mock import MockCluster
from kafka_native.mock.telemetry import Subscription
from kafka_native.protocol import ApiKey
from kafka_native.protocol.schema import ZERO_UUID
from kafka_native.protocol.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from kafka_native.protocol.versions import ApiVersionsRequest
from tests.mock.wire import Wire

KEYS = {int(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS), int(ApiKey.PUSH_TELEMETRY)}
METRIC = Metric("org.apache.kafka.producer.x", "text", "ms", False, (Point(1.5, {"node_id": 3}),))
PAYLOAD = encode([METRIC], {"group_id": "g"}, ("name", "1"), Times(1, 2, 3), delta=True)
INVALID_REQUEST, UNKNOWN_SUBSCRIPTION_ID, TELEMETRY_TOO_LARGE = 42, 117, 118
INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE, THROTTLING_QUOTA_EXCEEDED = 87, 76, 89


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(2, client_metrics=True) as running:
        yield running


class MetricsClient:
    """A client with an id and a subscription."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.id = ZERO_UUID
        self.subscribe()

    def subscribe(self) -> Any:
        self.answer = self.wire.ask(GetTelemetrySubscriptionsRequest(client_instance_id=self.id))
        self.id = self.answer.client_instance_id
        return self.answer

    def push(self, metrics: bytes = PAYLOAD, codec: int = 0, **changes: Any) -> int:
        """Push metrics, and return the error code."""
        fields: dict[str, Any] = {
            "client_instance_id": self.id,
            "subscription_id": self.answer.subscription_id,
        }
        request = PushTelemetryRequest(
            **{**fields, "compression_type": codec, "metrics": metrics, **changes}
        )
        code: int = self.wire.ask(request).error_code
        return code


def offered(cluster: MockCluster) -> set[int]:
    with Wire(cluster) as wire:
        return {each.api_key for each in wire.ask(ApiVersionsRequest(), 3).api_keys} & KEYS


def test_only_a_cluster_with_client_metrics_offers_the_apis(cluster: MockCluster) -> None:
    assert offered(cluster) == KEYS
    with MockCluster(1) as other:
        assert offered(other) == set()
        with pytest.raises(ValueError, match="client_metrics=True"):
            other.subscribe_metrics()
        with pytest.raises(ValueError, match="client_metrics=True"):
            _ = other.pushed_metrics
    with MockCluster(1, client_metrics=True, max_versions={ApiKey.PUSH_TELEMETRY: -1}) as half:
        assert offered(half) == {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS}


def test_a_client_gets_an_id_and_its_subscription(cluster: MockCluster) -> None:
    with Wire(cluster) as wire:
        client = MetricsClient(wire)
        assert client.answer.requested_metrics == []
        assert client.answer.push_interval_ms == Subscription().interval_ms
        assert client.id != ZERO_UUID
        first = client.id
        cluster.subscribe_metrics(["org."], 500, delta=False, compression=["gzip"], max_bytes=77)
        answer = client.subscribe()
        assert client.id == first
        assert (answer.requested_metrics, answer.push_interval_ms) == (["org."], 500)
        assert (answer.accepted_compression_types, answer.telemetry_max_bytes) == ([1], 77)
        assert not answer.delta_temporality
        assert MetricsClient(wire).id != first


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_pushed_metrics_can_be_read(cluster: MockCluster, codec: str) -> None:
    cluster.subscribe_metrics(["*"])
    with Wire(cluster, 2) as wire:
        client = MetricsClient(wire)
        data = PAYLOAD if codec == "none" else records.compress(codec, PAYLOAD)
        assert client.push(data, records.CODEC_NAMES.index(codec)) == 0
    [push] = cluster.pushed_metrics
    assert (push.broker, push.client_id, push.client_instance_id) == (2, "wire", client.id)
    assert (push.compression, push.size_bytes, push.terminating) == (codec, len(data), False)
    assert (push.resource, push.scope) == ({"group_id": "g"}, ("name", "1"))
    [metric] = push.metrics
    assert (metric.name, metric.kind, metric.value, metric.labels) == (
        METRIC.name,
        "gauge",
        1.5,
        {"node_id": 3},
    )
    assert (metric.unit, metric.start_ns, metric.time_ns) == ("ms", 2, 3)
    assert push.value(METRIC.name, node_id=3) == 1.5
    assert push.value(METRIC.name, node_id=4) is None
    assert push.value("another") is None


def test_a_push_is_refused_as_kafka_refuses_it(cluster: MockCluster) -> None:
    cluster.subscribe_metrics(["*"], 100, compression=["zstd"], max_bytes=len(PAYLOAD))
    with Wire(cluster) as wire:
        client = MetricsClient(wire)

        def refusal(*args: Any, **changes: Any) -> int:
            client.subscribe()  # a push right after it is never too early
            return client.push(*args, **changes)

        assert refusal(subscription_id=client.answer.subscription_id + 1) == UNKNOWN_SUBSCRIPTION_ID
        assert refusal(records.compress("gzip", PAYLOAD), 1) == UNSUPPORTED_COMPRESSION_TYPE
        assert refusal(PAYLOAD + b"\0") == TELEMETRY_TOO_LARGE
        assert refusal(PAYLOAD[:-1]) == INVALID_RECORD
        assert refusal(b"no zstd", 4) == INVALID_RECORD
        assert cluster.pushed_metrics == []
        assert refusal() == 0
        cluster.subscribe_metrics(["org."], 100)
        assert refusal() == 0
        client.answer.subscription_id += 1
        assert client.push(terminating=True) == UNKNOWN_SUBSCRIPTION_ID
    assert len(cluster.pushed_metrics) == 2


def test_an_early_push_is_refused_unless_it_is_the_last_one(cluster: MockCluster) -> None:
    cluster.subscribe_metrics(["*"], 60_000)
    with Wire(cluster) as wire:
        client = MetricsClient(wire)
        assert client.push() == 0
        assert client.push() == THROTTLING_QUOTA_EXCEEDED
        assert client.push(terminating=True) == 0
        assert client.push(terminating=True) == INVALID_REQUEST
        client = MetricsClient(wire)
        cluster.subscribe_metrics(["*"], 100)
        client.subscribe()
        assert client.push() == 0
        deadline = time.monotonic() + 10
        while client.push() == THROTTLING_QUOTA_EXCEEDED:
            assert time.monotonic() < deadline
            time.sleep(0.15)


def test_errors_can_be_pushed(cluster: MockCluster) -> None:
    cluster.push_request_errors(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, [INVALID_REQUEST])
    cluster.push_request_errors(ApiKey.PUSH_TELEMETRY, [TELEMETRY_TOO_LARGE], broker=2)
    with Wire(cluster) as wire, Wire(cluster, 2) as other:
        assert wire.ask(GetTelemetrySubscriptionsRequest()).error_code == INVALID_REQUEST
        assert MetricsClient(other).push() == TELEMETRY_TOO_LARGE


def test_wrong_subscriptions_are_refused(cluster: MockCluster) -> None:
    with pytest.raises(TypeError, match="list of prefixes"):
        cluster.subscribe_metrics("*")
    with pytest.raises(ValueError, match="100 ms or more"):
        cluster.subscribe_metrics(["*"], 99)
    with pytest.raises(ValueError, match="brotli"):
        cluster.subscribe_metrics(["*"], compression=["brotli"])
