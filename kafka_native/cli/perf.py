"""``kafka-native perf``: the job behind ``make demo``."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kafka_native import KafkaException, Producer
from kafka_native.cli import job
from kafka_native.cli.mock import mock_cluster
from kafka_native.cli.report import chart, table
from kafka_native.cli.topics import create_topic, delete_topic

CODECS = ("none", "snappy", "lz4", "zstd", "gzip")


@contextmanager
def cluster(bootstrap: str | None, console: Console) -> Iterator[str]:
    """The cluster to measure: the one that was named, or a mock cluster of our own."""
    if bootstrap:
        console.print(f"Using the cluster at {bootstrap}")
        yield bootstrap
    else:
        with mock_cluster() as servers:
            console.print(f"Started the mock cluster at {servers}")
            yield servers


def properties(_context: click.Context, _parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    """``-X name=value`` as a dict."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{pair!r} is not property=value")
        found[name] = value
    return found


def one_of_codecs(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, ...]:
    """``none,lz4`` as a tuple."""
    codecs = tuple(filter(None, text.split(",")))
    unknown = [codec for codec in codecs if codec not in CODECS]
    if unknown or not codecs:
        raise click.BadParameter(f"{text!r}: choose from {','.join(CODECS)}")
    return codecs


@click.command()
@click.option("--bootstrap", envvar="BOOTSTRAP", help="Measure this cluster (default: a mock cluster of our own).")
@click.option("--messages", default=1_000_000, show_default=True, type=click.IntRange(1), help="Messages a codec.")
@click.option("--size", default=100, show_default=True, type=click.IntRange(job.SMALLEST), help="Bytes of a value.")
@click.option("--partitions", default=4, show_default=True, type=click.IntRange(1))
@click.option("--codecs", default=",".join(CODECS), show_default=True, callback=one_of_codecs, help="Which, in order.")
@click.option("--acks", default="1", show_default=True, type=click.Choice(["0", "1", "all"]))
@click.option("--latency-messages", default=2000, show_default=True, type=click.IntRange(1), help="Round trips timed.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), help="Folder for the chart and the JSON.")
@click.option("-X", "extra", multiple=True, callback=properties, metavar="PROPERTY=VALUE", help="Client configuration.")
def perf(
    bootstrap: str | None,
    messages: int,
    size: int,
    partitions: int,
    codecs: tuple[str, ...],
    acks: str,
    latency_messages: int,
    output: Path | None,
    extra: dict[str, str],
) -> None:
    """Send messages out and back with each codec, check every one of them, print the rates.

    Produced with produce() in a loop, consumed with consume(10000) and value(). Ends with status 1 when a message is
    missing, out of order or changed.
    """
    console = Console()
    values = job.payloads(messages, size)
    try:
        with cluster(bootstrap, console) as servers:
            conf = {"bootstrap.servers": servers, "acks": acks, **extra}
            outcomes = run(conf, values, partitions, codecs, latency_messages, console)
    except (job.CheckFailed, KafkaException) as error:
        raise click.ClickException(str(error)) from error
    console.print(table(outcomes, messages, size, partitions))
    console.print("Every message came back, once, in order and unchanged.")
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        described = {"messages": messages, "size": size, "partitions": partitions, "acks": acks, "cpus": os.cpu_count()}
        results = [dataclasses.asdict(outcome) for outcome in outcomes]
        (output / "perf.json").write_text(json.dumps({**described, "results": results}, indent=2) + "\n")
        chart(outcomes, f"{messages:,} messages of {size} bytes, {partitions} partitions", output / "perf.png")
        console.print(f"Chart: {output / 'perf.png'}   Figures: {output / 'perf.json'}")


def run(
    conf: dict[str, Any],
    values: list[bytes],
    partitions: int,
    codecs: tuple[str, ...],
    round_trips: int,
    console: Console,
) -> list[job.Outcome]:
    """One round a codec: make the topic, produce, consume, check, measure latency, delete the topic."""
    outcomes = []
    columns = (TextColumn("{task.description:>16}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        Progress(*columns, console=console) as bars,
        Producer({"bootstrap.servers": conf["bootstrap.servers"]}) as admin,
    ):
        for codec, topic in job.names(codecs):
            create_topic(admin, topic, partitions)
            try:
                outcomes.append(
                    one_round({**conf, "compression.codec": codec}, topic, values, partitions, round_trips, bars)
                )
            finally:
                with suppress(KafkaException):  # the run's own error, if there is one, is the one to show
                    delete_topic(admin, topic)
    return outcomes


def one_round(
    conf: dict[str, Any], topic: str, values: list[bytes], partitions: int, round_trips: int, bars: Progress
) -> job.Outcome:
    """One codec."""
    codec = conf["compression.codec"]
    consumer_conf = {name: value for name, value in conf.items() if name not in ("acks", "compression.codec")}
    out = bars.add_task(f"{codec} produce", total=len(values))
    produced = job.produce_all(conf, topic, values, lambda count: bars.advance(out, count))
    back = bars.add_task(f"{codec} consume", total=len(values))
    consumed, read = job.consume_all(
        consumer_conf, topic, partitions, len(values), lambda count: bars.advance(back, count)
    )
    bars.update(back, completed=len(read))
    digest = job.check(values, read)
    del read
    return job.Outcome(codec, produced, consumed, job.latency(conf, topic, values[0], round_trips), digest)
