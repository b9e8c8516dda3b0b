"""GetTelemetrySubscriptions and PushTelemetry: client metrics for the broker (KIP-714)."""

from __future__ import annotations

from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import (
    Request,
    Response,
    array,
    boolean,
    data,
    int8,
    int16,
    int32,
    string,
    uuid,
)


class GetTelemetrySubscriptionsRequest(
    Request, api_key=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions="0", flexible="0+"
):
    """Ask which client metrics the broker subscribes to."""

    client_instance_id: bytes = uuid("0+")


class GetTelemetrySubscriptionsResponse(
    Response, api_key=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions="0", flexible="0+"
):
    """The subscribed metrics, the push interval and the accepted compression."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    client_instance_id: bytes = uuid("0+")
    subscription_id: int = int32("0+")
    accepted_compression_types: list[int] = array(int8(), "0+")
    push_interval_ms: int = int32("0+")
    telemetry_max_bytes: int = int32("0+")
    delta_temporality: bool = boolean("0+")
    requested_metrics: list[str] = array(string(), "0+")


class PushTelemetryRequest(Request, api_key=ApiKey.PUSH_TELEMETRY, versions="0", flexible="0+"):
    """Push client metrics, in OpenTelemetry's protobuf form."""

    client_instance_id: bytes = uuid("0+")
    subscription_id: int = int32("0+")
    terminating: bool = boolean("0+")
    compression_type: int = int8("0+")
    metrics: bytes = data("0+")


class PushTelemetryResponse(Response, api_key=ApiKey.PUSH_TELEMETRY, versions="0", flexible="0+"):
    """Whether the broker accepted the metrics."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
