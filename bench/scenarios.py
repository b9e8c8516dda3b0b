"""What the page of measured comparisons shows: scenarios, charts and clients, as data."""

from __future__ import annotations

from dataclasses import dataclass

from bench.adapters import Figures
from bench.report import figure
from bench.variants import BATCHES, CODECS, PARTITIONS, SIZES

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
    """A column: a figure of `Figures` by the name that goals use, and how to show it.

    ``charted``: whether bars of it are drawn.
    """

    figure: str
    title: str
    digits: int = 2
    scale: float = 1.0
    high_is_good: bool = False
    charted: bool = True

    def of(self, figures: Figures) -> float:
        return figure(self.figure, figures) * self.scale

    @property
    def form(self) -> str:
        """How Python formats it."""
        return f",.{self.digits}f"


CPU = Measure("CPU", "CPU us/message", 3)
BROKER = Measure("broker CPU", "broker CPU us/message", 3, charted=False)
WIRE = Measure("wire bytes", "bytes on the wire/message", 0, charted=False)
PEAK = Measure("peak MiB", "MiB at the peak", 0, charted=False)
RATE = Measure("rate", "M messages/s", 2, 1e-6, high_is_good=True)
SLOW_RATE = Measure("rate", "messages/s", 0, high_is_good=True, charted=False)
USUAL = (CPU, BROKER, RATE)
FULL = (*USUAL, WIRE, PEAK)
LATENCY = (
    Measure("p50", "ms at p50", 3),
    Measure("p99", "ms at p99", 3),
    Measure("p99.9", "ms at p99.9", 2),
    Measure("CPU", "CPU us/message", 1),
)
STEADY = (*LATENCY, SLOW_RATE)
SIZED = (CPU, BROKER, SLOW_RATE)
MEMORY = (Measure("grown MiB", "MiB of growth", 1), *USUAL)
COLD = (Measure("first ms", "ms to the first message"),)
CALL = (Measure("ns a call", "ns a call", 0),)
SHORT = (
    Measure("seconds", "seconds", 3),
    Measure("CPU", "CPU us/message", 3, charted=False),
    PEAK,
)
IMPORTS = (
    Measure("import CPU ms", "CPU ms to import", 1),
    Measure("installed MiB", "MiB installed", 1),
)


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    measures: tuple[Measure, ...] = USUAL


@dataclass(frozen=True)
class Curve:
    """A chart of lines: a figure of each client over the numbers of several scenarios."""

    title: str
    axis: str
    points: dict[float, str]
    measure: Measure = RATE
    times_axis: bool = False
    """Whether the figure is multiplied by the number on the axis: messages become bytes."""


@dataclass(frozen=True)
class Group:
    """A section of the page: a chart of some scenarios, and a table for each scenario."""

    name: str
    title: str
    scenarios: tuple[Scenario, ...]
    charted: tuple[str, ...] = ()
    measures: int = 2
    """How many of a scenario's measures the chart shows."""
    curves: tuple[Curve, ...] = ()


MB_RATE = Measure("rate", "MB/s", 0, 1e-6, high_is_good=True)


def _sizes(base: str) -> dict[float, str]:
    return {size: base if size == 100 else f"{base}_{size}" for size in SIZES}


def _numbered(
    name: str, title: str, numbers: tuple[int, ...], measures: tuple[Measure, ...] = USUAL
) -> tuple[Scenario, ...]:
    """Make a scenario for each number. Both texts have `{}` where the number is."""
    return tuple(
        Scenario(name.format(number), title.format(f"{number:,}"), measures) for number in numbers
    )


def _compressed(base: str, title: str) -> tuple[Scenario, ...]:
    measures = (*USUAL, WIRE)
    return tuple(
        Scenario(f"{base}_{codec}", f"{title}, {codec}, JSON events", measures) for codec in CODECS
    )


REPORT = "From `produce()` to the delivery report"
CONSUMED = "From `produce()` to the consumed message"
OTHER_SIZES = tuple(size for size in SIZES if size != 100)


