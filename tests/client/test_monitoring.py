"""Monitoring of clients: a Prometheus collector, OpenTelemetry's spans and metrics."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kafka_native import KafkaException, Message, Producer
from kafka_native.admin import AdminClient
from kafka_native.aio import AIOProducer
from kafka_native.measurements import SPECS, measurements
from kafka_native.mock import MockCluster
from kafka_native.opentelemetry import ConsumerTracing, ProducerTracing, observe, process
from kafka_native.prometheus import ClientCollector
from tests.waiting import WAIT_S, wait_for

from .share_support import new_group, sharing, take
from .support import Client, assigned, deliver, fill


def samples(collector: ClientCollector) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return a scrape, parsed by Prometheus's own parser, by name and labels."""
    registry = CollectorRegistry()
    registry.register(collector)
    text = generate_latest(registry).decode()
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families)
    assert all(family.documentation for family in families)
    found = [sample for family in families for sample in family.samples]
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in found}


def value_of(found: dict[Any, float], name: str, **labels: str) -> float:
    return sum(
        value
        for (own, given), value in found.items()
        if own == name and labels.items() <= dict(given).items()
    )


# --- measurements ---


def test_clients_have_every_documented_measurement(client: Client, topic: str) -> None:
    fill(client, topic, 3)
    names = set()
    with client.producer(**{"statistics.interval.ms": 3_600_000}) as producer:
        deliver(producer, topic, b"x")
        names |= {each.spec.name for each in measurements(producer.metrics())}
    with client.consumer(
        **{"group.id": f"of-{topic}", "auto.offset.reset": "earliest"}
    ) as consumer:
        consumer.subscribe([topic])
        assert len(consumer.consume(3, WAIT_S)) == 3
        assert len(consumer.consume(1, WAIT_S)) == 1
        consumer.commit(asynchronous=False)
        names |= {each.spec.name for each in measurements(consumer.metrics())}
    # No client was throttled: an empty window has no value.
    assert names == set(SPECS) - {"broker_throttle_seconds"}


def test_measurements_without_partitions_lack_only_that_level(client: Client) -> None:
    topic = client.topic(4)
    with client.producer() as producer:
        deliver(producer, topic, b"x")
        metrics = producer.metrics()
    levels = {each.spec.level for each in measurements(metrics, partitions=False)}
    assert levels == {each.spec.level for each in measurements(metrics)} - {"partition"}


def up_by_broker(producer: Producer) -> dict[str, float]:
    found = measurements(producer.metrics())
    return {each.labels["broker"]: each.value for each in found if each.spec.name == "broker_up"}


def test_a_broker_is_up_or_down_only_if_the_client_needs_it() -> None:
    with MockCluster(brokers=2) as cluster:
        client = Client(cluster)
        topic = client.topic()
        leader = cluster.leader(topic, 0)
        with client.producer(**{"connections.max.idle.ms": 1000}) as producer:
            deliver(producer, topic, b"x")
            wait_for(lambda: set(up_by_broker(producer).values()) == {1}, "all connections")
            up = up_by_broker(producer)
            assert len(producer.metrics().brokers) > len(up)
            wait_for(lambda: not up_by_broker(producer), "the end of the idle connections")
            for broker in cluster.broker_ids:
                cluster.broker_down(broker)
            producer.produce(topic, b"x")
            name = next(name for name in up if name.endswith(f"/{leader}"))
            wait_for(lambda: up_by_broker(producer).get(name) == 0, "a connection that is down")
            cluster.broker_up(leader)
            assert producer.flush(WAIT_S) == 0


# --- Prometheus ---


def test_a_scrape_has_the_figures_of_all_clients(client: Client) -> None:
    topic = client.topic(2)
    with client.producer(**{"statistics.interval.ms": 3_600_000}) as producer:
        collector = ClientCollector(producer)
        for number in range(10):
            producer.produce(topic, b"12345", partition=number % 2)
        assert producer.flush(WAIT_S) == 0
        with assigned(client, topic, **{"group.id": f"of-{topic}"}) as consumer:
            assert len(consumer.consume(5, WAIT_S)) == 5
            collector.add(consumer)
            found = samples(collector)
            name = producer._client.name
            assert value_of(found, "kafka_native_client_txmsgs_total", client=name) == 10
            assert value_of(found, "kafka_native_client_txmsg_bytes_total", client=name) == 50
            sent = {"client": name, "topic": topic, "partition": "1"}
            assert value_of(found, "kafka_native_partition_txmsgs_total", **sent) == 5
            reader = consumer._client.name
            assert value_of(found, "kafka_native_client_rxmsgs_total", client=reader) == 5
            place = {"client": reader, "topic": topic, "partition": "0"}
            assert value_of(found, "kafka_native_partition_app_offset", **place) == 5
            assert value_of(found, "kafka_native_partition_hi_offset", **place) == 5
            lags = [
                key
                for key in found
                if key[0] == "kafka_native_partition_consumer_lag" and ("topic", topic) in key[1]
            ]
            assert lags == []  # nothing was committed: unknown
            own = {"client": name}
            assert value_of(found, "kafka_native_broker_req_total", **own, request="Produce") >= 2
            assert value_of(found, "kafka_native_broker_up", **own) >= 1
            average = {**own, "stat": "avg"}
            assert 0 < value_of(found, "kafka_native_topic_batchcnt", **average, topic=topic) <= 5
            rtt_max_s = value_of(found, "kafka_native_broker_rtt_seconds", **own, stat="max")
            assert 0 < rtt_max_s < WAIT_S * 10
            found = samples(collector)  # of a new window
            assert value_of(found, "kafka_native_topic_batchcnt", **average) == 0


