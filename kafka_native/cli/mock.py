"""Runs a mock cluster in a child process, which always ends with its parent."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE, Popen

from kafka_native.cli.errors import Failed
from kafka_native.mock import __main__ as mock_process

STOP_TIMEOUT_S = 10
PREFAULT_BYTES = 400_000_000


@contextmanager
def mock_cluster(brokers: int = 1) -> Iterator[str]:
    """Run a mock cluster in a child process for the block. Yields its bootstrap servers."""
    # Memory is touched in advance, so that a measurement has no page faults.
    options = ["--brokers", str(brokers), "--prefault-bytes", str(PREFAULT_BYTES)]
    # -c, not -m: the package has imported this module, and -m would run it again under another
    # name.
    command = [
        sys.executable,
        "-c",
        "from kafka_native.cli.mock import run_for_parent; run_for_parent()",
        *options,
    ]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            name, _, servers = process.stdout.readline().strip().partition("=")
            if name != "bootstrap.servers":
                raise Failed("the mock cluster did not start: its own message is above")
            yield servers
        finally:
            process.terminate()
            process.wait(STOP_TIMEOUT_S)


def run_for_parent() -> None:
    """Run a mock cluster until a signal comes or the parent process closes stdin."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.exit(mock_process.main())


def _end_with_parent() -> None:
    # The file descriptor, not sys.stdin: a buffered file holds a lock that the interpreter needs at
    # exit.
    while os.read(0, 1024):
        pass
    os._exit(0)
