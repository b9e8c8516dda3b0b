"""The command ``python -m kafka_native.spark replay``."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from kafka_native.spark.commands import common
from kafka_native.spark.folder import shown
from kafka_native.spark.pipelines.dead_letters import (
    DeadLetterFile,
    dead_letter_files,
    replay_dead_letters,
)
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
@click.option("--source", help="A lake of archive, or a folder or file of Parquet.")
@click.option(
    "--checkpoint",
    help="A folder for the progress. With the same folder, the next run continues.",
)
@click.option(
    "--dead-letters",
    metavar="FOLDER",
    help="In place of both: a folder of the option deadLetters of a source or sink.",
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
@click.option(
    "--refused",
    metavar="TOPIC|FOLDER",
    help="Where records go that the target refuses (a folder has a /). Default: they are errors.",
)
@common.run_options("replayed")
def command(
    bootstrap: str | None,
    config: dict[str, str],
    config_file: Path | None,
    source: str | None,
    checkpoint: str | None,
    dead_letters: str | None,
    topic: str | None,
    rename: dict[str, str],
    only_topics: tuple[str, ...],
    only_dates: tuple[str, ...],
    start_time: int | None,
    end_time: int | None,
    partitions: Partitions,
    timestamps: Timestamps,
    rate: float | None,
    refused: str | None,
    dry_run: bool,
    master: str,
    conf: dict[str, str],
) -> None:
    """Produce the records of Parquet files, each at least once, in the order of their partitions.

    Keys, headers and timestamps stay. The checkpoint has the acknowledged position. After an end or
    a crash, run the same command again: it continues.

    Dead letters are produced without Spark. Replayed files are moved into the subfolder _replayed.
    """
    what: dict[str, Any] = {"topic": topic, "rename": rename, "topics": only_topics}
    how: dict[str, Any] = {"partitions": partitions, "timestamps": timestamps, "rate": rate}
    if dead_letters is not None:
        times = start_time is not None or end_time is not None
        if source or checkpoint or only_dates or times or refused:
            raise click.UsageError(
                "--dead-letters takes no --source, --checkpoint, --only-dates, --refused or times"
            )
        with common.reported_in_a_line():
            if dry_run:
                _show_letters(dead_letter_files(dead_letters, only_topics), dead_letters)
                return
            kafka = common.kafka_config(bootstrap, config, config_file)
            _replay_letters(kafka, dead_letters, **what, **how)
        return
    if source is None or checkpoint is None:
        raise click.UsageError("write --source and --checkpoint, or --dead-letters")
    what["dates"] = only_dates
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
                **how,
                refused=refused,
                start_ms=start_time,
                end_ms=end_time,
                session=partial(common.spark_session, "kafka_native replay", master, conf),
                on_progress=show,
            )
    _show(source, result, refused)


def _show_plan(lanes: list[LanePlan], source: str) -> None:
    table = CleanTable(
        "lane",
        "to topic",
        "files",
        "records",
        "goes on at",
        title=f"to be replayed from {shown(source)}",
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


def _show(source: str, result: ReplayResult, refused: str | None) -> None:
    lines = common.rates(result.records, result.bytes, result.elapsed_s)
    targets = ", ".join(
        f"{name or '(a column)'} ({count})" for name, count in sorted(result.targets.items())
    )
    lines += [
        ("lanes", f"{result.lanes:,}"),
        ("topics", targets or "none: everything was replayed before"),
    ]
    if result.refused:
        lines.append(("refused", f"{result.refused:,} records, stored in {shown(refused or '')}"))
    common.summary(f"replay: {shown(source)}", lines)


def _replay_letters(kafka: dict[str, str], folder: str, **options: Any) -> None:
    with common.progress("replay") as show:
        result = replay_dead_letters(kafka, folder, **options, on_progress=show)
    lines = common.rates(result.records, result.bytes, result.elapsed_s)
    targets = ", ".join(result.targets)
    lines += [
        ("files", f"{result.files:,}"),
        ("topics", targets or "none: everything was replayed before"),
    ]
    if result.rows_left:
        lines.append(("left", f"{result.rows_left:,} rows that don't encode: use Spark for them"))
    common.summary(f"replay: {shown(folder)}", lines)


def _show_letters(files: list[DeadLetterFile], folder: str) -> None:
    table = CleanTable(
        "topic", "partition", "files", "records", "from offset", "to offset",
        title=f"dead letters in {shown(folder)}",
    )  # fmt: skip
    for (topic, partition), group in groupby(files, key=lambda each: (each.topic, each.partition)):
        those = list(group)
        numbers = (
            partition,
            len(those),
            sum(each.records for each in those),
            those[0].first_offset,
            max(each.last_offset for each in those),
        )
        # Rows of a sink have no partition and no offsets.
        cells = (f"{number:,}" if number >= 0 else "" for number in numbers)
        table.add_row(topic or "(a column)", *cells)
    printer().print(table)
    records = sum(each.records for each in files)
    rows = sum(each.records for each in files if not each.is_encoded)
    left = f", {rows:,} of them rows that don't encode" if rows else ""
    echo(f"{records:,} dead letters in {len(files):,} files{left}; nothing was produced.")
