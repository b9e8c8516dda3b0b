"""The command ``python -m kafka_native.spark maintain``."""

from __future__ import annotations

import re
from typing import Any

import click

from kafka_native.spark.commands import common
from kafka_native.spark.pipelines.lake import Lake
from kafka_native.spark.pipelines.maintain import MaintainResult, maintain, plan_merges
from kafka_native.spark.pipelines.parquet import COMPRESSIONS, ParquetSettings
from kafka_native.terminal.lines import echo


def _date(_context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    if text is not None and not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        raise click.BadParameter(f"{text!r}: write a date such as 2026-11-21", param=parameter)
    return text


@click.command("maintain")
@click.option("--lake", help="The lake's folder, or a URI that pyarrow knows.")
@common.table_options("In place of a lake: delta:URI or iceberg:CATALOG/ns.table.")
@click.option(
    "--before", callback=_date, help="Merge only files of earlier dates.  [default: today, in UTC]"
)
@click.option(
    "--keep",
    callback=common.seconds,
    help="Keep replaced files for so long, for readers that have their paths. For a table also its "
    "old versions, and longer than a batch of archive takes.  [default: 0s; 168h for a table]",
)
@click.option(
    "--compression",
    type=click.Choice(list(COMPRESSIONS)),
    default="zstd",
    show_default=True,
    help="The codec of merged files.",
)
@click.option("--level", type=int, help="The compression level (default: the codec's own).")
@click.option(
    "--file-size",
    default="512m",
    show_default=True,
    callback=common.size,
    help="The approximate size of merged files. Files of half of it stay as they are.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be merged, and change nothing.")
def command(
    lake: str | None,
    table: str | None,
    table_options: dict[str, str],
    before: str | None,
    keep: float | None,
    compression: str,
    level: int | None,
    file_size: int,
    dry_run: bool,
) -> None:
    """Merge the small files of a lake or a table, and remove what is over.

    It needs no Spark and no Kafka. archive may run meanwhile. After an end or a crash, run the same
    command again. Read the lake by its manifests: until replaced files are deleted, a listing of
    its folders shows their records twice.
    """
    with common.reported_in_a_line():
        settings = ParquetSettings(compression, level, file_bytes=file_size)
        target = common.archive_target(lake, table, table_options)
        if dry_run:
            if not isinstance(target, Lake):
                raise click.UsageError("--dry-run is for a --lake")
            merges = plan_merges(target, file_bytes=file_size, before=before)
            files = sum(len(each.files) for each in merges)
            size = sum(each.bytes for each in merges) / common.MIB
            echo(f"{files:,} files, {size:,.1f} MiB, would become {len(merges):,}")
            return
        _show(maintain(target, settings=settings, before=before, keep_s=keep))


def _show(result: MaintainResult) -> None:
    lines: list[Any] = []
    if result.records:
        lines += common.rates(result.records, result.bytes, result.elapsed_s)
    lines += [
        ("merged", f"{result.merged:,} files, which became {result.made:,}"),
        ("deleted", f"{result.deleted:,} replaced files"),
    ]
    if result.manifests:
        lines += [("compacted", f"{result.manifests:,} manifests")]
    if result.staged:
        lines += [("removed", f"staged files of {result.staged:,} ended queries")]
    common.summary(f"maintain: {result.lake}", lines)
