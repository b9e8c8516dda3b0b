"""franz-go, the quickest client in Go."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from pathlib import Path

from bench.adapters import COLD_STARTS, RATE, Figures, Task
from bench.adapters.program import BUILT, SOURCES, figures_of

# go.sum has the hashes of all modules: none is added to it here, and no other Go is fetched.
STRICT = {"GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
PLACES = ("go", "/usr/local/go/bin/go", "/usr/lib/go/bin/go")


def _go() -> str | None:
    return next((found for place in PLACES if (found := shutil.which(place))), None)


def missing() -> str | None:
    """Why this adapter can't run here."""
    go = _go()
    if go is None:
        return "no Go (https://go.dev/doc/install)"
    BUILT.mkdir(parents=True, exist_ok=True)
    # Go itself knows whether the program is current. It checks modules when it fetches them; `verify` checks its cache.
    for command in ([go, "mod", "verify"], [go, "build", "-o", str(_program()), "."]):
        done = subprocess.run(
            command,
            cwd=SOURCES / "franz_go",
            env=os.environ | STRICT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return f"{' '.join(command[:2])} failed: {done.stdout}{done.stderr}"
    return None


def _program() -> Path:
    return BUILT.absolute() / "franz_go"


def _run(scenario: str, task: Task) -> Figures:
    values = [value.decode() for value in task.values()]
    more = {"scenario": scenario, "values": values, "starts": COLD_STARTS, "rate": RATE}
    text = json.dumps(dataclasses.asdict(task) | more)
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


def arrow(task: Task) -> Figures:
    """The same: what there is to compare columns with."""
    return _run("consume", task)


def poll(task: Task) -> Figures:
    """Client.PollRecords(), one at a time."""
    return _run("poll", task)


def group(task: Task) -> Figures:
    """Client.PollRecords(), 10,000 at a time, in a group; it has the classic protocol only."""
    return _run("group", task)


def cold(task: Task) -> Figures:
    """From kgo.NewClient() to the first record in a group."""
    return _run("cold", task)


def end_to_end(task: Task) -> Figures:
    """A goroutine produces at a steady rate, another one polls."""
    return _run("end_to_end", task)
