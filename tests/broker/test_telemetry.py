"""Client metrics on Apache Kafka, with a plugin that receives them from our clients and
librdkafka's.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from kafka_native.control.telemetry import SPECS, full_name
from tests.broker import java
from tests.broker.cluster import Cluster
from tests.broker.support import (
    TopicMaker,
    our_consumer,
    our_producer,
    running,
    their_consumer,
    their_producer,
)
from tests.waiting import wait_for

PLUGIN = Path(__file__).parent / "java_plugins" / "ClientMetrics.java"
INTERVAL_MS = 500
PREFIX = "org.apache.kafka."
COUNT = 200

pytestmark = [pytest.mark.broker, pytest.mark.slow]


class Push(NamedTuple):
    """A line of the plugin's file."""

    client_id: str
    instance_id: str
    last: bool
    data: MetricsData

    @property
    def metrics(self) -> dict[str, Any]:
        return {
            metric.name: metric
            for resource in self.data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    @property
    def labels(self) -> dict[str, str]:
        return {
            pair.key: pair.value.string_value
            for resource in self.data.resource_metrics
            for pair in resource.resource.attributes
        }


class MeteredCluster(NamedTuple):
    """A cluster, and the pushes that its plugin got."""

    cluster: Cluster
    file: Path

    def pushes(self, client_id: str) -> list[Push]:
        found = []
        for line in self.file.read_text().splitlines(keepends=True) if self.file.exists() else ():
            if line.endswith("\n") and line.startswith(f"{client_id}\t"):
                _, instance_id, last, data = line.rstrip("\n").split("\t")
                found.append(
                    Push(
                        client_id,
                        instance_id,
                        last == "true",
                        MetricsData.FromString(base64.b64decode(data)),
                    )
                )
        return found

    def seen(self, client_id: str) -> dict[str, Any]:
        """Return the newest value of every metric that a client has pushed."""
        return {
            name: metric for push in self.pushes(client_id) for name, metric in push.metrics.items()
        }

    def tool(self, *args: str) -> str:
        """Run kafka-client-metrics.sh."""
        main = "org.apache.kafka.tools.ClientMetricsCommand"
        return java.java_tool(main, "--bootstrap-server", self.cluster.bootstrap, *args).decode()

    def subscribe(
        self, name: str, metrics: str, interval_ms: int = INTERVAL_MS, *more: str
    ) -> None:
        self.tool(
            "--alter", "--name", name, "--metrics", metrics, "--interval", str(interval_ms), *more
        )


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeteredCluster]:
    """Yield one broker with the plugin, and a subscription to everything."""
    why = java.missing()
    if why:
        pytest.skip(f"no Apache Kafka with a plugin: {why}")
    folder = tmp_path_factory.mktemp("client-metrics")
    file = folder / "pushes"
    plugins = java.compiled(PLUGIN, folder / "classes")
    changes = {"metric.reporters": "ClientMetrics", "client.metrics.file": str(file)}
    with running(1, changes=changes, plugins=plugins) as cluster:
        found = MeteredCluster(cluster, file)
        found.subscribe("everything", PREFIX)
        yield found


def kind_of(metric: Any) -> tuple[str, int]:
    """Return gauge or sum, and its temporality."""
    kind = metric.WhichOneof("data")
    return kind, metric.sum.aggregation_temporality if kind == "sum" else 0


def work(producer: Any, consumer: Any, topic: str, done: Callable[[], bool]) -> None:
    """Produce, read and commit until the condition is true."""

    def step() -> bool:
        for number in range(COUNT):
            producer.produce(topic, str(number))
        assert producer.flush(30) == 0
        for message in consumer.consume(COUNT, 0.2):
            assert message.error() is None
        if consumer.assignment():
            consumer.commit(asynchronous=True)
        return done()

    wait_for(step, "all metrics")


def clients_of(metered: MeteredCluster, whose: str, topic: str) -> tuple[Any, Any]:
    make = (our_producer, our_consumer) if whose == "ours" else (their_producer, their_consumer)
    group = {
        "group_id": f"{whose}-{topic}",
        "client_id": f"{whose}-consumer",
        "client_rack": "rack-1",
    }
    return make[0](metered.cluster, client_id=f"{whose}-producer", client_rack="rack-1"), make[1](
        metered.cluster, auto_offset_reset="earliest", **group
    )


