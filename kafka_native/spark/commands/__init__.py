"""The commands of ``python -m kafka_native.spark``: one module a command, found by its name in ``COMMANDS``.

Each module has a ``command``, which parses and prints; the work is a function of ``kafka_native.spark.pipelines``.
"""

from __future__ import annotations

import importlib
import logging
import sys
from typing import Any

import click

from kafka_native.terminal.lines import cleaned_errors, log_to_stderr
from kafka_native.types import version

COMMANDS: dict[str, str] = {
    "archive": "Topics into a lake of Parquet files, each record exactly once.",
    "replay": "Parquet files back into topics: keys, headers, timestamps and order kept.",
    "mirror": "Topics to another cluster, or to other names, partition to partition.",
    "snapshot": "The newest value of each key of compacted topics, as a table of Parquet files.",
    "profile": "Sizes, key skew, throughput and lag of topics, as a report with charts.",
}
"""Command -> what it does in a line. ``kafka_native.spark.commands.NAME`` holds it (a ``-`` in it becomes ``_``)."""


class _Commands(click.Group):
    """A group that imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"{__name__}.{cmd_name.replace('-', '_')}")
        found: click.Command = module.command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # from the table, so that help imports none of them
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        with cleaned_errors():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        with cleaned_errors():
            return super().invoke(ctx)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    version(),
    prog_name="kafka_native.spark",
    message=f"%(prog)s %(version)s, Python {sys.version.split()[0]}",
)
def cli() -> None:
    """Pipelines between Kafka, files and other clusters, run by Spark without a row crossing into its JVM."""
    log_to_stderr()
    logging.getLogger(
        "py4j"
    ).propagate = False  # the call that fails raises an error, which says the same
