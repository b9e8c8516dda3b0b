"""The commands, put together."""

from __future__ import annotations

import click

from kafka_native.cli.mock import mock
from kafka_native.cli.perf import perf
from kafka_native.types import libversion, version


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    version()[0], prog_name="kafka-native", message=f"%(prog)s %(version)s (engine {libversion()[0]})"
)
def cli() -> None:
    """Measure, and try out, Kafka clusters with kafka_native."""


cli.add_command(perf)
cli.add_command(mock)