def test_ours_push_librdkafkas_metrics_and_all_required_ones(
    metered: MeteredCluster, new_topic: TopicMaker
) -> None:
    topic = new_topic(metered.cluster, 2)
    for whose in ("ours", "theirs"):
        producer, consumer = clients_of(metered, whose, topic)
        consumer.subscribe([topic])
        names = {
            kind: {full_name(kind, spec) for spec in SPECS[kind]}
            for kind in ("producer", "consumer")
        }
        names["producer"] -= {name for name in names["producer"] if "throttle" in name}
        if whose == "theirs":  # it has some of them only from newer versions on
            names = {kind: {f"{PREFIX}{kind}.connection.creation.total"} for kind in names}

        def complete(whose: str = whose, names: dict[str, set[str]] = names) -> bool:
            return all(
                wanted <= set(metered.seen(f"{whose}-{kind}")) for kind, wanted in names.items()
            )

        work(producer, consumer, topic, complete)
        consumer.close()
        if whose == "ours":
            producer.close()
        del producer
        wait_for(lambda whose=whose: metered.pushes(f"{whose}-consumer")[-1].last, "the last push")
    for kind in ("producer", "consumer"):
        ours, theirs = metered.seen(f"ours-{kind}"), metered.seen(f"theirs-{kind}")
        shared = {name for name in theirs if name in ours or "throttle" not in name}
        assert shared <= set(ours), sorted(set(theirs) - set(ours))
        assert {name: kind_of(ours[name]) for name in shared} == {
            name: kind_of(theirs[name]) for name in shared
        }
        print(kind, "ours besides:", sorted(set(ours) - set(theirs)))
    deltas = [
        kind_of(metric)[1]
        for metric in metered.seen("ours-consumer").values()
        if kind_of(metric)[0] == "sum"
    ]
    assert set(deltas) == {AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA}
    last = metered.pushes("ours-consumer")[-1]
    assert (
        last.labels["client_rack"]
        == metered.pushes("theirs-consumer")[-1].labels["client_rack"]
        == "rack-1"
    )
    assert last.labels["group_id"] == f"ours-{topic}"
    assert last.labels["group_member_id"]
    assert metered.pushes("ours-producer")[-1].last


def test_the_id_is_the_brokers(metered: MeteredCluster, new_topic: TopicMaker) -> None:
    topic = new_topic(metered.cluster)
    with our_producer(metered.cluster, client_id="known") as producer:
        found = str(producer.client_instance_id(30))
        producer.produce(topic, "v")
        producer.flush(30)
        wait_for(lambda: metered.pushes("known"), "a push")
    # Kafka writes ids in the alphabet for addresses.
    assert {push.instance_id for push in metered.pushes("known")} == {
        found.replace("+", "-").replace("/", "_")
    }


def test_pushes_keep_to_the_interval_and_follow_a_changed_subscription(
    metered: MeteredCluster, new_topic: TopicMaker
) -> None:
    topic = new_topic(metered.cluster)
    client_id = "follower"
    with our_producer(metered.cluster, client_id=client_id, debug="telemetry") as producer:
        telemetry = producer._client.telemetry
        assert telemetry is not None
        refused: list[str] = []
        act = telemetry._refused

        def note(error: Any) -> None:
            refused.append(error.name())
            act(error)

        telemetry._refused = note  # type: ignore[method-assign]
        producer.produce(topic, "v")
        producer.flush(30)
        wait_for(lambda: len(metered.pushes(client_id)) >= 5, "five pushes")
        assert refused == []  # none was too early
        only = {f"{PREFIX}producer.connection.creation.rate"}
        try:
            metered.subscribe("everything", *only)
            wait_for(
                lambda: set(metered.pushes(client_id)[-1].metrics) == only, "the other subscription"
            )
            metered.tool("--delete", "--name", "everything")
            wait_for(lambda: not telemetry._subscription.specs, "that nothing is wanted")  # type: ignore[union-attr]
        finally:
            metered.subscribe("everything", PREFIX)
        # After two changes within an interval a broker may delay a subscription request by an interval.
        assert set(refused) <= {"THROTTLING_QUOTA_EXCEEDED"}


def test_operators_can_distinguish_our_clients(
    metered: MeteredCluster, new_topic: TopicMaker
) -> None:
    topic = new_topic(metered.cluster)
    metered.tool("--delete", "--name", "everything")  # with it, the subscription would match both
    metered.subscribe(
        "ours",
        f"{PREFIX}producer.connection",
        INTERVAL_MS,
        "--match",
        "client_software_name=kafka-native",
    )
    try:
        with our_producer(metered.cluster, client_id="matching") as producer:
            producer.produce(topic, "v")
            producer.flush(30)
            wait_for(lambda: metered.pushes("matching"), "a push")
        assert set(metered.pushes("matching")[0].metrics) <= {
            f"{PREFIX}producer.connection.creation.rate",
            f"{PREFIX}producer.connection.creation.total",
        }
    finally:
        metered.tool("--delete", "--name", "ours")
        metered.subscribe("everything", PREFIX)


def test_a_broker_without_a_plugin_gets_no_requests(kafka: Cluster, new_topic: TopicMaker) -> None:
    topic = new_topic(kafka)
    with our_producer(kafka) as producer:
        producer.produce(topic, "v")
        producer.flush(30)
        asked = {
            name
            for broker in producer.metrics().brokers.values()
            for name, count in broker.req.items()
            if count
        }
    assert "Produce" in asked
    assert not {"GetTelemetrySubscriptions", "PushTelemetry"} & asked
