"""Metrics of clients (KIP-714): what is subscribed to, and what was pushed."""

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
_LEAST_INTERVAL_MS = 100
_DECOMPRESSED_MAX_BYTES = 16 << 20
_EARLY_S = 0.005
"""By so much a push may come too early: the client's clock and ours tick differently."""


class PushedMetrics(NamedTuple):
    """One push that a broker has taken: what ``MockCluster.pushed_metrics`` lists."""

    broker: int
    client_id: str
    client_instance_id: bytes
    subscription_id: int
    terminating: bool
    compression: str
    size_bytes: int
    """Of the metrics, compressed."""
    time: float
    """``time.monotonic()`` then."""
    resource: dict[str, str | int]
    """Labels of the client."""
    scope: tuple[str, str]
    """Name and version of what has measured."""
    metrics: list[PushedMetric]

    def value(self, name: str, **labels: str | int) -> int | float | None:
        """The value of a metric with these labels among its own; None if there is none."""
        found = (
            each
            for each in self.metrics
            if each.name == name and labels.items() <= each.labels.items()
        )
        return next((each.value for each in found), None)


@dataclass
class _Instance:
    """A client, as it is known to the brokers."""

    subscription_id: int
    asked_at: float = 0.0
    pushed_at: float = 0.0
    terminated: bool = False


class Wanted(NamedTuple):
    """What operators have subscribed to."""

    metrics: tuple[str, ...] = ()
    interval_ms: int = 300_000
    delta: bool = True
    compression: tuple[int, ...] = (4, 3, 1, 2)
    max_bytes: int = 1 << 20

    @property
    def number(self) -> int:
        """The subscription's id: another one whenever anything changes."""
        return zlib.crc32(repr(self).encode()) & 0x7FFFFFFF


class Telemetry:
    """The state of all brokers; under a lock of its own."""

    def __init__(self) -> None:
        """Nothing is subscribed to."""
        self._lock = threading.Lock()
        self.wanted = Wanted()
        self.pushes: deque[PushedMetrics] = deque(maxlen=_KEPT_PUSHES)
        self._instances: dict[bytes, _Instance] = {}

    def register(self, instance_id: bytes) -> tuple[bytes, Wanted]:
        """The id of a client that asks, a new one for who has none, and what is wanted of it."""
        with self._lock:
            if not any(instance_id):
                instance_id = uuid.uuid4().bytes
            known = self._instances.setdefault(instance_id, _Instance(0))
            known.subscription_id = self.wanted.number
            known.asked_at = time.monotonic()
            return instance_id, self.wanted

    def check(
        self, instance_id: bytes, subscription_id: int, codec: int, size: int, *, terminating: bool
    ) -> ErrorCode:
        """What is wrong with a push, in the order in which Kafka looks."""
        with self._lock:
            now = time.monotonic()
            known = self._instances.setdefault(instance_id, _Instance(self.wanted.number))
            pushed_at, known.pushed_at = known.pushed_at, now
            early = (
                known.asked_at <= pushed_at
                and now < pushed_at + self.wanted.interval_ms / 1000 - _EARLY_S
            )
            if known.terminated:
                return ErrorCode.INVALID_REQUEST
            if early and not terminating:
                return ErrorCode.THROTTLING_QUOTA_EXCEEDED
            if subscription_id != self.wanted.number:
                return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
            if codec and codec not in self.wanted.compression:
                return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
            if size > self.wanted.max_bytes:
                return ErrorCode.TELEMETRY_TOO_LARGE
            known.terminated = terminating
            return ErrorCode.NO_ERROR


def decoded(codec: int, data: bytes) -> otlp.Metrics:
    """The metrics of a push. Raises ``otlp.Malformed``."""
    if codec:
        try:
            data = records.decompress(
                records.CODEC_NAMES[codec], data, max_bytes=_DECOMPRESSED_MAX_BYTES
            )
        except records.RecordError as error:
            raise otlp.Malformed(str(error)) from None
    return otlp.read(data)


class ClientMetrics:
    """Metrics of clients, as ``cluster.client_metrics``. Raises ``ValueError`` where the cluster takes none."""

    def __init__(self, telemetry: Telemetry | None) -> None:
        """Act on what the cluster wants and gets, None for a cluster that takes no metrics."""
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
        """Want metrics of all clients from now on, as ``kafka-client-metrics.sh`` says it to a cluster.

        Clients that have asked before hear of it when they ask or push the next time.

        :param metrics: Prefixes of names, ``*`` for all; an empty list wants none.
        :param interval_ms: How often to push; 100 or more.
        :param delta: Whether sums are to tell what came since the last push, or everything.
        :param compression: The codecs that may be used, best first; none at all leaves it uncompressed.
        :param max_bytes: A push with more is refused.
        """
        if isinstance(metrics, str):
            raise TypeError("a list of prefixes is expected")
        if interval_ms < _LEAST_INTERVAL_MS:
            raise ValueError(f"an interval has {_LEAST_INTERVAL_MS} ms or more, not {interval_ms}")
        if unknown := set(compression) - set(records.CODEC_NAMES):
            raise ValueError(
                f"codecs are {', '.join(records.CODEC_NAMES)}, not {', '.join(sorted(unknown))}"
            )
        codecs = tuple(records.CODEC_NAMES.index(each) for each in compression)
        self._telemetry.wanted = Wanted(tuple(metrics), interval_ms, delta, codecs, max_bytes)

    @property
    def pushed(self) -> list[PushedMetrics]:
        """What clients have pushed, oldest first."""
        return list(self._telemetry.pushes)

    @property
    def _telemetry(self) -> Telemetry:
        if self._telemetry_or_none is None:
            raise ValueError(
                "this cluster takes no metrics of clients: make it with client_metrics=True"
            )
        return self._telemetry_or_none
