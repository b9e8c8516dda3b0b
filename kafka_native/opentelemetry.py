"""Spans and metrics for OpenTelemetry: tracing interceptors, and observable metrics.

The interceptors carry the trace context in the headers of messages.

    producer = Producer({..., "interceptors": [ProducerTracing()]})
    consumer = Consumer({..., "interceptors": [ConsumerTracing()]})
    observe(producer, consumer)

    for message in consumer:
        with process(message):  # a span in the trace of the message's sender
            ...

The module needs opentelemetry-api: ``pip install 'kafka-native[opentelemetry]'``. The OpenTelemetry
SDK exports the spans and metrics. docs/guide/monitoring.md is the guide.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

try:
    from opentelemetry import metrics as otel_metrics
    from opentelemetry import propagate, trace
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
    from opentelemetry.propagators.textmap import Getter, TextMapPropagator
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider
except ImportError as _missing:
    raise ImportError(
        "kafka_native.opentelemetry needs opentelemetry-api: pip install "
        f"'kafka-native[opentelemetry]' ({_missing})"
    ) from None

from kafka_native._native.engine import fork_count
from kafka_native._native.message import Message
from kafka_native.client_core import Observed
from kafka_native.errors import KafkaError
from kafka_native.interceptors import ConsumerInterceptor, ProducerInterceptor, ProducerRecord
from kafka_native.measurements import (
    COUNTER,
    SPECS,
    STREAM_SPECS,
    Measured,
    Measurement,
    Spec,
    measurements,
)
from kafka_native.types import version

__all__ = ["ConsumerTracing", "ProducerTracing", "observe", "observe_streams", "process"]

SCOPE = "kafka_native"
LINKS_MAX = 128
"""The SDK's default limit of links per span."""

Attributes = Mapping[str, str | int | bool | float]
Pairs: TypeAlias = list[tuple[str, object]]
"""Headers as names and values."""


class _Headers(Getter[Pairs]):
    """Reads a message's headers for a propagator."""

    def get(self, carrier: Pairs, key: str) -> list[str] | None:
        found = [
            value for name, value in carrier if name.lower() == key.lower() and value is not None
        ]
        return [
            value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
            for value in found
        ] or None

    def keys(self, carrier: Pairs) -> list[str]:
        return [name for name, _ in carrier]


_HEADERS = _Headers()


def _pairs(headers: Any) -> Pairs:
    """Return headers as pairs. The argument is a mapping, pairs or None."""
    if not headers:
        return []
    return (
        list(headers.items())
        if isinstance(headers, Mapping)
        else [(name, value) for name, value in headers]
    )


def _attributes_of(
    topic: str | None, operation: str, kind: str, extra: Attributes
) -> dict[str, Any]:
    attributes: dict[str, Any] = {"messaging.system": "kafka"}
    attributes |= {"messaging.operation.name": operation, "messaging.operation.type": kind}
    if topic is not None:
        attributes["messaging.destination.name"] = topic
    return {**attributes, **extra}


