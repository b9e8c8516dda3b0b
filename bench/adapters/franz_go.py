"""The adapter of franz-go, the fastest client in Go."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import partial
from pathlib import Path

from bench.adapters import Figures, Task
from bench.adapters.program import BUILT, SOURCES, run

# go.sum has the hashes of all modules. No hash is added here, and no other version of Go is
# downloaded.
STRICT = {"GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
PLACES = ("go", "/usr/local/go/bin/go", "/usr/lib/go/bin/go")


def _go() -> str | None:
    return next((found for place in PLACES if (found := shutil.which(place))), None)


def missing() -> str | None:
    """The reason why this adapter can't run here, or None."""
    go = _go()
    if go is None:
        return "no Go (https://go.dev/doc/install)"
    BUILT.mkdir(parents=True, exist_ok=True)
    # Go builds the program only if it is out of date. It checks modules after a download;
    # `verify` checks its cache.
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
    return run([_program()], scenario, task)


produce = partial(_run, "produce")  # Client.Produce() in a loop
callback = partial(_run, "callback")  # the same, with a counting callback for each delivery
consume = partial(_run, "consume")  # Client.PollRecords(), 10,000 at a time
arrow = consume  # for the comparison with columns
poll = partial(_run, "poll")  # Client.PollRecords(), one at a time
group = partial(_run, "group")  # Client.PollRecords() in a group with the classic protocol
cold = partial(_run, "cold")  # from kgo.NewClient() to the first record in a group
end_to_end = partial(_run, "end_to_end")  # one goroutine produces at a steady rate, one polls
round_trip = partial(_run, "round_trip")  # Client.Produce() at a steady rate, to each promise