def test_closed_and_dropped_clients_are_left_out(client: Client) -> None:
    with client.producer() as producer:
        collector = ClientCollector(producer, AdminClient({"bootstrap.servers": client.bootstrap}))
        gc.collect()
        found = samples(collector)
        assert {dict(labels)["client"] for _, labels in found} == {producer._client.name}
    assert samples(collector) == {}


def test_a_client_that_is_added_twice_is_in_a_scrape_once(client: Client) -> None:
    with client.producer() as producer:
        collector = ClientCollector(producer, producer)
        collector.add(producer)
        for family in collector.collect():
            labels = [tuple(sorted(sample.labels.items())) for sample in family.samples]
            assert len(labels) == len(set(labels)), family.name


def test_objects_that_are_no_clients_are_refused() -> None:
    with pytest.raises(
        TypeError, match="a producer, consumer or admin client is expected, not str"
    ):
        ClientCollector("producer")


def test_asyncio_clients_are_collected_from_another_thread(client: Client) -> None:
    producer = AIOProducer({"bootstrap.servers": client.bootstrap})
    found = samples(ClientCollector(producer))
    name = producer._core._client.name
    assert value_of(found, "kafka_native_client_msg_max", client=name) == 100_000
    producer._core.close(0)


def test_a_share_consumer_is_collected(client: Client) -> None:
    topic = client.topic(1)
    with sharing(client, new_group(client), topic) as consumer:
        fill(client, topic, 3)
        take(consumer, 3)
        found = samples(ClientCollector(consumer))
        name = consumer._client.name
        assert value_of(found, "kafka_native_broker_req_total", client=name, request="ShareFetch")
        assert value_of(found, "kafka_native_broker_up", client=name) >= 1
        observe(consumer, meter_provider=MeterProvider())
    assert samples(ClientCollector(consumer)) == {}


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("prometheus", "prometheus_client", "prometheus"),
        ("opentelemetry", "opentelemetry", "opentelemetry"),
    ],
)
def test_a_missing_package_is_named(
    module: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, f"kafka_native.{module}")
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"pip install 'kafka-native\[{extra}\]'"):
        importlib.import_module(f"kafka_native.{module}")


# --- spans ---


@pytest.fixture
def spans() -> Iterator[tuple[TracerProvider, InMemorySpanExporter]]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider, exporter
    provider.shutdown()


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


def fail_in(message: Message, provider: TracerProvider) -> None:
    with process(message, tracer_provider=provider) as span:
        assert trace.get_current_span() is span
        raise ValueError("no good")


def test_a_messages_trace_goes_from_produce_to_process(client: Client, spans: Any) -> None:
    provider, exporter = spans
    topic = client.topic(1)
    tracing = ProducerTracing(tracer_provider=provider, attributes={"deployment": "test"})
    with client.producer(interceptors=[tracing]) as producer:
        with provider.get_tracer("test").start_as_current_span("checkout") as checkout:
            producer.produce(
                topic, b"x", key="k", headers={"own": "1", "traceparent": "stale"}, partition=0
            )
        assert producer.flush(WAIT_S) == 0
    assert tracing._open == {}
    [sent] = named(exporter, f"send {topic}")
    assert sent.kind is SpanKind.PRODUCER
    assert sent.parent is not None
    assert sent.parent.span_id == checkout.get_span_context().span_id
    assert sent.status.status_code is StatusCode.UNSET
    assert dict(sent.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.kafka.message.key": "k",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 0,
        "deployment": "test",
    }
    with assigned(
        client, topic, interceptors=[ConsumerTracing(tracer_provider=provider)]
    ) as consumer:
        message = consumer.poll(WAIT_S)
        assert message is not None
        headers = message.headers()
        assert headers is not None
        assert headers[0] == ("own", b"1")
        assert [name for name, _ in headers] == ["own", "traceparent"]
        with pytest.raises(ValueError, match="no good"):
            fail_in(message, provider)
    [polled] = named(exporter, f"poll {topic}")
    assert [link.context.span_id for link in polled.links] == [sent.get_span_context().span_id]
    assert (polled.attributes or {})["messaging.kafka.offset"] == 0
    [processed] = named(exporter, f"process {topic}")
    assert processed.parent is not None
    assert processed.parent.span_id == sent.get_span_context().span_id
    assert processed.get_span_context().trace_id == checkout.get_span_context().trace_id
    assert processed.status.status_code is StatusCode.ERROR


