"""Collectors for prometheus-client: the statistics of clients, and of Spark's streams.

    from prometheus_client import REGISTRY, start_http_server
    from kafka_native.prometheus import ClientCollector

    REGISTRY.register(ClientCollector(producer, consumer))
    start_http_server(8000)

The module needs prometheus-client: ``pip install 'kafka-native[prometheus]'``.
docs/guide/monitoring.md lists the names.
"""

from __future__ import annotations

from collections.abc import Iterable

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError as _missing:
    raise ImportError(
        "kafka_native.prometheus needs prometheus-client: pip install "
        f"'kafka-native[prometheus]' ({_missing})"
    ) from None

from kafka_native.client_core import Observed
from kafka_native.measurements import COUNTER, LABELS, Measured, Measurement, Spec, measurements

__all__ = ["ClientCollector", "StreamCollector"]

PREFIX = "kafka_native_"


class ClientCollector(Collector):
    """Collects `metrics()` of clients at each scrape, on the thread of the scrape.

    Names are ``kafka_native_<level>_<field>``, with ``_total`` for counters. Labels are ``client``,
    ``broker``, ``topic`` and ``partition``. Latencies and batch sizes also have the label ``stat``,
    for instance ``p99``; they need ``statistics.interval.ms``. Their window begins at the last
    scrape, or at the last document of a ``stats_cb``.

    The collector leaves out clients that are closed or garbage-collected. It keeps no client alive.
    """

    def __init__(self, *clients: object, partitions: bool = True) -> None:
        """``clients``: producers, consumers and admin clients, including the asyncio ones.

        :param partitions: False leaves out the metrics of single partitions, which are usually most
            of the metrics.
        """
        self._observed = Observed(clients)
        self._partitions = partitions

    def add(self, client: object) -> None:
        """Add a client to the collector. You may call it on any thread."""
        self._observed.add(client)

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that a registration doesn't collect metrics."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of all clients, each name once."""
        return _families(
            each
            for metrics in self._observed.metrics()
            for each in measurements(metrics, partitions=self._partitions)
        )


class StreamCollector(Collector):
    """Collects the figures of a Spark session's streams at each scrape.

        listener = ProgressListener()
        spark.streams.addListener(listener)
        REGISTRY.register(StreamCollector(listener))

    Names are ``kafka_native_stream_<figure>``, with ``_total`` for counters. The label ``query`` is
    the query's name, or its id if it has none. The lags also have the label ``source``, the number
    of the source in the query.
    """

    def __init__(self, listener: Measured) -> None:
        """``listener``: a `kafka_native.spark.ProgressListener`."""
        self._listener = listener

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that a registration doesn't collect metrics."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of the active queries, each name once."""
        return _families(self._listener.measurements())


def _families(found: Iterable[Measurement]) -> Iterable[Metric]:
    """The families of measurements, each name once."""
    families: dict[str, Metric] = {}
    for spec, labels, value in found:
        family = families.get(spec.name)
        if family is None:
            family = families[spec.name] = _family(spec)
        name = f"{PREFIX}{spec.name}{'_total' if spec.kind == COUNTER else ''}"
        family.add_sample(name, labels, value)
    return families.values()


def _family(spec: Spec) -> Metric:
    kind = CounterMetricFamily if spec.kind == COUNTER else GaugeMetricFamily
    return kind(PREFIX + spec.name, spec.text, labels=[*LABELS[spec.level], *spec.labels])
