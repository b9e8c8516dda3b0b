"""``kafka-native perf``: produce, consume and check with each codec. ``make demo`` runs it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

from kafka_native import KafkaException
from kafka_native.admin import AdminClient
from kafka_native.cli import measurements, perf
from kafka_native.cli.connection import properties
from kafka_native.cli.default_group import DefaultGroup
from kafka_native.cli.measurements import number_option, size_option
from kafka_native.cli.mock import mock_cluster
from kafka_native.config import PROPERTIES
from kafka_native.terminal.charts import require_plot
from kafka_native.terminal.output import CleanConsole, CleanTable, Output, printer, remarks
from kafka_native.terminal.progress import CleanTextColumn
from kafka_native.types import version

CODECS = ("none", "snappy", "lz4", "zstd", "gzip")
PRODUCER_ONLY = ("acks", "compression.codec", "batch.size", "linger.ms")
CONNECT_TIMEOUT_S = 10.0
LAST_TIMEOUT_S = 3.0
"""Seconds to delete the topic of a failed run. The cluster itself may have failed."""


@contextmanager
def cluster(bootstrap: str | None, console: CleanConsole) -> Iterator[str]:
    """Yield the servers of the named cluster, or of a new mock cluster."""
    if bootstrap:
        console.print(f"Using the cluster at {bootstrap}")
        yield bootstrap
    else:
        with mock_cluster() as servers:
            console.print(f"Started the mock cluster at {servers}")
            yield servers


def one_of_codecs(
    _context: click.Context, _parameter: click.Parameter, text: str
) -> tuple[str, ...]:
    """Parse ``none,lz4`` to a tuple."""
    codecs = tuple(filter(None, text.split(",")))
    unknown = [codec for codec in codecs if codec not in CODECS]
    if unknown or not codecs:
        raise click.BadParameter(f"{text!r}: choose from {','.join(CODECS)}")
    if len(set(codecs)) < len(codecs):
        raise click.BadParameter(f"{text!r}: each codec once")
    return codecs


@click.command("all")
@click.option(
    "-b",
    "--bootstrap",
    envvar="BOOTSTRAP",
    help="The cluster to measure (default: a new mock cluster).",
)
@number_option("--messages", 1_000_000, "Messages for each codec.")
@size_option
@number_option("--partitions", 4, "Partitions of the topic.")
@click.option(
    "--codecs",
    default=",".join(CODECS),
    show_default=True,
    callback=one_of_codecs,
    help="The codecs, in this order.",
)
@click.option(
    "--acks",
    default="1",
    show_default=True,
    type=click.Choice(["0", "1", "all"]),
    help="The replicas that acknowledge.",
)
@click.option(
    "--batch-size", type=click.IntRange(1), help="batch.size in bytes (default: the client's)."
)
@click.option(
    "--linger", type=click.FloatRange(0), help="linger.ms while producing (default: the client's)."
)
@number_option("--latency-messages", 2000, "Round trips to measure.")
@click.option(
    "--output",
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the chart.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the figures as JSON, everything else on stderr."
)
@click.option(
    "--keep", is_flag=True, help="Don't delete the topics on the cluster that --bootstrap names."
)
@click.option(
    "-X",
    "extra",
    multiple=True,
    callback=properties,
    metavar="PROPERTY=VALUE",
    help="Client configuration.",
)
def everything(
    bootstrap: str | None,
    messages: int,
    size: int,
    partitions: int,
    codecs: tuple[str, ...],
    acks: str,
    batch_size: int | None,
    linger: float | None,
    latency_messages: int,
    output: Path | None,
    as_json: bool,
    keep: bool,
    extra: dict[str, str],
) -> None:
    """Produce and consume messages with each codec, check each message, print the rates.

    The loops call produce(), and consume(10000) with value(). Ends with status 1 when a message is
    missing, out of order or changed.
    """
    console = remarks() if as_json else printer()
    if output is not None:
        require_plot()
    drawn = None if output is None else _chart_function()
    values = perf.payloads(messages, size)
    wanted = {"acks": acks, "batch.size": batch_size, "linger.ms": linger}
    try:
        with cluster(bootstrap, console) as servers:
            conf = {
                "bootstrap.servers": servers,
                **{k: v for k, v in wanted.items() if v is not None},
                **extra,
            }
            outcomes = run(
                conf,
                values,
                Plan(partitions, codecs, latency_messages, keep and bool(bootstrap)),
                console,
            )
    except KafkaException as error:
        raise click.ClickException(error.args[0].str()) from error
    except perf.CheckFailed as error:
        raise click.ClickException(str(error)) from error
    title = f"{messages:,} messages of {size} bytes, {partitions} partitions, acks={acks}"
    console.print(table(outcomes, title))
    console.print("Every message came back, once, in order and unchanged.")
    described = {
        "messages": messages,
        "size": size,
        "partitions": partitions,
        "acks": acks,
        "cpus": os.cpu_count(),
    }
    shown = {name: PROPERTIES[name].shown(value) for name, value in extra.items()}
    described |= {"version": version(), "cluster": bootstrap or "mock", "properties": shown}
    figures = {**described, "results": [asdict(outcome) for outcome in outcomes]}
    if output is not None and drawn is not None:
        output.mkdir(parents=True, exist_ok=True)
        (output / "perf.json").write_text(json.dumps(figures, indent=2) + "\n")
        drawn(outcomes, f"kafka-native {version()}: {title}", output / "perf.png")
        console.print(f"Chart: {output / 'perf.png'}   Figures: {output / 'perf.json'}")
    if as_json:
        Output(as_json=True).document(figures)


def table(outcomes: list[perf.Outcome], title: str) -> CleanTable:
    """Make the table: one row for each codec."""
    made = CleanTable(
        title=title,
        box=None,  # with lines the table is wider than 80 columns
        padding=(0, 0, 0, 2),
        caption="CPU: this process alone. Latency: one message at a time, acknowledged.",
    )
    made.add_column("\n\ncodec", no_wrap=True)
    headings = ["produce\nmillion\nmsg/s", "\n\nMiB/s", "\nCPU us\na msg"]
    headings += [heading.replace("produce", "consume") for heading in headings]
    headings += ["latency\np50\nms", "\np99\nms", "\np99.9\nms"]
    for heading in headings:
        made.add_column(heading, justify="right", no_wrap=True)
    for outcome in outcomes:
        cells = [outcome.codec]
        for rate in (outcome.produce, outcome.consume):
            cells += [
                f"{rate.per_second / 1e6:.2f}",
                f"{rate.mib_per_second:.0f}",
                f"{rate.cpu_us:.3f}",
            ]
        latency = outcome.latency
        cells += [
            f"{milliseconds:.2f}" for milliseconds in (latency.p50, latency.p99, latency.p999)
        ]
        made.add_row(*cells)
    return made


def _chart_function() -> Callable[[list[perf.Outcome], str, Path], None]:
    from kafka_native.cli.chart import chart

    return chart


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of each round."""

    partitions: int
    codecs: tuple[str, ...]
    round_trips: int
    keep: bool = False


