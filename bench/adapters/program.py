"""Runs peers that aren't Python: programs in bench/peers, built on first use."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.adapters import COLD_STARTS, RATE, Figures, Task

SOURCES = Path(__file__).parent.parent / "peers"
BUILT = Path("build/bench")
TIMEOUT_S = 300


def figures_of(command: Sequence[object], stdin: bytes) -> Figures:
    """Run a program that prints its figures as JSON."""
    words = [str(word) for word in command]
    done = subprocess.run(words, input=stdin, capture_output=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{words[0]} failed: {done.stderr.decode(errors='replace')}")
    return Figures(**json.loads(done.stdout))


def run(command: Sequence[object], scenario: str, task: Task) -> Figures:
    """Run a program that reads its task as JSON."""
    values = [value.decode() for value in task.values()]
    more = {"scenario": scenario, "values": values, "starts": COLD_STARTS, "rate": RATE}
    return figures_of(command, json.dumps(dataclasses.asdict(task) | more).encode())
