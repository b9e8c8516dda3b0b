"""The commands, put together."""

from __future__ import annotations

import click

from kafka_native.cli.mock import mock
from kafka_native.cli.perf import perf
from kafka_native.types import version


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version(), prog_name="kafka-native")
def cli() -> None:
    """Measure, and try out, Kafka clusters with kafka_native."""


cli.add_command(perf)
cli.add_command(mock)
