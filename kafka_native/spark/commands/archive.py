"""``python -m kafka_native.spark archive``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from kafka_native.spark.commands import common
from kafka_native.spark.pipelines.archive import ArchiveResult, archive, plan_archive
from kafka_native.spark.pipelines.parquet import COMPRESSIONS, ParquetSettings


@click.command("archive")
@common.kafka_options
@common.topic_options
@click.option(
    "--lake", required=True, help="The lake's folder (or URI); executors reach it by the same name."
)
@click.option(
    "--checkpoint", help="Where Spark keeps its checkpoint (default: in the lake's folder)."
)
@click.option(
    "--trigger",
    type=click.Choice(["available-now", "once", "continuous"]),
    default="available-now",
    show_default=True,
    help="What there is now, the same as one batch, or a batch every --interval until interrupted.",
)
@click.option(
    "--interval", default="60s", show_default=True, callback=common.seconds, help="For continuous."
)
@click.option(
    "--start",
    default="earliest",
    show_default=True,
    help="Where a new checkpoint starts; or latest, JSON.",
)
@click.option("--max-records-per-batch", type=click.IntRange(1), help="Of all partitions together.")
@click.option(
    "--min-tasks",
    type=click.IntRange(1),
    help="Split partitions into at least so many tasks a batch.",
)
@click.option(
    "--max-records-per-task",
    type=click.IntRange(1),
    help="Split partitions into tasks of so many at most.",
)
@click.option("--overlap", type=click.Choice(["error", "skip"]), default="error", show_default=True,
              help="What to do about offsets that the lake has from another checkpoint.")  # fmt: skip
@click.option("--data-loss", type=click.Choice(["fail", "skip"]), default="fail", show_default=True,
              help="What to do about records that Kafka has deleted before they were read.")  # fmt: skip
@click.option(
    "--compression",
    type=click.Choice(COMPRESSIONS),
    default="zstd",
    show_default=True,
    help="Of the files.",
)
@click.option("--level", type=int, help="Of the compression (default: the codec's own).")
@click.option(
    "--row-group-rows",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    help="At most.",
)
@click.option(
    "--row-group-size",
    default="64m",
    show_default=True,
    callback=common.size,
    help="Bytes, not encoded.",
)
@click.option(
    "--file-size", default="512m", show_default=True, callback=common.size, help="Bytes; about."
)
@click.option("--dry-run", is_flag=True, help="Print what would be read, and do nothing.")
@common.spark_options
def command(
    bootstrap: str | None,
    config: dict[str, str],
    config_file: Path | None,
    topics: tuple[str, ...],
    pattern: str,
    lake: str,
    checkpoint: str | None,
    trigger: Any,
    interval: float,
    start: str,
    max_records_per_batch: int | None,
    min_tasks: int | None,
    max_records_per_task: int | None,
    overlap: Any,
    data_loss: str,
    compression: str,
    level: int | None,
    row_group_rows: int,
    row_group_size: int,
    file_size: int,
    dry_run: bool,
    master: str,
    conf: dict[str, str],
) -> None:
    """Copy topics into a lake of Parquet files, each record exactly once.

    The files are at LAKE/topic=NAME/date=YYYY-MM-DD; the manifests beside them say which belong to the lake. Run the
    same command again to go on where it has ended, however it has ended.
    """
    options = {
        "maxOffsetsPerTrigger": max_records_per_batch,
        "minPartitions": min_tasks,
        "maxRecordsPerPartition": max_records_per_task,
        "failOnDataLoss": "true" if data_loss == "fail" else "false",
    }
    common_arguments: dict[str, Any] = {
        "topics": topics,
        "pattern": pattern,
        "starting": start,
        "options": options,
        "session": partial(common.spark_session, "kafka_native archive", master, conf),
    }
    with common.reported_in_a_line():
        kafka = common.kafka_config(bootstrap, config, config_file)
        if dry_run:
            plan = plan_archive(kafka, lake, **common_arguments)
            common.show_ranges(plan, f"to be archived into {lake}", "ranges")
            return
        settings = ParquetSettings(compression, level, row_group_rows, row_group_size, file_size)
        with common.progress("archive") as show, common.stopping() as stop:
            result = archive(
                kafka,
                lake,
                **common_arguments,
                checkpoint=checkpoint,
                trigger=trigger,
                interval_s=interval,
                settings=settings,
                overlap=overlap,
                on_progress=show,
                stop=stop,
            )
    _show(result)


def _show(result: ArchiveResult) -> None:
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
                f"{result.skipped_offsets:,} offsets that were lost: see the lake's manifests",
            )
        ]
    common.summary(f"archive: {result.lake}", lines)