class ProducerTracing(ProducerInterceptor):
    """Creates a span for each message, from produce() to its delivery report.

    The span's parent is the span that is current when you call produce(). The message's headers
    carry the span's context. If the message couldn't be delivered, the span has the error. Several
    producers may share one object.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        propagator: TextMapPropagator | None = None,
        attributes: Attributes | None = None,
    ) -> None:
        """Use the global provider and propagator unless you pass others.

        :param attributes: Attributes of every span.
        """
        self._tracer = trace.get_tracer(SCOPE, version(), tracer_provider=tracer_provider)
        self._propagator = propagator or propagate.get_global_textmap()
        self._attributes = dict(attributes or {})
        self._open: dict[int, Span] = {}  # By span id. Threads add and remove single items

    def on_send(self, record: ProducerRecord) -> ProducerRecord | None:
        """Start the span and write its context to the headers.

        It replaces a context in the headers.
        """
        attributes = _attributes_of(record.topic, "send", "send", self._attributes)
        if isinstance(record.key, str):
            attributes["messaging.kafka.message.key"] = record.key
        if record.value is None:
            attributes["messaging.kafka.message.tombstone"] = True
        span = self._tracer.start_span(
            f"send {record.topic}", kind=SpanKind.PRODUCER, attributes=attributes
        )
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, trace.set_span_in_context(span))
        kept = [(name, value) for name, value in _pairs(record.headers) if name not in carrier]
        record.headers = [*kept, *carrier.items()]
        if span.is_recording() and self._span_id(record.headers) == span.get_span_context().span_id:
            self._open[span.get_span_context().span_id] = span
        else:
            span.end()  # The delivery report couldn't find this span
        return record

    def _span_id(self, headers: Any) -> int:
        context = self._propagator.extract(_pairs(headers), getter=_HEADERS)
        return trace.get_current_span(context).get_span_context().span_id

    def on_acknowledgement(self, error: KafkaError | None, message: Message) -> None:
        """End the span of the message."""
        span = self._open.pop(self._span_id(message.headers()), None)
        if span is None:
            return
        if error is not None:
            span.set_attribute("error.type", error.name())
            span.set_status(Status(StatusCode.ERROR, error.str()))
        partition, offset = message.partition(), message.offset()
        if partition is not None and partition >= 0:
            span.set_attribute("messaging.destination.partition.id", str(partition))
        if error is None and offset is not None and offset >= 0:
            span.set_attribute("messaging.kafka.offset", offset)
        span.end()


class ConsumerTracing(ConsumerInterceptor):
    """Creates a span for each poll(), consume() or iteration step that returns messages.

    The span has links to the spans of the senders. `process()` creates the spans for the processing
    of single messages.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        propagator: TextMapPropagator | None = None,
        attributes: Attributes | None = None,
    ) -> None:
        """The parameters are those of `ProducerTracing`.

        An example is ``attributes={"messaging.consumer.group.name": "billing"}``.
        """
        self._tracer = trace.get_tracer(SCOPE, version(), tracer_provider=tracer_provider)
        self._propagator = propagator
        self._attributes = dict(attributes or {})

    def on_consume(self, messages: list[Message]) -> None:
        """Create the span of the received messages."""
        topics = {message.topic() for message in messages}
        topic = topics.pop() if len(topics) == 1 else None
        attributes = _attributes_of(topic, "poll", "receive", self._attributes)
        if len(messages) > 1:
            attributes["messaging.batch.message_count"] = len(messages)
        else:
            attributes |= _offset_attributes(messages[0])
        contexts = (_sender_context(message, self._propagator) for message in messages[:LINKS_MAX])
        links = [Link(context) for context in contexts if context.is_valid]
        name = "poll" if topic is None else f"poll {topic}"
        self._tracer.start_span(
            name, kind=SpanKind.CONSUMER, attributes=attributes, links=links
        ).end()


def _offset_attributes(message: Message) -> dict[str, Any]:
    return {
        "messaging.destination.partition.id": str(message.partition()),
        "messaging.kafka.offset": message.offset(),
    }


def _sender_context(message: Message, propagator: TextMapPropagator | None) -> trace.SpanContext:
    """Return the span context of the message's sender. It is invalid if the message has none."""
    extract = propagate.extract if propagator is None else propagator.extract
    context = extract(_pairs(message.headers()), getter=_HEADERS)
    return trace.get_current_span(context).get_span_context()


@contextmanager
def process(
    message: Message,
    *,
    tracer_provider: TracerProvider | None = None,
    propagator: TextMapPropagator | None = None,
    attributes: Attributes | None = None,
) -> Iterator[Span]:
    """Create a span for the processing of a message, as a child of the sender's span.

    The span is current inside the ``with`` block. An exception inside the block is recorded in the
    span and propagates.
    """
    topic = message.topic()
    tracer = trace.get_tracer(SCOPE, version(), tracer_provider=tracer_provider)
    extract = propagate.extract if propagator is None else propagator.extract
    parent = extract(_pairs(message.headers()), getter=_HEADERS)
    merged = {
        **_attributes_of(topic, "process", "process", attributes or {}),
        **_offset_attributes(message),
    }
    with tracer.start_as_current_span(
        f"process {topic}", context=parent, kind=SpanKind.CONSUMER, attributes=merged
    ) as span:
        yield span


