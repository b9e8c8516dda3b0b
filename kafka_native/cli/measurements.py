"""``kafka-native perf produce``, ``consume`` and ``latency``: measurements on an existing topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import click

from kafka_native import Consumer
from kafka_native.cli import perf
from kafka_native.cli.connection import Command, Connection, connected
from kafka_native.cli.errors import Failed
from kafka_native.cli.offset_bounds import BEGINNING
from kafka_native.cli.reader import Reader
from kafka_native.cli.texts import count
from kafka_native.terminal.charts import require_plot
from kafka_native.terminal.output import Output, json_option

T = TypeVar("T")

BAR = 40
"""Width of a histogram's longest bar, in characters."""
SHARES = (0.5, 0.9, 0.99, 0.999)


def number_option(
    name: str, default: int, text: str | None = None, *, minimum: int = 1
) -> Callable[[Command], Command]:
    """Make an option for a number. Its help shows the default and the minimum."""
    return click.option(
        name, default=default, show_default=True, type=click.IntRange(minimum), help=text
    )


_topic = click.option(
    "-t", "--topic", required=True, metavar="TOPIC", help="Your topic; it keeps the messages sent."
)
size_option = number_option("--size", 100, "Bytes of a value.", minimum=perf.MESSAGE_MIN_BYTES)


def _messages(default: int) -> Callable[[Command], Command]:
    return number_option("--messages", default, "The number of messages.")


@click.command("produce")
@_topic
@_messages(1_000_000)
@size_option
@connected()
@json_option
def produce(connection: Connection, output: Output, topic: str, messages: int, size: int) -> None:
    """Send messages to TOPIC as fast as possible, until the last acknowledgement."""
    values = perf.payloads(messages, size)
    _show(
        output,
        _measured(
            lambda: perf.produce_all(
                connection.config("producer"), topic, values, lambda _count: None
            )
        ),
    )


@click.command("consume")
@click.option(
    "-t",
    "--topic",
    required=True,
    metavar="TOPIC",
    help="Your topic, read from its beginning.",
)
@_messages(1_000_000)
@connected()
@json_option
def consume(connection: Connection, output: Output, topic: str, messages: int) -> None:
    """Read messages of TOPIC. The clock starts at the first message."""
    own = {
        "enable.auto.offset.store": False,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    with Consumer(connection.config("consumer", own)) as consumer:
        reader = Reader(
            consumer, exits=True, keeps_going=False, stores=False, timeout_s=connection.timeout_s
        )
        reader.assign(topic, (), BEGINNING, None)
        batches = reader.batches(messages)
        taken = size = 0
        watch = None
        for batch in batches:
            watch = watch or perf.Stopwatch()
            values = [message.value() for message in batch]
            taken += len(values)
            size += sum(map(len, filter(None, values)))
        if watch is None:
            raise Failed(f"topic {topic} has no messages")
        _show(output, watch.rate(taken, size))


@click.command("latency")
@_topic
@_messages(2000)
@size_option
@click.option(
    "--chart",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.png",
    help="Draw the histogram, too.",
)
@connected()
@json_option
def latency(
    connection: Connection, output: Output, topic: str, messages: int, size: int, chart: Path | None
) -> None:
    """Send one message at a time to TOPIC, and show a histogram of the times to acknowledgement."""
    if chart is not None:
        require_plot()
    [value] = perf.payloads(1, size)
    taken = sorted(
        _measured(lambda: perf.round_trips(connection.config("producer"), topic, value, messages))
    )
    found = {f"p{share * 100:g}": perf.percentile(taken, share) for share in SHARES}
    figures = {"messages": messages, "size": size, "min": taken[0], **found, "max": taken[-1]}
    buckets = histogram(taken)
    if output.as_json:
        output.document(
            {
                **figures,
                "histogram": [{"from": low, "to": high, "count": n} for low, high, n in buckets],
            }
        )
    else:
        longest = max(number for _, _, number in buckets)
        for low, high, number in buckets:
            bar = "#" * -(-number * BAR // longest)
            output.say(f"{low:9.3f} to {high:9.3f} ms {number:8,} {bar}".rstrip())
        output.say("  ".join(f"{name} {figures[name]:.3f} ms" for name in ("min", *found, "max")))
    if chart is not None:
        from kafka_native.cli.chart import latencies

        latencies(buckets, f"{count(messages, 'message')} of {size} bytes, one at a time", chart)


def histogram(ordered: Sequence[float]) -> list[tuple[float, float, int]]:
    """Count sorted milliseconds in buckets (from, to, count).

    Borders double every four buckets. The first and the last bucket aren't empty.
    """
    step = 2**0.25
    low = max(ordered[0], 1e-3)
    buckets: list[tuple[float, float, int]] = []
    at = 0
    while at < len(ordered):
        high = low * step
        end = next(
            (index for index in range(at, len(ordered)) if ordered[index] >= high), len(ordered)
        )
        buckets.append((low, high, end - at))
        at, low = end, high
    return buckets


def _measured(measure: Callable[[], T]) -> T:
    try:
        return measure()
    except perf.CheckFailed as error:
        raise Failed(str(error)) from error


def _show(output: Output, rate: perf.Rate) -> None:
    if output.as_json:
        output.document(
            {
                **asdict(rate),
                "messages_per_second": rate.per_second,
                "mib_per_second": rate.mib_per_second,
            }
        )
        return
    output.say(
        f"{count(rate.messages, 'message')} in {rate.seconds:.2f} s: "
        f"{rate.per_second:,.0f} messages/s, "
        f"{rate.mib_per_second:,.1f} MiB/s, {rate.cpu_us:.3f} us of CPU a message"
    )
