"""OpenTelemetry: one trace from the request that sends a message to its processing.

Needs `pip install 'kafka-native[opentelemetry]' opentelemetry-sdk`.
"""

from __future__ import annotations

import os

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kafka_native import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka_native.opentelemetry import ConsumerTracing, ProducerTracing, process

servers = os.environ.get("BOOTSTRAP", "localhost:9092")

exporter = InMemorySpanExporter()  # your exporter would send the spans
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("shop")

with Producer({"bootstrap.servers": servers, "interceptors": [ProducerTracing()]}) as producer:
    with tracer.start_as_current_span("checkout"):
        producer.produce("traced", "an order", partition=0)
    producer.flush()

with Consumer({"bootstrap.servers": servers, "interceptors": [ConsumerTracing()]}) as consumer:
    consumer.assign([TopicPartition("traced", 0, OFFSET_BEGINNING)])
    message = consumer.poll(10)
    with process(message):
        print("working on", message.value(), [name for name, _ in message.headers()])

spans = {span.name: span for span in exporter.get_finished_spans()}
print(sorted(spans))
same = {spans[name].context.trace_id for name in ("checkout", "send traced", "process traced")}
print("one trace:", len(same) == 1, "links of the poll:", len(spans["poll traced"].links))
