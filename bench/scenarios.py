"""What the page of measured comparisons shows: scenarios, charts and clients, as data."""

from __future__ import annotations

from dataclasses import dataclass

from bench.adapters import Figures
from bench.report import figure

OURS = "kafka_native"
LIMITS = ("raw", "plaintext")
"""Rows that are no other client."""

NAMES = {
    OURS: "kafka_native",
    "confluent_kafka": "confluent_kafka",
    "aiokafka": "aiokafka",
    "kafka_python": "kafka-python",
    "kafkarrow": "kafkarrow",
    "librdkafka": "librdkafka (C)",
    "java": "Kafka's client (Java)",
    "franz_go": "franz-go (Go)",
    "krafka": "krafka (Rust)",
    "rdkafka": "rdkafka (Rust)",
    "raw": "raw socket (limit)",
    "plaintext": "kafka_native without TLS",
}


@dataclass(frozen=True)
class Measure:
    """A column: a figure of `Figures` by the name that goals use, and how to show it."""

    figure: str
    title: str
    digits: int = 2
    scale: float = 1.0
    high_is_good: bool = False

    def of(self, figures: Figures) -> float:
        return figure(self.figure, figures) * self.scale


CPU = Measure("CPU", "CPU us/message", 3)
RATE = Measure("rate", "M messages/s", 2, 1e-6, high_is_good=True)
USUAL = (CPU, RATE)
LATENCY = (
    Measure("p50", "ms at p50", 3),
    Measure("p99", "ms at p99", 3),
    Measure("p99.9", "ms at p99.9", 2),
    Measure("CPU", "CPU us/message", 1),
)
MEMORY = (Measure("grown MiB", "MiB of growth", 1), *USUAL)
COLD = (Measure("first ms", "ms to the first message"),)
CALL = (Measure("ns a call", "ns a call", 0),)


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    measures: tuple[Measure, ...] = USUAL


@dataclass(frozen=True)
class Group:
    """A section of the page: a chart of some scenarios, and a table for each scenario."""

    name: str
    title: str
    scenarios: tuple[Scenario, ...]
    charted: tuple[str, ...]
    measures: int = 2
    """How many of a scenario's measures the chart shows."""


GROUPS = (
    Group(
        "produce",
        "Produce",
        (
            Scenario("produce", "`produce()` in a loop until all messages are acknowledged"),
            Scenario("callback", "The same with a delivery callback for each message"),
            Scenario("many", "The same with `produce_many()`"),
            Scenario("produce_arrow", "The same with `produce_arrow()`"),
            Scenario("call", "One `produce()` call", CALL),
        ),
        ("produce", "callback"),
    ),
    Group(
        "consume",
        "Consume",
        (
            Scenario("consume", "`consume(10000)` and each `value()`"),
            Scenario("group", "The same as a member of a group"),
            Scenario("poll", "`poll()`, one message a call"),
            Scenario("iterate", "`for message in consumer`"),
            Scenario("arrow", "Into Arrow columns"),
            Scenario("copy", "A topic copied in transactions"),
        ),
        ("consume", "poll"),
    ),
    Group(
        "asyncio",
        "asyncio",
        (
            Scenario("aio_produce", "`await produce()`, 10,000 messages in flight"),
            Scenario("aio_poll", "`await poll()`, one message a call"),
        ),
        ("aio_produce", "aio_poll"),
    ),
    Group(
        "latency",
        "Latency",
        (
            Scenario("latency", "From `produce()` to the delivery report", LATENCY),
            Scenario("end_to_end", "From `produce()` to the consumed message", LATENCY),
            Scenario(
                "transaction",
                "A transaction of one message",
                (*LATENCY, Measure("empty p50 ms", "ms at p50 of an empty one", 3)),
            ),
        ),
        ("latency", "end_to_end"),
    ),
    Group(
        "tls",
        "TLS 1.3",
        (
            Scenario("tls_produce", "`produce()` over TLS"),
            Scenario("tls_consume", "`consume(10000)` over TLS"),
        ),
        ("tls_produce", "tls_consume"),
    ),
    Group(
        "start",
        "Memory and cold start",
        (
            Scenario("memory", "Memory growth of a consumer at full speed", MEMORY),
            Scenario("cold", "From `Consumer()` to a new group's first message", COLD),
        ),
        ("memory", "cold"),
        1,
    ),
    Group(
        "many_partitions",
        "Many topics and partitions",
        (
            Scenario(
                "spread",
                "`produce()` to many topics",
                (*USUAL, Measure("CPU / one partition's", "CPU / one partition's")),
            ),
            Scenario(
                "wide",
                "A topic of many partitions, consumed",
                (
                    *USUAL,
                    Measure("CPU / one partition's", "CPU / one partition's"),
                    Measure("idle CPU %", "idle CPU %"),
                ),
            ),
        ),
        ("spread", "wide"),
        1,
    ),
)

HEADLINE = ("produce", "consume", "aio_produce")
"""The scenarios of the chart in the README, as CPU per message of two clients."""
HEADLINE_TITLES = {"produce": "produce()", "consume": "consume()", "aio_produce": "asyncio produce"}
