"""The written MetricsData, read by OpenTelemetry's own classes and by the mock cluster."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from kafka_native.control.metrics import Metric, Point, Times, encode
from kafka_native.mock import otlp as mock

TEXTS = st.text(max_size=8)
NAMES = st.text(min_size=1, max_size=8)
INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)
LABELS = st.dictionaries(NAMES, TEXTS | INTEGERS, max_size=2)
POINTS = st.builds(Point, INTEGERS | st.floats(allow_nan=False), LABELS)
METRICS = st.lists(
    st.builds(
        Metric,
        NAMES,
        TEXTS,
        TEXTS,
        st.booleans(),
        st.lists(POINTS, min_size=1, max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=3,
)
MOMENTS = st.integers(0, (1 << 63) - 1)
TIMES = st.builds(Times, MOMENTS, MOMENTS, MOMENTS)


AT_LEISURE = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def labels_of(pairs: object) -> dict[str, str | int]:
    """Return OpenTelemetry's attributes."""
    found = {}
    for pair in pairs:  # type: ignore[attr-defined]
        kind = pair.value.WhichOneof("value")
        found[pair.key] = getattr(pair.value, kind) if kind else ""
    return found


@AT_LEISURE
@given(METRICS, LABELS, st.tuples(TEXTS, TEXTS), TIMES, st.booleans())
def test_opentelemetry_reads_everything_back(
    metrics: list[Metric],
    resource: dict[str, str | int],
    scope: tuple[str, str],
    times: Times,
    delta: bool,
) -> None:
    parsed = MetricsData.FromString(encode(metrics, resource, scope, times, delta=delta))
    [resources] = parsed.resource_metrics
    [scoped] = resources.scope_metrics
    assert labels_of(resources.resource.attributes) == resource
    assert (scoped.scope.name, scoped.scope.version) == scope
    for metric, found in zip(metrics, scoped.metrics, strict=True):
        assert (found.name, found.description, found.unit) == (
            metric.name,
            metric.text,
            metric.unit,
        )
        assert found.WhichOneof("data") == ("sum" if metric.is_sum else "gauge")
        data = found.sum if metric.is_sum else found.gauge
        if metric.is_sum:
            assert found.sum.is_monotonic
            kind = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
            all_of = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
            assert found.sum.aggregation_temporality == (kind if delta else all_of)
        for point, value in zip(metric.points, data.data_points, strict=True):
            is_int = isinstance(point.value, int)
            assert value.WhichOneof("value") == ("as_int" if is_int else "as_double")
            assert (value.as_int if is_int else value.as_double) == point.value
            assert labels_of(value.attributes) == dict(point.attributes)
            assert value.time_unix_nano == times.now
            assert value.start_time_unix_nano == (
                times.since if delta or not metric.is_sum else times.started
            )


@AT_LEISURE
@given(METRICS, TIMES, st.booleans())
def test_the_mock_cluster_reads_the_same(metrics: list[Metric], times: Times, delta: bool) -> None:
    read = mock.read(encode(metrics, {"group_id": "g"}, ("name", "1"), times, delta=delta))
    assert read.resource == {"group_id": "g"}
    assert read.scope == ("name", "1")
    expected = [
        (
            metric.name,
            "sum" if metric.is_sum else "gauge",
            point.value,
            metric.unit,
            metric.is_sum and delta,
        )
        for metric in metrics
        for point in metric.points
    ]
    assert [
        (each.name, each.kind, each.value, each.unit, each.delta) for each in read.metrics
    ] == expected


def test_without_metrics_there_is_nothing() -> None:
    assert encode([], {"group_id": "g"}, ("name", "1"), Times(1, 2, 3), delta=True) == b""
    assert mock.read(b"").metrics == []


@AT_LEISURE
@given(METRICS, TIMES, st.data())
def test_the_mock_cluster_refuses_broken_metrics_or_reads_as_many_at_most(
    metrics: list[Metric], times: Times, data: st.DataObject
) -> None:
    whole = encode(metrics, {}, ("name", "1"), times, delta=True)
    at = data.draw(st.integers(0, len(whole) - 1))
    broken = bytearray(whole)
    broken[at] ^= data.draw(st.integers(1, 255))
    with suppress(mock.Malformed):
        assert len(mock.read(bytes(broken)).metrics) <= len(whole)
    with pytest.raises(mock.Malformed):
        mock.read(whole[:-1])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x0a\x05abc", "5 bytes are announced"),
        (b"\x80", "ends within a number"),
        (b"\xff" * 11, "more than ten bytes"),
        (b"\x0b", "wire type 3"),
        (b"\x00\x00", "without a number"),
        (b"\x08\x01", "not a message"),
    ],
)
def test_the_mock_cluster_names_the_error(data: bytes, why: str) -> None:
    with pytest.raises(mock.Malformed, match=why):
        mock.read(data)
