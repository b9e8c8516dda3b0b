"""The commands of ``python -m kafka_native.spark``. ``COMMANDS`` lists them.

Each module defines a ``command``, which parses options and prints results. A function of
``kafka_native.spark.pipelines`` does the work.
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
    "archive": "Copy topics to a lake of Parquet files, each record exactly once.",
    "maintain": "Merge the small files of a lake, and compact its manifests.",
    "replay": "Produce the records of Parquet files with keys, headers, timestamps and order.",
    "mirror": "Copy topics to another cluster, or to other names, partition to partition.",
    "snapshot": "Write the newest value of each key of compacted topics to Parquet files.",
    "profile": "Report sizes, key skew, throughput and lag of topics, with charts.",
}
"""Each command with its help. Module ``kafka_native.spark.commands.NAME`` defines it.

In the module's name a ``-`` becomes ``_``.
"""


class _Commands(click.Group):
    """A group that imports a command's module on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"{__name__}.{cmd_name.replace('-', '_')}")
        found: click.Command = module.command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # Written from the table, so that help imports no command.
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
    """Pipelines between Kafka, files and other clusters. Spark runs them; no row enters its JVM."""
    log_to_stderr()
    # The failed call raises an error with the same text.
    logging.getLogger("py4j").propagate = False
