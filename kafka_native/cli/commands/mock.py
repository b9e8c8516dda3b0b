"""``kafka-native mock``: the built-in mock cluster as a process."""

from __future__ import annotations

import sys

import click

from kafka_native.cli.app import PROGRAM
from kafka_native.mock import __main__ as mock_process


@click.command("mock", context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Start the built-in mock cluster; `kafka-native mock --help` lists its options."""
    sys.exit(mock_process.main(arguments, program=f"{PROGRAM} mock"))
