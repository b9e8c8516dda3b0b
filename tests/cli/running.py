"""Running `kafka-native` as a user does: in this process where that is enough, else as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner, Result

from kafka_native.cli.app import PROGRAM as PROGRAM_NAME
from kafka_native.cli.app import cli
from kafka_native.cli.connection import ENVIRONMENT

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-m", "kafka_native.cli"]


def environment(**more: str) -> dict[str, str]:
    """This process's, without what would choose a cluster or a file."""
    found = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": "/nowhere", "NO_COLOR": "1"}
    for name in (*ENVIRONMENT, "KAFKA_NATIVE_CONFIG"):
        found.pop(name, None)
    return {**found, **more}


def invoke(*arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> Result:
    """In this process; the result has ``exit_code``, ``stdout``, ``stdout_bytes`` and ``stderr``."""
    unset: dict[str, str | None] = dict.fromkeys((*ENVIRONMENT, "KAFKA_NATIVE_CONFIG"))
    variables = {**unset, "XDG_CONFIG_HOME": "/nowhere", **(env or {})}
    return CliRunner().invoke(cli, list(arguments), input=stdin, env=variables, prog_name=PROGRAM_NAME)


def run(*arguments: str, stdin: bytes = b"", timeout: float = 60, **more: str) -> subprocess.CompletedProcess[bytes]:
    """A process of its own, waited for; ``more`` goes into its environment."""
    return subprocess.run(
        [*PROGRAM, *arguments],
        input=stdin,
        env=environment(**more),
        capture_output=True,
        timeout=timeout,
        check=False,
    )


@contextmanager
def started(*arguments: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own with pipes to all of its ends, killed if it is still there behind the block."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*PROGRAM, *arguments], env=environment(**more), **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
