"""Runs `kafka-native` as a user does, in this process or in another one."""

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
from kafka_native.cli.connection import ENVIRONMENT, REGISTRY_ENVIRONMENT

ROOT = Path(__file__).resolve().parents[2]
VARIABLES = (*ENVIRONMENT, REGISTRY_ENVIRONMENT, "KAFKA_NATIVE_CONFIG")
"""The variables that select a cluster, a registry or a file."""
PROGRAM = [sys.executable, "-m", "kafka_native.cli"]


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment without the variables that select a cluster or a file."""
    found = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": "/nowhere", "NO_COLOR": "1"}
    for name in VARIABLES:
        found.pop(name, None)
    return {**found, **more}


def properties(*pairs: str) -> list[str]:
    """Return an option ``-X`` for each NAME=VALUE."""
    return [word for pair in pairs for word in ("-X", pair)]


def invoke(*arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> Result:
    """Run a command in this process, and return its result."""
    unset: dict[str, str | None] = dict.fromkeys(VARIABLES)
    variables = {**unset, "XDG_CONFIG_HOME": "/nowhere", **(env or {})}
    return CliRunner().invoke(
        cli, list(arguments), input=stdin, env=variables, prog_name=PROGRAM_NAME
    )


def run(
    *arguments: str, stdin: bytes = b"", timeout: float = 60, **more: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in its own process, and wait for it. ``more`` is added to its environment."""
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
    """Start a process with pipes, and kill it at the end of the block if it still runs."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*PROGRAM, *arguments], env=environment(**more), **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
