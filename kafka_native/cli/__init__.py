"""The command line, ``kafka-native``: one file a command. Needs the ``cli`` extra."""

from __future__ import annotations

import sys

NEEDS = "kafka-native's command line needs a few more packages: pip install 'kafka-native[cli]'"


def main() -> None:
    """The entry point; says in one line what is missing."""
    try:
        from kafka_native.cli.app import cli
    except ImportError as error:
        sys.exit(f"{NEEDS} ({error.name} is missing)")
    cli()
