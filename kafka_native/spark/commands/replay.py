"""The command ``python -m kafka_native.spark replay``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from kafka_native.spark.commands import common
from kafka_native.spark.pipelines.replay import (
    LanePlan,
    Partitions,
    ReplayResult,
    Timestamps,
    plan_replay,
    replay,
)
from kafka_native.terminal.lines import echo
from kafka_native.terminal.output import CleanTable, printer


@click.command("replay")
@common.kafka_options
@click.option("--source", required=True, help="A lake of archive, or a folder or file of Parquet.")
@click.option(
    "--checkpoint",
    required=True,
    help="A folder for the progress. With the same folder, the next run continues.",
)
@click.option("--topic", help="The target of all records (default: each record's own topic).")
@click.option(
    "--rename",
    multiple=True,
    callback=common.pairs,
    metavar="OLD=NEW",
    help="Replace a topic by another one; repeatable.",
)
@click.option(
    "--only-topics", callback=common.names, metavar="A,B", help="Only the records of these topics."
)
@click.option(
    "--only-dates",
    callback=common.names,
    metavar="2026-11-21,...",
    help="Only the records of these dates; for lakes only.",
)
@common.time_options
@click.option(
    "--partitions",
    type=click.Choice(["keep", "hash"]),
    default="keep",
    show_default=True,
    help="Keep each record's partition, or choose one by the key.",
)
@click.option(
    "--timestamps",
    type=click.Choice(["keep", "now"]),
    default="keep",
    show_default=True,
    help="Keep each record's timestamp, or use the time of the replay.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    help="Maximum messages per second of all tasks.",
)
@common.run_options("replayed")
def command(
    bootstrap: str | None,
    config: dict[str, str],
    config_file: Path | None,
    source: str,
    checkpoint: str,
    topic: str | None,
    rename: dict[str, str],
    only_topics: tuple[str, ...],
    only_dates: tuple[str, ...],
    start_time: int | None,
    end_time: int | None,
    partitions: Partitions,
    timestamps: Timestamps,
    rate: float | None,
    dry_run: bool,
    master: str,
    conf: dict[str, str],
) -> None:
    """Produce the records of Parquet files, each at least once, in the order of their partitions.

    Keys, headers and timestamps stay. The checkpoint has the acknowledged position. After an end or
    a crash, run the same command again: it continues.
    """
    what: dict[str, Any] = {
        "topic": topic,
        "rename": rename,
        "topics": only_topics,
        "dates": only_dates,
    }
    with common.reported_in_a_line():
        if dry_run:
            _show_plan(plan_replay(source, checkpoint, **what), source)
            return
        kafka = common.kafka_config(bootstrap, config, config_file)
        with common.progress("replay") as show:
            result = replay(
                kafka,
                source,
                checkpoint,
                **what,
                partitions=partitions,
                timestamps=timestamps,
                rate=rate,
                start_ms=start_time,
                end_ms=end_time,
                session=partial(common.spark_session, "kafka_native replay", master, conf),
                on_progress=show,
            )
    _show(source, result)


def _show_plan(lanes: list[LanePlan], source: str) -> None:
    table = CleanTable(
        "lane", "to topic", "files", "records", "goes on at", title=f"to be replayed from {source}"
    )
    for each in lanes:
        at = "done" if each.done else f"{each.position:,}"
        table.add_row(
            each.lane.name,
            each.target or "(a column)",
            f"{len(each.lane.pieces):,}",
            f"{each.lane.rows:,}",
            at,
        )
    printer().print(table)
    left = sum(not each.done for each in lanes)
    echo(f"{left} of {len(lanes)} lanes are left; nothing was produced.")


def _show(source: str, result: ReplayResult) -> None:
    lines = common.rates(result.records, result.bytes, result.elapsed_s)
    targets = ", ".join(
        f"{name or '(a column)'} ({count})" for name, count in sorted(result.targets.items())
    )
    lines += [
        ("lanes", f"{result.lanes:,}"),
        ("topics", targets or "none: everything was replayed before"),
    ]
    common.summary(f"replay: {source}", lines)
