"""Client metrics (KIP-714): subscriptions and pushes."""

from __future__ import annotations

import threading
import time
import uuid
import zlib
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafka_native._native import records
from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import otlp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_native.mock.otlp import PushedMetric

_KEPT_PUSHES = 10_000
_INTERVAL_MIN_MS = 100
_DECOMPRESSED_MAX_BYTES = 16 << 20
_EARLY_S = 0.005
"""The tolerance for early pushes, because the client's clock and the broker's differ."""


class PushedMetrics(NamedTuple):
    """One push that a broker accepted, in ``MockCluster.pushed_metrics``."""

    broker: int
    client_id: str
    client_instance_id: bytes
    subscription_id: int
    terminating: bool
    compression: str
    size_bytes: int
    """The size of the compressed metrics."""
    time: float
    """The ``time.monotonic()`` of the push."""
    resource: dict[str, str | int]
    """Labels of the client."""
    scope: tuple[str, str]
    """Name and version of the library that measured."""
    metrics: list[PushedMetric]

    def value(self, name: str, **labels: str | int) -> int | float | None:
        """Return the value of a metric with these labels among its own, or None."""
        found = (
            each
            for each in self.metrics
            if each.name == name and labels.items() <= each.labels.items()
        )
        return next((each.value for each in found), None)


@dataclass
class _Instance:
    """The state of a client instance at the brokers."""

    subscription_id: int
    subscribed_at: float = 0.0
    pushed_at: float = 0.0
    terminated: bool = False


class Subscription(NamedTuple):
    """The operator's subscription to metrics."""

    metrics: tuple[str, ...] = ()
    interval_ms: int = 300_000
    delta: bool = True
    compression: tuple[int, ...] = (4, 3, 1, 2)
    max_bytes: int = 1 << 20

    @property
    def number(self) -> int:
        """The id of the subscription. Every change of a field gives another id."""
        return zlib.crc32(repr(self).encode()) & 0x7FFFFFFF


class Telemetry:
    """The telemetry state of all brokers. It has its own lock."""

    def __init__(self) -> None:
        """Start without a subscription."""
        self._lock = threading.Lock()
        self.subscription = Subscription()
        self.pushes: deque[PushedMetrics] = deque(maxlen=_KEPT_PUSHES)
        self._instances: dict[bytes, _Instance] = {}

    def register(self, instance_id: bytes) -> tuple[bytes, Subscription]:
        """Register a client, with a new id if it has none. Return its id and the subscription."""
        with self._lock:
            if not any(instance_id):
                instance_id = uuid.uuid4().bytes
            known = self._instances.setdefault(instance_id, _Instance(0))
            known.subscription_id = self.subscription.number
            known.subscribed_at = time.monotonic()
            return instance_id, self.subscription

    def check(
        self, instance_id: bytes, subscription_id: int, codec: int, size: int, *, terminating: bool
    ) -> ErrorCode:
        """Return the error code for a push. The checks have Kafka's order."""
        with self._lock:
            now = time.monotonic()
            known = self._instances.setdefault(instance_id, _Instance(self.subscription.number))
            pushed_at, known.pushed_at = known.pushed_at, now
            early = (
                known.subscribed_at <= pushed_at
                and now < pushed_at + self.subscription.interval_ms / 1000 - _EARLY_S
            )
            if known.terminated:
                return ErrorCode.INVALID_REQUEST
            if early and not terminating:
                return ErrorCode.THROTTLING_QUOTA_EXCEEDED
            if subscription_id != self.subscription.number:
                return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
            if codec and codec not in self.subscription.compression:
                return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
            if size > self.subscription.max_bytes:
                return ErrorCode.TELEMETRY_TOO_LARGE
            known.terminated = terminating
            return ErrorCode.NO_ERROR


def decode(codec: int, data: bytes) -> otlp.Metrics:
    """Decode the metrics of a push. Raises ``otlp.Malformed``."""
    if codec:
        try:
            data = records.decompress(
                records.CODEC_NAMES[codec], data, max_bytes=_DECOMPRESSED_MAX_BYTES
            )
        except records.RecordError as error:
            raise otlp.Malformed(str(error)) from None
    return otlp.read(data)


class ClientMetrics:
    """Client metrics, as ``cluster.client_metrics``.

    Methods raise ``ValueError`` if the cluster accepts no client metrics.
    """

    def __init__(self, telemetry: Telemetry | None) -> None:
        """Act on the cluster's telemetry state, or None if it accepts no metrics."""
        self._telemetry_or_none = telemetry

    def subscribe(
        self,
        metrics: Sequence[str] = ("*",),
        interval_ms: int = 1000,
        *,
        delta: bool = True,
        compression: Sequence[str] = ("zstd", "lz4", "gzip", "snappy"),
        max_bytes: int = 1 << 20,
    ) -> None:
        """Subscribe to metrics of all clients, as ``kafka-client-metrics.sh`` does.

        A client that already has a subscription gets the new one with its next request.

        :param metrics: Prefixes of names, ``*`` for all. An empty list subscribes to none.
        :param interval_ms: The push interval, at least 100.
        :param delta: Whether sums count from the last push, or from the start.
        :param compression: The allowed codecs, best first. An empty list allows none.
        :param max_bytes: The maximum size of a push. A larger one gets TELEMETRY_TOO_LARGE.
        """
        if isinstance(metrics, str):
            raise TypeError("a list of prefixes is expected")
        if interval_ms < _INTERVAL_MIN_MS:
            raise ValueError(f"an interval has {_INTERVAL_MIN_MS} ms or more, not {interval_ms}")
        if unknown := set(compression) - set(records.CODEC_NAMES):
            raise ValueError(
                f"codecs are {', '.join(records.CODEC_NAMES)}, not {', '.join(sorted(unknown))}"
            )
        codecs = tuple(records.CODEC_NAMES.index(each) for each in compression)
        self._telemetry.subscription = Subscription(
            tuple(metrics), interval_ms, delta, codecs, max_bytes
        )

    @property
    def pushed(self) -> list[PushedMetrics]:
        """The accepted pushes, oldest first."""
        return list(self._telemetry.pushes)

    @property
    def _telemetry(self) -> Telemetry:
        if self._telemetry_or_none is None:
            raise ValueError(
                "this cluster accepts no client metrics: make it with client_metrics=True"
            )
        return self._telemetry_or_none
