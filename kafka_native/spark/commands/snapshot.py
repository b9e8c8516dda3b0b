"""The command ``python -m kafka_native.spark snapshot``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from kafka_native.spark.commands import common
from kafka_native.spark.folder import shown
from kafka_native.spark.pipelines.snapshot import Snapshot, plan_snapshot, snapshot

_KINDS = click.Choice(["binary", "string"])


@click.command("snapshot")
@common.kafka_options
@common.topic_options
@click.option(
    "--output",
    required=True,
    help="The table's folder (or URI), with the same name on all executors.",
)
@click.option(
    "--null-keys",
    type=click.Choice(["error", "skip"]),
    default="error",
    show_default=True,
    help="What to do with records without a key.",
)
@click.option(
    "--key-type", type=_KINDS, default="binary", show_default=True, help="The type of the column."
)
@click.option(
    "--value-type", type=_KINDS, default="binary", show_default=True, help="The type of the column."
)
@click.option("--headers", is_flag=True, help="Add a column of headers.")
@click.option("--update", is_flag=True, help="Update the existing snapshot.")
@common.min_tasks_option
@common.run_options("read")
def command(
    bootstrap: str | None,
    config: dict[str, str],
    config_file: Path | None,
    topics: tuple[str, ...],
    pattern: str,
    output: str,
    null_keys: str,
    key_type: str,
    value_type: str,
    headers: bool,
    update: bool,
    min_tasks: int | None,
    dry_run: bool,
    master: str,
    conf: dict[str, str],
) -> None:
    """Write the newest value of each key of compacted topics as a table of Parquet files.

    The files are OUTPUT/topic=NAME/part-PPPPP.parquet, one for each partition. The file
    OUTPUT/_snapshot.json has the offsets of the snapshot.
    """
    where: dict[str, Any] = {"topics": topics, "pattern": pattern, "update": update}
    with common.reported_in_a_line():
        kafka = common.kafka_config(bootstrap, config, config_file)
        common.check_topics(kafka, topics, pattern)
        if dry_run:
            common.show_ranges(
                plan_snapshot(kafka, output, **where), f"to be read for {shown(output)}"
            )
            return
        started = time.monotonic()
        with (
            common.spark_session("snapshot", master, conf) as session,
            common.progress("snapshot") as show,
        ):
            made = snapshot(
                session,
                kafka,
                output,
                **where,
                null_keys=null_keys,
                headers=headers,
                key_type=key_type,
                value_type=value_type,
                min_partitions=min_tasks,
                show=show,
            )
    _show(made, time.monotonic() - started)


def _show(made: Snapshot, elapsed_s: float) -> None:
    lines = common.rates(made.records, made.bytes, elapsed_s)
    lines += [
        ("keys", f"{made.keys:,} in {len(made.partitions):,} partitions"),
        ("tombstones", f"{made.tombstones:,}"),
    ]
    if made.without_key:
        lines.append(("without a key", f"{made.without_key:,}, left out"))
    common.summary(f"snapshot: {made.output}", lines)