# --- metrics ---


class _Snapshot:
    """The clients' measurements, taken once for all instruments that are collected together."""

    def __init__(self, observed: Observed, partitions: bool, max_age_s: float) -> None:
        self._observed = observed
        self._partitions = partitions
        self._max_age_s = max_age_s
        self._taken_at = float("-inf")
        self._by_name: dict[str, list[Measurement]] = {}
        self._fork_count = fork_count()
        self._lock = threading.Lock()

    def of(self, name: str) -> Sequence[Measurement]:
        """Return the measurements with this name."""
        # A forked child: the thread that held the lock may not exist here
        if self._fork_count != fork_count():
            self._fork_count = fork_count()
            self._lock = threading.Lock()
        with self._lock:
            now = time.monotonic()
            if now - self._taken_at >= self._max_age_s:
                self._taken_at = now
                self._by_name = {}
                for metrics in self._observed.metrics():
                    for each in measurements(metrics, partitions=self._partitions):
                        self._by_name.setdefault(each.spec.name, []).append(each)
            return self._by_name.get(name, ())


def observe(
    *clients: object,
    meter_provider: MeterProvider | None = None,
    partitions: bool = True,
    max_age_s: float = 1.0,
) -> Callable[[object], None]:
    """Collect statistics of these clients as observable counters and gauges.

    Their names are ``kafka_native.<level>_<field>``. Names, windows and closed clients are as in
    `kafka_native.prometheus.ClientCollector`.

    :param clients: Producers, consumers and admin clients, including the asyncio ones.
    :param meter_provider: The default is the global one.
    :param partitions: False leaves out the metrics of single partitions.
    :param max_age_s: Seconds for which instruments share one snapshot. OpenTelemetry collects them
        one by one.
    :return: A function that adds one more client.
    """
    observed = Observed(clients)
    snapshot = _Snapshot(observed, partitions, max_age_s)
    meter = otel_metrics.get_meter(SCOPE, version(), meter_provider=meter_provider)
    _make_instruments(meter, SPECS.values(), snapshot.of)
    return observed.add


def observe_streams(listener: Measured, *, meter_provider: MeterProvider | None = None) -> None:
    """Collect the figures of a Spark session's streams as observable counters and gauges.

    Their names are ``kafka_native.stream_<figure>``. The attributes are the labels of
    `kafka_native.prometheus.StreamCollector`.

    :param listener: A `kafka_native.spark.ProgressListener`.
    :param meter_provider: The default is the global one.
    """
    meter = otel_metrics.get_meter(SCOPE, version(), meter_provider=meter_provider)

    def of(name: str) -> Iterable[Measurement]:
        return (each for each in listener.measurements() if each.spec.name == name)

    _make_instruments(meter, STREAM_SPECS.values(), of)


def _make_instruments(
    meter: Meter, specs: Iterable[Spec], of: Callable[[str], Iterable[Measurement]]
) -> None:
    """Make an instrument of each specification. ``of`` returns the measurements with a name."""
    for spec in specs:
        make = (
            meter.create_observable_counter
            if spec.kind == COUNTER
            else meter.create_observable_gauge
        )
        callback = partial(_observations, of, spec.name)
        make(f"{SCOPE}.{spec.name}", callbacks=[callback], unit=spec.unit, description=spec.text)


def _observations(
    of: Callable[[str], Iterable[Measurement]], name: str, options: CallbackOptions
) -> Iterable[Observation]:
    return [Observation(each.value, each.labels) for each in of(name)]
