"""A collector of prometheus-client's that exposes the statistics of clients.

    from prometheus_client import REGISTRY, start_http_server
    from kafka_native.prometheus import ClientCollector

    REGISTRY.register(ClientCollector(producer, consumer))
    start_http_server(8000)

It needs prometheus-client: ``pip install 'kafka-native[prometheus]'``. docs/guide/monitoring.md lists the names.
"""

from __future__ import annotations

from collections.abc import Iterable

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError as _missing:
    raise ImportError(
        f"kafka_native.prometheus needs prometheus-client: pip install 'kafka-native[prometheus]' ({_missing})"
    ) from None

from kafka_native.client import Observed
from kafka_native.measurements import COUNTER, LABELS, Spec, measurements

__all__ = ["ClientCollector"]

PREFIX = "kafka_native_"


class ClientCollector(Collector):
    """Collects `metrics()` of clients at each scrape, on the thread that is asked for it.

    Names are ``kafka_native_<level>_<field>`` (and ``_total`` of counters), labels ``client``, ``broker``, ``topic``
    and ``partition``. Percentiles and the like of latencies and batch sizes, under the label ``stat``, are there with
    ``statistics.interval.ms`` only: since the last scrape, or since the last document of a ``stats_cb``. A client that
    was closed or dropped is left out; it isn't kept alive by being observed.
    """

    def __init__(self, *clients: object, partitions: bool = True) -> None:
        """``clients``: producers, consumers and admin clients, those of asyncio included.

        :param partitions: False leaves out what is told of single partitions: with many of them, that is the most.
        """
        self._observed = Observed(clients)
        self._partitions = partitions

    def add(self, client: object) -> None:
        """Observes this client, too. From any thread."""
        self._observed.add(client)

    def describe(self) -> Iterable[Metric]:
        """Nothing: a registry needn't ask the clients to know the names."""
        return []

    def collect(self) -> Iterable[Metric]:
        """The metrics of all clients, each name once."""
        families: dict[str, Metric] = {}
        for metrics in self._observed.metrics():
            for spec, labels, value in measurements(metrics, partitions=self._partitions):
                family = families.get(spec.name)
                if family is None:
                    family = families[spec.name] = _family(spec)
                name = f"{PREFIX}{spec.name}{'_total' if spec.kind == COUNTER else ''}"
                family.add_sample(name, labels, value)
        return families.values()


def _family(spec: Spec) -> Metric:
    kind = CounterMetricFamily if spec.kind == COUNTER else GaugeMetricFamily
    return kind(PREFIX + spec.name, spec.text, labels=[*LABELS[spec.level], *spec.labels])
