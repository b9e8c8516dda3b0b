"""A decoder for OpenTelemetry's MetricsData in protobuf, which clients push."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_MAX_BYTES = 10
_GAUGE, _SUM = 5, 7
_DELTA, _CUMULATIVE = 1, 2


class Malformed(ValueError):
    """The bytes are not valid MetricsData."""


class PushedMetric(NamedTuple):
    """One value of a metric that a client pushed."""

    name: str
    kind: str
    """``gauge`` or ``sum``."""
    value: int | float
    labels: dict[str, str | int]
    unit: str
    delta: bool
    """Whether a sum counts from the previous push. ``start_ns`` is the start of the count."""
    start_ns: int
    """Nanoseconds since 1970, like ``time_ns``."""
    time_ns: int


class Metrics(NamedTuple):
    """The content of one push."""

    resource: dict[str, str | int]
    """Labels of the client."""
    scope: tuple[str, str]
    """Name and version of the library that measured."""
    metrics: list[PushedMetric]


_Field = tuple[int, int | bytes]


def read(data: bytes) -> Metrics:
    """Decode metrics, and merge several resources and scopes. Raises ``Malformed``."""
    try:
        return _read(data)
    except (UnicodeDecodeError, TypeError, struct.error) as error:
        raise Malformed(str(error)) from None


def _read(data: bytes) -> Metrics:
    resource: dict[str, str | int] = {}
    scope = ("", "")
    metrics: list[PushedMetric] = []
    for resources in _inner(data, 1):
        for described in _inner(resources, 1):
            resource.update(_labels(described, 1))
        for scoped in _inner(resources, 2):
            for named in _inner(scoped, 1):
                scope = (_text(named, 1), _text(named, 2))
            for metric in _inner(scoped, 2):
                metrics.extend(_metric(metric))
    return Metrics(resource, scope, metrics)


def _metric(data: bytes) -> Iterator[PushedMetric]:
    name, unit = _text(data, 1), _text(data, 3)
    if not name:
        raise Malformed("a metric without a name")
    for number, kind in ((_GAUGE, "gauge"), (_SUM, "sum")):
        for values in _inner(data, number):
            temporality = dict(_fields(values)).get(2, 0)
            if kind == "sum" and temporality not in (_DELTA, _CUMULATIVE):
                raise Malformed(f"{name}: aggregation temporality {temporality!r}")
            for point in _inner(values, 1):
                yield _point(point, name, kind, unit, temporality == _DELTA)


def _point(data: bytes, name: str, kind: str, unit: str, delta: bool) -> PushedMetric:
    found = dict(_fields(data))
    value: int | float
    if 4 in found:
        [value] = struct.unpack("<d", _eight_bytes(found[4]))
    elif 6 in found:
        [value] = struct.unpack("<q", _eight_bytes(found[6]))
    else:
        raise Malformed(f"{name}: the value isn't a number")
    start, now = (
        int.from_bytes(_eight_bytes(found.get(number, bytes(8))), "little") for number in (2, 3)
    )
    return PushedMetric(name, kind, value, _labels(data, 7), unit, delta, start, now)


def _labels(data: bytes, number: int) -> dict[str, str | int]:
    labels: dict[str, str | int] = {}
    for pair in _inner(data, number):
        for value in _inner(pair, 2):
            for kind, found in _fields(value):
                if kind == 1 and isinstance(found, bytes):
                    labels[_text(pair, 1)] = found.decode("utf-8")
                elif kind == 3 and isinstance(found, int):
                    labels[_text(pair, 1)] = found - (1 << 64) if found >> 63 else found
    return labels


def _inner(data: bytes, number: int) -> Iterator[bytes]:
    """Yield the fields of this number. Each of them is a message."""
    for found, value in _fields(data):
        if found == number:
            if not isinstance(value, bytes):
                raise Malformed(f"field {number} is not a message")
            yield value


def _text(data: bytes, number: int) -> str:
    return b"".join(_inner(data, number)).decode("utf-8")


def _eight_bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes) or len(value) != 8:
        raise Malformed("a number without eight bytes")
    return value


def _fields(data: bytes) -> Iterator[_Field]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if tag >> 3 == 0:
            raise Malformed("a field without a number")
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise Malformed(f"wire type {kind}")
        if size > len(data) - at:
            raise Malformed(f"{size} bytes are announced, {len(data) - at} are left")
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(_VARINT_MAX_BYTES):
        if at + shift >= len(data):
            raise Malformed("the data ends within a number")
        byte = data[at + shift]
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at + shift + 1
    raise Malformed("a number of more than ten bytes")
