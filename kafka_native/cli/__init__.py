"""The command line, ``kafka-native``: one module for each command. Needs the ``cli`` extra."""

from __future__ import annotations

import sys

EXTRA = ("click", "rich")
NEEDS = "kafka-native's command line needs a few more packages: pip install 'kafka-native[cli]'"


def main() -> None:
    """The entry point. If a package of the extra is missing, it prints one line that names it."""
    try:
        from kafka_native.cli.app import PROGRAM, cli
        from kafka_native.terminal.lines import escape_tracebacks

        escape_tracebacks()
        cli(prog_name=PROGRAM)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        sys.exit(f"{NEEDS} ({error.name} is missing)")