def test_failed_messages_have_an_error_in_their_span(
    client: Client, topic: str, spans: Any
) -> None:
    provider, exporter = spans
    tracing = ProducerTracing(tracer_provider=provider)
    conf = {"message.timeout.ms": 1, "linger.ms": 0, "message.max.bytes": 2000}
    with client.producer(interceptors=[tracing], **conf) as producer:
        with pytest.raises(KafkaException):
            producer.produce(topic, b"x" * 3000)
        [refused] = named(exporter, f"send {topic}")
        assert (refused.attributes or {})["error.type"] == "MSG_SIZE_TOO_LARGE"
        assert refused.status.status_code is StatusCode.ERROR
        with pytest.raises(TypeError):
            producer.produce(topic, 5)
        producer.produce("no-such-topic-" + topic, b"x")
        producer.purge()
        assert producer.flush(WAIT_S) == 0
    [purged] = named(exporter, f"send no-such-topic-{topic}")
    possible = ("_PURGE_QUEUE", "_PURGE_INFLIGHT", "_MSG_TIMED_OUT")
    assert (purged.attributes or {})["error.type"] in possible
    assert tracing._open == {}


def test_produce_many_makes_a_span_a_message_and_consume_links_them(
    client: Client, topic: str, spans: Any
) -> None:
    provider, exporter = spans
    with client.producer(interceptors=[ProducerTracing(tracer_provider=provider)]) as producer:
        assert producer.produce_many(topic, [b"1", b"2", b"3"]) == 3
        assert producer.flush(WAIT_S) == 0
    sent = named(exporter, f"send {topic}")
    assert len({span.get_span_context().span_id for span in sent}) == 3
    with assigned(
        client, topic, interceptors=[ConsumerTracing(tracer_provider=provider)]
    ) as consumer:
        assert len(consumer.consume(3, WAIT_S)) == 3
    polled = named(exporter, f"poll {topic}")
    linked = [link.context.span_id for span in polled for link in span.links]
    assert sorted(linked) == sorted(span.get_span_context().span_id for span in sent)


def test_unsampled_spans_keep_nothing_and_still_carry_their_context(client: Client) -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF)
    topic = client.topic(1)
    tracing = ProducerTracing(tracer_provider=provider)
    with client.producer(interceptors=[tracing]) as producer:
        producer.produce(topic, b"x", partition=0)
        assert tracing._open == {}
        assert producer.flush(WAIT_S) == 0
    with assigned(client, topic) as consumer:
        message = consumer.poll(WAIT_S)
        assert message is not None
        [(name, value)] = message.headers() or []
        assert name == "traceparent"
        assert int(bytes(value or b"")[-2:], 16) & 1 == 0  # the sampled flag


def test_a_message_without_context_has_no_link(client: Client, topic: str, spans: Any) -> None:
    provider, exporter = spans
    fill(client, topic, 1, partition=0)
    with assigned(
        client, topic, interceptors=[ConsumerTracing(tracer_provider=provider)]
    ) as consumer:
        message = consumer.poll(WAIT_S)
        assert message is not None
        with process(message, tracer_provider=provider):
            pass
    [polled] = named(exporter, f"poll {topic}")
    assert list(polled.links) == []
    [processed] = named(exporter, f"process {topic}")
    assert processed.parent is None


# --- OpenTelemetry's metrics ---


def test_observed_clients_are_collected(client: Client, topic: str) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])

    def collected() -> dict[str, list[Any]]:
        data = reader.get_metrics_data()
        scopes = (
            []
            if data is None
            else [scope for each in data.resource_metrics for scope in each.scope_metrics]
        )
        return {
            metric.name: [metric, *metric.data.data_points]
            for scope in scopes
            for metric in scope.metrics
        }

    with client.producer(**{"statistics.interval.ms": 3_600_000}) as producer:
        observe(producer, meter_provider=provider, max_age_s=0.5)
        for _ in range(4):
            producer.produce(topic, b"12345", partition=0)
        assert producer.flush(WAIT_S) == 0
        found = collected()
        metric, *points = found["kafka_native.client_txmsgs"]
        assert metric.unit == "{message}"
        assert [(point.value, point.attributes["client"]) for point in points] == [
            (4, producer._client.name)
        ]
        batches = found["kafka_native.topic_batchcnt"][1:]
        assert {point.attributes["stat"] for point in batches} >= {"p50", "p99"}
        assert found["kafka_native.broker_rtt_seconds"][0].unit == "s"
        wait_for(
            lambda: "kafka_native.topic_batchcnt" not in collected(),
            "the next snapshot: its window is empty",
        )
    provider.shutdown()
