"""The adapter of librdkafka without Python: a C program with the library of confluent_kafka."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from importlib.metadata import files
from pathlib import Path

from bench.adapters import Figures, Task
from bench.adapters.program import BUILT, SOURCES, figures_of

SOURCE = SOURCES / "librdkafka.c"


@cache
def library() -> Path | None:
    """The shared library in confluent_kafka's wheel; None if it uses the system's."""
    found = [each for each in files("confluent-kafka") or [] if each.name.startswith("librdkafka")]
    return Path(str(found[0].locate())) if found else None


def missing() -> str | None:
    """The reason why this adapter can't run here, or None."""
    if shutil.which("cc") is None:
        return "no C compiler (cc)"
    return None if library() else "confluent_kafka came without its own librdkafka"


def build() -> Path:
    """Compile the program if its source is newer."""
    program = BUILT / "librdkafka"
    found = library()
    if found is not None and (
        not program.exists() or program.stat().st_mtime < SOURCE.stat().st_mtime
    ):
        BUILT.mkdir(parents=True, exist_ok=True)
        linked = [
            str(found),
            f"-Wl,-rpath,{found.parent}",
            "-Wl,--allow-shlib-undefined",
            "-pthread",
        ]
        subprocess.run(["cc", "-O2", "-Wall", "-o", str(program), str(SOURCE), *linked], check=True)
    return program


def _run(scenario: str, task: Task, settings: dict[str, object]) -> Figures:
    conf = [
        f"{name}={str(value).lower() if value is True else value}"
        for name, value in settings.items()
    ]
    values = b"".join(value + b"\n" for value in task.values())
    command = [build(), scenario, task.topic, task.count, task.partitions, task.threads, *conf]
    return figures_of(command, values, whole=task.whole)


def produce(task: Task) -> Figures:
    """Uses rd_kafka_produce() in a loop."""
    return _run("PRODUCE", task, task.config)


def callback(task: Task) -> Figures:
    """Like `produce`, with a delivery report for each message."""
    return _run("CALLBACK", task, task.config)


def consume(task: Task) -> Figures:
    """Uses rd_kafka_consume_batch_queue(), 10,000 at a time."""
    settings: dict[str, object] = {
        **task.servers,
        "group.id": "bench",
        "enable.auto.commit": "false",
        "queued.min.messages": 1_000_000,
        "fetch.queue.backoff.ms": 1,
    }
    return _run("CONSUME", task, settings)
