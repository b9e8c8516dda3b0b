"""Packages for confluent_kafka run unmodified on kafka_native and a mock cluster.

The first ones are among the extras for tests. Each of the others has an environment of its own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kafka_native.mock import MockCluster
from tests.compat.programs import PROGRAMS, Program
from tests.compat.programs.environments import environment_or_skip
from tests.compat.programs.runs import on_both, use
from tests.compat.sides import installed
from tests.waiting import PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]

START = """
import sys
import kafka_native.compat
kafka_native.compat.install()
import confluent_kafka, kafka_native
servers, topic = sys.argv[1:]
PRODUCER_CONF, CONSUMER_CONF = {"bootstrap.servers": servers}, {
    "bootstrap.servers": servers, "group.id": f"group of {topic}", "auto.offset.reset": "earliest", "client.id": topic
}
"""

# OpenTelemetry wraps the classes or existing clients, and derives from them without initialising.
OPENTELEMETRY = """
from opentelemetry.instrumentation.confluent_kafka import ConfluentKafkaInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
instrumentor = ConfluentKafkaInstrumentor()

def talk(producer, consumer):
    reports = []
    producer.produce(topic, b"value", key=b"key", on_delivery=lambda *report: reports.append(report))
    producer.produce(topic, b"more")
    assert producer.flush(60) == 0 and reports[0][0] is None
    consumer.subscribe([topic])
    first = consumer.poll(60)
    (second,) = consumer.consume(1, 60)
    consumer.close()
    assert (first.value(), second.value()) == (b"value", b"more")
    assert [name for name, _ in first.headers()] == ["traceparent"]

instrumentor.instrument(tracer_provider=provider)
wrapped = confluent_kafka.Producer
original = confluent_kafka.cimpl.Producer
assert issubclass(wrapped, original) and wrapped is not original
talk(confluent_kafka.Producer(PRODUCER_CONF), confluent_kafka.Consumer(CONSUMER_CONF))
instrumentor.uninstrument()
assert confluent_kafka.Producer is original
names = [each.name for each in spans.get_finished_spans()]
assert (names.count(f"{topic} send"), names.count("recv")) == (2, 2), names

spans.clear()
topic += "-wrapped"
CONSUMER_CONF["group.id"] = f"group of {topic}"
producer = instrumentor.instrument_producer(confluent_kafka.Producer(PRODUCER_CONF), provider)
consumer = instrumentor.instrument_consumer(confluent_kafka.Consumer(CONSUMER_CONF), provider)
talk(producer, consumer)
assert len(producer) == 0
print(len(spans.get_finished_spans()), instrumentor.uninstrument_producer(producer).__class__.__module__)
"""

# This package derives from both clients, overrides methods by coroutines, and polls on a thread.
AIO_CONFLUENT_KAFKA = """
import asyncio
from aio_confluent_kafka import AIOConsumer, AIOProducer

async def main():
    reported = asyncio.Event()

    async def on_delivery(error, message):
        assert error is None and message.topic() == topic
        reported.set()

    producer, consumer = AIOProducer(PRODUCER_CONF), AIOConsumer(CONSUMER_CONF)
    await producer.produce(topic, key="key", value="value", on_delivery=on_delivery, headers={"a": "b"})
    assert await asyncio.to_thread(producer.flush, 60) == 0
    await asyncio.wait_for(reported.wait(), 60)
    consumer.subscribe([topic])
    message = await consumer.poll(60)
    consumer.close()
    print(message.key(), message.value(), message.headers(), isinstance(producer, kafka_native.Producer))

asyncio.run(main())
"""

KAFKA_HANDLER = """
from kafka_handler import Handler

handler = Handler(verbose=True)
producer = handler.Producer(PRODUCER_CONF)
for number in range(3):
    assert handler.produce(producer, topic, f"message {number}")
assert handler.flush(producer)
consumer = handler.Consumer(CONSUMER_CONF)
assert handler.subscribe(consumer, [topic])
seen = []

def received(text):
    seen.append(text)
    if len(seen) == 3:
        consumer.close()
        print(seen)
        sys.exit(0)

handler.consume(consumer, received)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1) as running:
        yield running


@pytest.mark.parametrize(
    ("package", "program", "output"),
    [
        ("opentelemetry.instrumentation.confluent_kafka", OPENTELEMETRY, "6 confluent_kafka.cimpl"),
        ("aio_confluent_kafka", AIO_CONFLUENT_KAFKA, "b'key' b'value' [('a', b'b')] True"),
        ("kafka_handler", KAFKA_HANDLER, "['message 0', 'message 1', 'message 2']"),
    ],
    ids=["opentelemetry-instrumentation-confluent-kafka", "aio-confluent-kafka", "kafka-handler"],
)
def test_a_package_for_confluent_kafka_runs_unmodified(
    cluster: MockCluster, package: str, program: str, output: str
) -> None:
    if not installed(package):
        pytest.skip(f"{package} isn't installed; it is among the extras for tests")
    topic = package.replace(".", "-")
    for name in (topic, f"{topic}-wrapped"):
        cluster.create_topic(name, 1)
    command = [sys.executable, "-c", START + program, cluster.bootstrap_servers, topic]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=PROGRAM_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip().splitlines()[-1] == output


def test_the_guide_names_the_versions() -> None:
    guide = (ROOT / "docs/guide/from-confluent-kafka.md").read_text(encoding="utf-8")
    for each in PROGRAMS:
        assert f"| {each.name} | {each.version} |" in guide


@pytest.mark.slow
@pytest.mark.parametrize(
    "program", [each for each in PROGRAMS if each.use], ids=lambda each: each.name
)
def test_a_program_does_the_same_on_both_libraries(program: Program) -> None:
    folder = environment_or_skip(program)
    theirs, ours = on_both(partial(use, program, folder))
    assert "exit" not in theirs.output, f"with confluent_kafka:\n{theirs.output}{theirs.log}"
    assert ours.output == theirs.output, ours.log
