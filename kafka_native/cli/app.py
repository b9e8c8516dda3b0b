"""The program's group of commands. It imports a command's module when the user runs the command."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click
from click.shell_completion import CompletionItem

from kafka_native.cli import kcat
from kafka_native.cli.errors import SIGTERM_STATUS, Terminated, reported_in_a_line
from kafka_native.terminal.lines import cleaned_errors
from kafka_native.types import version

PROGRAM = "kafka-native"
HELP_NAMES = {"help_option_names": ["-h", "--help"]}

COMMANDS: Mapping[str, str] = {
    "acls": "List, create and delete permissions.",
    "cluster": "Show the cluster, its brokers and its controller.",
    "completion": "Print a shell script that completes commands and options.",
    "configs": "Show and change settings of topics, brokers and groups.",
    "consume": "Print messages, or write them to Arrow and Parquet files, as kcat -C does.",
    "doctor": "Find out why a connection fails, step by step.",
    "groups": "List and describe groups, show their lag, reset offsets.",
    "metadata": "List brokers, topics and partitions, as kcat -L does.",
    "mock": "Start the built-in mock cluster.",
    "perf": "Measure a cluster, and this machine: rates, latencies, a chart.",
    "produce": "Send messages from stdin and files, as kcat -P does.",
    "schemas": "List, show, compare, check and register schemas of a schema registry.",
    "topics": "List, describe, create, change and delete topics.",
    "transactions": "List and describe transactions, find those that hang, end them.",
    "users": "List SCRAM users, set passwords, delete credentials.",
}
"""Each command with its one-line help.

Module ``kafka_native.cli.commands.NAME`` defines ``command``.
"""


class Commands(click.Group):
    """A group that imports a command's module on first use. Help and completion import none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of this name; None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = importlib.import_module(
            f"kafka_native.cli.commands.{cmd_name}"
        ).command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first argument. An unknown name comes with a suggestion."""
        name = args[0]
        if name in COMMANDS or ctx.resilient_parsing or name.startswith("-"):
            return super().resolve_command(ctx, args)
        import difflib  # only for errors

        close = difflib.get_close_matches(name.lower(), COMMANDS, n=1)
        advice = f" Did you mean {close[0]!r}?" if close else ""
        raise click.UsageError(f"No such command {name!r}.{advice}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help from `COMMANDS`, without importing commands."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names from `COMMANDS`, and options as in any group of click's."""
        found = [
            CompletionItem(name, help=COMMANDS[name])
            for name in sorted(COMMANDS)
            if name.startswith(incomplete)
        ]
        return found if found else super().shell_complete(ctx, incomplete)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Translate kcat's arguments, then parse."""
        return super().parse_args(ctx, kcat.translated(args))

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        """Parse the command line up to the command's name."""
        with cleaned_errors(), reported_in_a_line():
            return super().make_context(*args, **more)

    def main(self, args: Sequence[str] | None = None, *rest: Any, **more: Any) -> Any:
        """Run a command line; see `click.Group.main`."""
        with _ended_by_sigterm():
            return super().main(args, *rest, **more)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. An error becomes one line on stderr and an exit status."""
        with cleaned_errors(), reported_in_a_line():
            return super().invoke(ctx)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Raise `Terminated` on SIGTERM, so that consumers leave their groups.

    A second SIGTERM ends the process at once.
    """

    def terminate(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, terminate)
    except ValueError:  # not the main thread: the program that runs this handles signals
        yield
        return
    try:
        yield
    except Terminated:  # SIGTERM came before the command started
        sys.exit(SIGTERM_STATUS)
    finally:
        signal.signal(signal.SIGTERM, before)


@click.group(cls=Commands, context_settings=HELP_NAMES)
@click.version_option(version(), prog_name=PROGRAM)
def cli() -> None:
    """Produce, consume, manage and measure: Apache Kafka from the command line.

    kcat's -P, -C and -L are understood in place of a command.
    """
