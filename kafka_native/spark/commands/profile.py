"""The command ``python -m kafka_native.spark profile``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from kafka_native.spark.commands import common
from kafka_native.spark.pipelines.profile import Profile, plan_profile, profile
from kafka_native.spark.pipelines.profile_report import no_skew_text, values_text
from kafka_native.terminal.charts import require_plot
from kafka_native.terminal.lines import echo, json_text


@click.command("profile")
@common.kafka_options
@common.topic_options
@click.option("--start", default="earliest", show_default=True,
              help="The start: earliest, offsets as JSON, or milliseconds since 1970.")  # fmt: skip
@click.option(
    "--groups", callback=common.names, metavar="A,B", help="Consumer groups whose lag is measured."
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file for the report with charts.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file for the figures.",
)
@common.min_tasks_option
@common.run_options("read")
def command(
    bootstrap: str | None,
    config: dict[str, str],
    config_file: Path | None,
    topics: tuple[str, ...],
    pattern: str,
    start: str,
    groups: tuple[str, ...],
    html: Path | None,
    json_file: Path | None,
    min_tasks: int | None,
    dry_run: bool,
    master: str,
    conf: dict[str, str],
) -> None:
    """Measure topics: sizes, key skew, throughput, compression, partitions, lag of groups.

    Prints a summary. --html writes a report with charts, --json all figures. Nothing is written to
    Kafka.
    """
    where: dict[str, Any] = {"topics": topics, "pattern": pattern, "starting": start}
    with common.reported_in_a_line():
        kafka = common.kafka_config(bootstrap, config, config_file)
        common.check_topics(kafka, topics, pattern)
        if dry_run:
            common.show_ranges(plan_profile(kafka, **where), "to be measured")
            return
        if html is not None:
            require_plot()
        started = time.monotonic()
        with (
            common.spark_session("profile", master, conf) as session,
            common.progress("profile") as show,
        ):
            found = profile(
                session, kafka, **where, groups=groups, min_partitions=min_tasks, show=show
            )
    _show(found, time.monotonic() - started)
    if json_file is not None:
        _write(json_file, json_text(found, indent=1) + "\n")
        echo(f"Figures: {json_file}")
    if html is not None:
        from kafka_native.spark.pipelines.profile_report import html_of

        _write(html, html_of(found))
        echo(f"Report: {html}")


def _skew(keys: Mapping[str, Any]) -> str:
    if not keys["standing_out"]:
        return no_skew_text(keys)
    share = f"{keys['top_shares']['10']:.1%}"
    return f"The 10 most frequent have {share} of the records with a key."


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _show(found: Profile, elapsed_s: float) -> None:
    for topic, each in found["topics"].items():
        sizes, keys = each["sizes"]["record"], each["keys"]
        distinct = "many" if keys["distinct"] is None else f"{keys['distinct']:,}"
        p50, p99, ratios = (
            sizes["percentiles"]["50"],
            sizes["percentiles"]["99"],
            each["compression"]["ratios"],
        )
        lines = common.rates(each["records"], each["bytes"], elapsed_s)
        lines += [
            (
                "record",
                f"{sizes['mean']:,.0f} bytes, p50 {p50:,}, p99 {p99:,}, largest {sizes['max']:,}",
            ),
            (
                "keys",
                f"{distinct}. {_skew(keys)}" if keys["with_key"] else "none",
            ),
            ("values", values_text(each["values"]) if each["values"]["sampled"] else "none"),
            ("without key / value", f"{keys['without_key']:,} / {each['tombstones']:,}"),
            ("compression", ", ".join(f"{codec} {ratio:g}:1" for codec, ratio in ratios.items())),
        ]
        common.summary(f"profile: {topic}", lines)
