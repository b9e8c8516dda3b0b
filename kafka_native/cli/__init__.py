"""The command line, ``kafka-native``: one module for each command. Needs the ``cli`` extra."""

from __future__ import annotations

import os
import signal
import sys

EXTRA = ("click", "rich")
NEEDS = "kafka-native's command line needs a few more packages: pip install 'kafka-native[cli]'"


def main() -> None:
    """The entry point. If a package of the extra is missing, it prints one line that names it."""
    _open_missing_streams()
    try:
        from kafka_native.cli.app import PROGRAM, cli
        from kafka_native.terminal.lines import escape_tracebacks

        escape_tracebacks()
        cli(prog_name=PROGRAM)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        sys.exit(f"{NEEDS} ({error.name} is missing)")
    except KeyboardInterrupt:  # while this module's imports run
        sys.exit(128 + signal.SIGINT)


def _open_missing_streams() -> None:
    """Open /dev/null for each standard stream that the caller has closed (``>&-``).

    Otherwise a socket would get its number, and Python has None in place of the stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