def run(
    conf: dict[str, Any], values: list[bytes], plan: Plan, console: CleanConsole
) -> list[perf.Outcome]:
    """Run a round for each codec.

    A round creates the topic, produces, consumes, checks, measures latency and deletes the topic.
    """
    outcomes = []
    columns = (
        CleanTextColumn("{task.description:>16}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bars, AdminClient(conf) as admin:
        admin.list_topics(timeout=CONNECT_TIMEOUT_S)
        for codec, topic in perf.codec_topics(plan.codecs):
            perf.create_topic(admin, topic, plan.partitions)
            try:
                outcome = one_round({**conf, "compression.codec": codec}, topic, values, plan, bars)
            except BaseException:
                with suppress(KafkaException):  # the user must see the run's own error
                    if not plan.keep:
                        perf.delete_topic(admin, topic, LAST_TIMEOUT_S)
                raise
            outcomes.append(outcome)
            if not plan.keep:
                perf.delete_topic(admin, topic)
    return outcomes


def one_round(
    conf: dict[str, Any], topic: str, values: list[bytes], plan: Plan, bars: Progress
) -> perf.Outcome:
    """Produce, consume, check and measure latency with one codec."""
    codec, count = conf["compression.codec"], len(values)
    consumer_conf = {name: value for name, value in conf.items() if name not in PRODUCER_ONLY}

    def bar(what: str) -> Callable[[int], None]:
        task = bars.add_task(f"{codec} {what}", total=count)
        return lambda advanced: bars.advance(task, advanced)

    produced = perf.produce_all(conf, topic, values, bar("produce"))
    perf.await_all(consumer_conf, topic, plan.partitions, count)
    consumed = perf.consume_all(consumer_conf, topic, plan.partitions, count, bar("consume"))
    digest = perf.check(
        values, perf.read_back(consumer_conf, topic, plan.partitions, count, bar("check"))
    )
    return perf.Outcome(
        codec, produced, consumed, perf.latency(conf, topic, values[0], plan.round_trips), digest
    )


@click.group("perf", cls=DefaultGroup, default="all")
def command() -> None:
    """Measure a cluster and this machine.

    `all`, the default, measures everything. The other commands measure one thing on your topic.
    """


command.add_command(everything)
for one in (measurements.produce, measurements.consume, measurements.latency):
    command.add_command(one)
