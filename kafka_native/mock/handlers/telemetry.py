"""GetTelemetrySubscriptions and PushTelemetry."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafka_native._native import records
from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.otlp import Malformed
from kafka_native.mock.telemetry import PushedMetrics, decode
from kafka_native.protocol.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)

if TYPE_CHECKING:
    from kafka_native.mock.call import Call


def get_subscriptions(
    call: Call, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Return the metrics that a client must push."""
    telemetry = call.cluster.telemetry
    assert telemetry is not None  # without telemetry the API is not advertised
    instance_id, subscription = telemetry.register(request.client_instance_id)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=subscription.number,
        accepted_compression_types=list(subscription.compression),
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=subscription.max_bytes,
        delta_temporality=subscription.delta,
        requested_metrics=list(subscription.metrics),
    )


def push(call: Call, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Store the metrics that a client has pushed."""
    telemetry = call.cluster.telemetry
    assert telemetry is not None
    codec = request.compression_type
    size = len(request.metrics)
    error = telemetry.check(
        request.client_instance_id,
        request.subscription_id,
        codec,
        size,
        terminating=request.terminating,
    )
    if error:
        return PushTelemetryResponse(error_code=error)
    try:
        found = decode(codec, request.metrics)
    except Malformed:
        return PushTelemetryResponse(error_code=ErrorCode.INVALID_RECORD)
    telemetry.pushes.append(
        PushedMetrics(
            call.broker.id,
            call.client_id,
            request.client_instance_id,
            request.subscription_id,
            request.terminating,
            records.CODEC_NAMES[codec],
            size,
            time.monotonic(),
            *found,
        )
    )
    return PushTelemetryResponse()
