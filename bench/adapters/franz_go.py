"""franz-go, the quickest client in Go."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path

from bench.adapters import Figures, Task
from bench.adapters.program import BUILT, SOURCES, figures_of

PLACES = ("go", "/usr/local/go/bin/go", "/usr/lib/go/bin/go")


def _go() -> str | None:
    return next((found for place in PLACES if (found := shutil.which(place))), None)


def missing() -> str | None:
    """Why this adapter can't run here."""
    go = _go()
    if go is None:
        return "no Go (https://go.dev/doc/install)"
    BUILT.mkdir(parents=True, exist_ok=True)
    command = [go, "build", "-o", str(_program()), "."]  # Go itself knows whether it is current
    done = subprocess.run(command, cwd=SOURCES / "franz_go", capture_output=True, text=True, check=False)
    return f"go build failed: {done.stderr}" if done.returncode else None


def _program() -> Path:
    return BUILT.absolute() / "franz_go"


def _run(scenario: str, task: Task) -> Figures:
    values = [value.decode() for value in task.values()]
    text = json.dumps(dataclasses.asdict(task) | {"scenario": scenario, "values": values})
    return figures_of([_program()], text.encode())


def produce(task: Task) -> Figures:
    """Client.Produce() in a loop."""
    return _run("produce", task)


def callback(task: Task) -> Figures:
    """The same, each delivery counted by its callback."""
    return _run("callback", task)


def consume(task: Task) -> Figures:
    """Client.PollRecords(), 10,000 at a time."""
    return _run("consume", task)
