"""The command ``python -m kafka_native.spark archive``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from kafka_native.spark.commands import common
from kafka_native.spark.commands.typed import has_format, separated, typed_options
from kafka_native.spark.folder import shown
from kafka_native.spark.pipelines.archive import (
    ArchiveResult,
    Overlap,
    Trigger,
    archive,
    plan_archive,
)
from kafka_native.spark.pipelines.parquet import COMPRESSIONS, ParquetSettings


@click.command("archive")
@common.kafka_options
@common.topic_options
@click.option("--lake", help="The lake's folder (or URI), with the same name on all executors.")
@common.table_options(
    "In place of a lake: delta:URI or iceberg:CATALOG/ns.table. A missing one is made."
)
@click.option(
    "--partition-by",
    callback=common.names,
    help="What a new table is partitioned by: topic, and day or hour.  [default: topic,day]",
)
@click.option(
    "--checkpoint", help="The folder of Spark's checkpoint (default: below the lake or table)."
)
@click.option(
    "--trigger",
    type=click.Choice(["available-now", "once", "continuous"]),
    default="available-now",
    show_default=True,
    help="All existing records, the same as one batch, or a batch every --interval.",
)
@common.stream_options(interval="60s")
@common.time_options
@click.option(
    "--max-records-per-batch", type=click.IntRange(1), help="The limit for all partitions together."
)
@click.option(
    "--min-tasks",
    type=click.IntRange(1),
    help="Split partitions into at least this number of tasks for each batch.",
)
@click.option(
    "--max-records-per-task",
    type=click.IntRange(1),
    help="Split partitions into tasks with at most this number of records.",
)
@click.option(
    "--overlap",
    type=click.Choice(["error", "skip"]),
    default="error",
    show_default=True,
    help="What to do with offsets that the lake has from another checkpoint.",
)
@click.option(
    "--data-loss",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help="What to do when Kafka has deleted records before they were read.",
)
@typed_options
@click.option(
    "--compression",
    type=click.Choice(COMPRESSIONS),
    default="zstd",
    show_default=True,
    help="The compression of the files.",
)
@click.option("--level", type=int, help="The compression level (default: the codec's own).")
@click.option(
    "--row-group-rows",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    help="The largest number of rows in a row group.",
)
@click.option(
    "--row-group-size",
    default="64m",
    show_default=True,
    callback=common.size,
    help="The largest size of a row group, before encoding.",
)
@click.option(
    "--file-size",
    default="512m",
    show_default=True,
    callback=common.size,
    help="The approximate size of a file.",
)
@common.run_options("read")
def command(
    bootstrap: str | None,
    config: dict[str, str],
    config_file: Path | None,
    topics: tuple[str, ...],
    pattern: str,
    lake: str | None,
    table: str | None,
    table_options: dict[str, str],
    partition_by: tuple[str, ...],
    checkpoint: str | None,
    trigger: Trigger,
    interval: float,
    start: str,
    start_time: int | None,
    end_time: int | None,
    max_records_per_batch: int | None,
    min_tasks: int | None,
    max_records_per_task: int | None,
    overlap: Overlap,
    data_loss: str,
    compression: str,
    level: int | None,
    row_group_rows: int,
    row_group_size: int,
    file_size: int,
    dry_run: bool,
    master: str,
    conf: dict[str, str],
    typed: dict[str, str],
) -> None:
    """Copy topics into a lake of Parquet files, or into a table, each record exactly once.

    The files of a lake are at LAKE/topic=NAME/date=YYYY-MM-DD. Manifests next to them list the
    files of the lake. After an end or a crash, run the same command again: it continues.

    With --value-format or --key-format the files have typed columns in place of bytes.
    """
    options: dict[str, Any] = {
        "maxOffsetsPerTrigger": max_records_per_batch,
        "minPartitions": min_tasks,
        "maxRecordsPerPartition": max_records_per_task,
        "failOnDataLoss": "true" if data_loss == "fail" else "false",
    }
    common_arguments: dict[str, Any] = {
        "topics": topics,
        "pattern": pattern,
        "starting": start,
        "start_ms": start_time,
        "end_ms": end_time,
        "checkpoint": checkpoint,
        "options": options,
        "session": partial(common.spark_session, "kafka_native archive", master, conf),
    }
    with common.reported_in_a_line():
        kafka, registry = separated(common.kafka_config(bootstrap, config, config_file))
        options |= {**registry, **typed} if has_format(typed) else typed
        target = common.archive_target(lake, table, table_options, partition_by)
        common.check_topics(kafka, topics, pattern)
        if dry_run:
            plan = plan_archive(kafka, target, **common_arguments)
            common.show_ranges(plan, f"to be archived into {target.uri}", "ranges")
            return
        settings = ParquetSettings(compression, level, row_group_rows, row_group_size, file_size)
        with common.progress("archive") as show, common.stopping() as stop:
            result = archive(
                kafka,
                target,
                **common_arguments,
                trigger=trigger,
                interval_s=interval,
                settings=settings,
                overlap=overlap,
                on_progress=show,
                stop=stop,
            )
    _show(result, typed.get("deadLetters"))


def _show(result: ArchiveResult, dead_letters: str | None) -> None:
    lines = common.rates(result.records, result.bytes, result.elapsed_s)
    lines += [("files", f"{result.files:,} in {result.batches:,} batches")]
    if result.repeated:
        lines += [
            ("repeated", f"{result.repeated:,} batches that had been published before: left out")
        ]
    if result.skipped_offsets:
        lines += [
            (
                "skipped",
                f"{result.skipped_offsets:,} lost offsets: the manifests or skipped() list them",
            )
        ]
    if result.left_out:
        where = f"dead letters in {shown(dead_letters)}" if dead_letters else "left out"
        lines += [("don't decode", f"{result.left_out:,} records: {where}")]
    if result.corrupt:
        lines += [("don't decode", f"{result.corrupt:,} keys or values: null in the files")]
    common.summary(f"archive: {result.lake}", lines)
