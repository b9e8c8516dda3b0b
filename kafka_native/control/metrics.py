"""Values of client metrics, and their encoding as OpenTelemetry protobuf for KIP-714.

The encoder (opentelemetry.proto.metrics.v1.MetricsData) supports only what client metrics need.
These are gauges and monotonic sums of numbers, with text and integer attributes.

Thread: the control thread only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

VARINT, FIXED64, BYTES = 0, 1, 2
"""Protobuf wire types."""
DELTA, CUMULATIVE = 1, 2
"""OpenTelemetry's AggregationTemporality."""

Attributes = Mapping[str, str | int]


class Point(NamedTuple):
    """One value of a metric, with its labels.

    It is sent as an integer or a float, like ``value``.
    """

    value: int | float
    attributes: Attributes = MappingProxyType({})


class Metric(NamedTuple):
    """A metric and its values."""

    name: str
    text: str
    """Its description, for people."""
    unit: str
    """In OpenTelemetry's form (UCUM)."""
    is_sum: bool
    """True: a sum that only rises; False: a gauge."""
    points: tuple[Point, ...]


class Times(NamedTuple):
    """The times of a push, in nanoseconds since 1970."""

    started: int
    """The start of cumulative sums."""
    since: int
    """The start of gauges and of delta sums."""
    now: int


def encode(
    metrics: Iterable[Metric],
    resource: Attributes,
    scope: tuple[str, str],
    times: Times,
    *,
    delta: bool,
) -> bytes:
    """Encodes MetricsData of one resource and one scope (name, version); empty without metrics.

    ``delta``: sums cover the time since ``times.since``; otherwise, since ``times.started``.
    """
    encoded = [_field(2, _metric(metric, times, delta)) for metric in metrics]
    if not encoded:
        return b""
    name, version = scope
    scoped = _field(1, _text(1, name) + _text(2, version)) + b"".join(encoded)
    return _field(1, _field(1, _attributes(1, resource)) + _field(2, scoped))


def _metric(metric: Metric, times: Times, delta: bool) -> bytes:
    start = times.since if delta or not metric.is_sum else times.started
    points = b"".join(_field(1, _point(point, start, times.now)) for point in metric.points)
    head = _text(1, metric.name) + _text(2, metric.text) + _text(3, metric.unit)
    if not metric.is_sum:
        return head + _field(5, points)
    return head + _field(7, points + _number(2, DELTA if delta else CUMULATIVE) + _number(3, 1))


def _point(point: Point, start: int, now: int) -> bytes:
    out = _fixed(2, "<Q", start) + _fixed(3, "<Q", now)
    out += (
        _fixed(6, "<q", point.value)
        if isinstance(point.value, int)
        else _fixed(4, "<d", point.value)
    )
    return out + _attributes(7, point.attributes)


def _attributes(number: int, attributes: Attributes) -> bytes:
    return b"".join(
        _field(
            number,
            _text(1, key)
            + _field(2, _text(1, each) if isinstance(each, str) else _number(3, each)),
        )
        for key, each in attributes.items()
    )


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # a negative number takes ten bytes
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | BYTES) + _varint(len(data)) + data


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode("utf-8", "replace")) if text else b""


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | VARINT) + _varint(value)


def _fixed(number: int, form: str, value: float) -> bytes:
    return _varint(number << 3 | FIXED64) + struct.pack(form, value)