GROUPS = (
    Group(
        "produce",
        "Produce",
        (
            Scenario("produce", "`produce()` in a loop until all messages are acknowledged", FULL),
            Scenario("callback", "`produce()` with a delivery callback for each message"),
            Scenario("many", "`produce_many()` in a loop"),
            Scenario("produce_arrow", "`produce_arrow()` in a loop"),
            Scenario("call", "One `produce()` call", CALL),
        ),
        ("produce", "callback"),
    ),
    Group(
        "settings",
        "Acknowledgements, threads and batches",
        (
            Scenario("acks_0", "`produce()` with acks=0"),
            Scenario("acks_all", "`produce()` with acks=all"),
            Scenario("idempotent", "`produce()` with enable.idempotence"),
            Scenario("threads_4", "`produce()` in four threads"),
            *_numbered("batch_{}", "`produce()`, at most {} messages a batch", BATCHES),
        ),
        ("acks_0", "acks_all", "idempotent"),
    ),
    Group(
        "sizes",
        "Message sizes",
        (
            *_numbered("produce_{}", "`produce()`, {} bytes", OTHER_SIZES, SIZED),
            *_numbered("consume_{}", "`consume(10000)`, {} bytes", OTHER_SIZES, SIZED),
        ),
        curves=(
            Curve("produce()", "bytes of a message", _sizes("produce"), MB_RATE, times_axis=True),
            Curve("consume()", "bytes of a message", _sizes("consume"), MB_RATE, times_axis=True),
        ),
    ),
    Group(
        "compression",
        "Compression",
        (
            *_compressed("produce", "`produce()`"),
            *_compressed("consume", "`consume(10000)`"),
        ),
        ("produce_lz4", "consume_lz4"),
    ),
    Group(
        "consume",
        "Consume",
        (
            Scenario("consume", "`consume(10000)` and each `value()`", FULL),
            Scenario("group", "`consume(10000)` as a member of a group"),
            Scenario("poll", "`poll()`, one message a call"),
            Scenario("group_poll", "`poll()` as a member of a group"),
            Scenario("iterate", "`for message in consumer`"),
            Scenario("group_iterate", "`for message in consumer` as a member of a group"),
            Scenario("arrow", "Into Arrow columns"),
            Scenario("group_arrow", "Into Arrow columns as a member of a group"),
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
            Scenario("latency", f"{REPORT}, one message at a time", LATENCY),
            Scenario("round_trip_1", f"{REPORT}, one message a second", STEADY),
            Scenario("round_trip", f"{REPORT}, 1,000 messages a second", STEADY),
            Scenario("round_trip_100k", f"{REPORT}, 100,000 messages a second", STEADY),
            Scenario("end_to_end_1", f"{CONSUMED}, one message a second", STEADY),
            Scenario("end_to_end", f"{CONSUMED}, 1,000 messages a second", STEADY),
            Scenario("end_to_end_100k", f"{CONSUMED}, 100,000 messages a second", STEADY),
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
        "short",
        "Short runs, from the start of the process",
        (
            Scenario("short_produce_100k", "100,000 messages produced", SHORT),
            Scenario("short_produce_1m", "1,000,000 messages produced", SHORT),
            Scenario("short_consume_100k", "100,000 messages consumed", SHORT),
            Scenario("short_consume_1m", "1,000,000 messages consumed", SHORT),
        ),
        ("short_produce_100k", "short_produce_1m", "short_consume_100k", "short_consume_1m"),
    ),
    Group(
        "imports",
        "Import",
        (
            Scenario(
                "imports", "Importing the classes, and the size of the installed files", IMPORTS
            ),
        ),
        ("imports",),
    ),
    Group(
        "many_partitions",
        "Many topics and partitions",
        (
            *_numbered("produce_p{}", "`produce()`, partitions: {}", PARTITIONS),
            *_numbered("consume_p{}", "`consume(10000)`, partitions: {}", PARTITIONS[:-1]),
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
        curves=(
            Curve("produce()", "partitions", {each: f"produce_p{each}" for each in PARTITIONS}),
            Curve("consume()", "partitions", {each: f"consume_p{each}" for each in PARTITIONS}),
        ),
    ),
    Group(
        "introduction",
        "The tests of librdkafka's introduction",
        (
            Scenario("intro_1", "Test 1: 2 brokers, 2 partitions, acks=all"),
            Scenario("intro_2", "Test 2: 1 broker, 1 partition, acks=0"),
            Scenario("intro_3", "Test 3: as test 1, with snappy"),
            Scenario("intro_4", "Test 4: as test 1, with gzip"),
        ),
    ),
)

PUBLISHED = {"intro_1": 850_000, "intro_2": 710_000, "intro_3": 300_000, "intro_4": 230_000}
"""Messages a second that librdkafka's introduction reports for the same tests."""
HEADLINE = ("produce", "consume", "aio_produce")
"""The scenarios of the chart in the README, as CPU per message of two clients."""
HEADLINE_TITLES = {"produce": "produce()", "consume": "consume()", "aio_produce": "asyncio produce"}
