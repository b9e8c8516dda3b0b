"""The clients of the comparison, and their processes."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import confluent_kafka

from bench.adapters.program import BUILT, SOURCES
from bench.recovery import Event, Settings, read_log
from dev.version import ROOT
from tests.broker import java
from tests.harness.processes import guarded

END_S = 20.0
JAVA_SOURCE = SOURCES / "java" / "Recovery.java"
JAVA_OPTIONS = ["-Xmx256m"]


def _python_command() -> list[str]:
    return [sys.executable, "-m", "bench.recovery.worker"]


def _java_command() -> list[str]:
    folder = (BUILT / "recovery").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    java.compiled(JAVA_SOURCE, folder)
    return java.java_command("Recovery", options=JAVA_OPTIONS, plugins=folder)


COMMANDS: dict[str, Callable[[], list[str]]] = {
    "kafka_native": _python_command,
    "confluent_kafka": _python_command,
    "java": _java_command,
}


def missing(client: str) -> str | None:
    """Return why a client can't run here, or None."""
    return "no Java compiler (javac)" if client == "java" and not shutil.which("javac") else None


def versions(commit: str) -> dict[str, str]:
    """Return the versions of the clients and of the broker."""
    return {
        "kafka_native": f"{metadata.version('kafka-native')} (commit {commit})",
        "confluent_kafka": metadata.version("confluent-kafka"),
        "librdkafka": confluent_kafka.libversion()[0],
        "Apache Kafka and its client": java.KAFKA_VERSION,
    }


class Process:
    """A running producer or consumer."""

    def __init__(self, command: list[str], settings: Settings) -> None:
        self.settings = settings
        self._log = Path(settings.output)
        self.printed = self._log.with_suffix(".out")
        with self.printed.open("ab") as printed:
            self._process = subprocess.Popen(
                guarded(*command),
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=printed,
                cwd=ROOT,
                text=True,
            )
        self._send(json.dumps(dataclasses.asdict(settings)))

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # check() reports a process that has ended
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def events(self) -> list[Event]:
        """Return its log up to now."""
        return read_log(self._log)

    def check(self) -> None:
        """Raise RuntimeError if it has ended by itself."""
        code = self._process.poll()
        if code is not None:
            text = self.printed.read_text(errors="replace")[-3000:]
            name = f"{self.settings.client} ({self.settings.role})"
            raise RuntimeError(f"{name} ended by itself with {code}:\n{text}")

    def leave(self) -> None:
        """Send the command to end, without a wait."""
        self._send("leave")

    def end(self) -> None:
        """Wait for the end of a process that leaves. Kill it if it doesn't end."""
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_S)
