"""The command ``python -m kafka_native.spark mirror``."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from kafka_native.spark.commands import common
from kafka_native.spark.kept_state import SkippedOffsets, skipped_offsets
from kafka_native.spark.pipelines.mirror import (
    MAX_RECORDS,
    DataLoss,
    Mirrored,
    Route,
    mirror,
    plan_mirror,
    translate_offset,
)
from kafka_native.terminal.lines import echo
from kafka_native.terminal.output import CleanTable, printer


def _place(
    _context: click.Context, parameter: click.Parameter, text: str | None
) -> tuple[str, int, int] | None:
    """Parse ``TOPIC:PARTITION:OFFSET``."""
    if text is None:
        return None
    match = re.fullmatch(r"([^:]+):([0-9]{1,10}):([0-9]{1,19})", text)
    if match is None:
        raise click.BadParameter(f"{text!r}: write TOPIC:PARTITION:OFFSET", param=parameter)
    return match[1], int(match[2]), int(match[3])


@click.command("mirror")
@common.kafka_options
@common.target_options
@common.topic_options
@click.option(
    "--to",
    default="{topic}",
    show_default=True,
    help="The name of a topic's mirror, such as backup.{topic}.",
)
@click.option("--checkpoint", required=True, help="The folder (or URI) of Spark's checkpoint.")
@click.option(
    "--trigger",
    type=click.Choice(["available-now", "continuous"]),
    default="available-now",
    show_default=True,
    help="All existing records, or a batch every --interval until interrupted.",
)
@common.stream_options(interval="1s")
@click.option(
    "--max-records-per-batch",
    type=click.IntRange(1),
    default=MAX_RECORDS,
    show_default=True,
    help="The limit for all partitions together.",
)
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Maximum records per second.")
@click.option(
    "--groups", callback=common.names, metavar="A,B", help="Also transfer the offsets of groups."
)
@click.option(
    "--data-loss",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help="What to do when records were deleted before they were copied.",
)
@click.option("--skipped", is_flag=True,
              help="Print the skipped offsets of the checkpoint, and do nothing else.")  # fmt: skip
@click.option("--translate", callback=_place, metavar="TOPIC:PARTITION:OFFSET",
              help="Print the counterpart of the offset, and do nothing else.")  # fmt: skip
@common.run_options("copied")
def command(
    bootstrap: str | None,
    config: dict[str, str],
    config_file: Path | None,
    to_bootstrap: str | None,
    to_config: dict[str, str],
    to_config_file: Path | None,
    topics: tuple[str, ...],
    pattern: str,
    to: str,
    checkpoint: str,
    trigger: str,
    interval: float,
    start: str,
    max_records_per_batch: int,
    rate: float | None,
    groups: tuple[str, ...],
    data_loss: DataLoss,
    skipped: bool,
    translate: tuple[str, int, int] | None,
    dry_run: bool,
    master: str,
    conf: dict[str, str],
) -> None:
    """Copy topics to another cluster, or to other names, partition to partition and in order.

    The target's topics must exist, with at least as many partitions. Each record arrives at least
    once. With --to-config transactional.id=NAME it arrives exactly once for readers of committed
    records. After an end or a crash, run the same command again: it continues.
    """
    with common.reported_in_a_line():
        if translate is not None:
            _translate(checkpoint, *translate)
            return
        if skipped:
            _show_skipped(skipped_offsets(checkpoint))
            return
        kafka = common.kafka_config(bootstrap, config, config_file)
        own = not (to_bootstrap or to_config_file or "bootstrap.servers" in to_config)
        servers = kafka["bootstrap.servers"] if own else None
        target = common.kafka_config(to_bootstrap or servers, to_config, to_config_file)
        where: dict[str, Any] = {"topics": topics, "pattern": pattern, "to": to, "starting": start}
        if dry_run:
            _show_plan(plan_mirror(kafka, target, checkpoint=checkpoint, **where))
            return
        with (
            common.spark_session("mirror", master, conf) as session,
            common.stopping() as stop,
            common.progress("mirror") as show,
        ):
            done = mirror(
                session,
                kafka,
                target,
                checkpoint,
                **where,
                every_s=interval if trigger == "continuous" else None,
                max_records=max_records_per_batch,
                rate=rate,
                groups=groups,
                data_loss=data_loss,
                show=show,
                stop=stop.is_set,
            )
    _show(done)


def _translate(checkpoint: str, topic: str, partition: int, offset: int) -> None:
    found = translate_offset(checkpoint, topic, partition, offset)
    if found is None:
        raise click.ClickException(
            f"nothing of {topic} [{partition}] was mirrored with this checkpoint"
        )
    echo(str(found))


def _show_skipped(found: list[SkippedOffsets]) -> None:
    table = CleanTable("topic", "partition", "from offset", "to offset", "at", "reason")
    for each in found:
        at = datetime.fromtimestamp(each.time_ms / 1000, timezone.utc)
        end = "unknown" if each.end is None else f"{each.end:,}"
        cells = (str(each.partition), f"{each.start:,}", end, f"{at:%Y-%m-%d %H:%M:%S}Z")
        table.add_row(each.topic, *cells, each.reason)
    if found:
        printer().print(table)
    echo(f"Skipped ranges of offsets: {len(found)}.")


def _show_plan(routes: list[Route]) -> None:
    table = CleanTable("topic", "to", "partitions", "there", "offsets", title="to be mirrored")
    for each in routes:
        table.add_row(
            each.topic,
            each.target,
            str(each.partitions),
            str(each.target_partitions),
            f"{each.records:,}",
        )
    printer().print(table)
    offsets = sum(each.records for each in routes)
    echo(f"{len(routes)} topics, {offsets:,} offsets; nothing was copied.")


def _show(done: Mirrored) -> None:
    lines = common.rates(done.records, done.bytes, done.elapsed_s)
    lines += [("batches", f"{done.batches:,}")]
    if done.skipped_offsets:
        lines += [("skipped", f"{done.skipped_offsets:,} offsets that were lost: see --skipped")]
    for each in done.groups:
        place = f"{each.topic} [{each.partition}] {each.offset:,}"
        place += f" -> {each.target} {each.target_offset:,}"
        lines.append((f"group {each.group}", f"{place}: {each.error}" if each.error else place))
    if done.groups_error:
        lines.append(("groups", f"not carried over: {done.groups_error}"))
    common.summary("mirror", lines)
