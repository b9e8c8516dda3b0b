"""Runs peers that aren't Python: programs in bench/peers, built on first use."""

from __future__ import annotations

import dataclasses
import json
import re
import resource
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE

from bench.adapters import COLD_STARTS, Figures, Task

SOURCES = Path(__file__).parent.parent / "peers"
BUILT = Path("build/bench")
TIMEOUT_S = 300


PEAK_INTERVAL_S = 0.02


def figures_of(command: Sequence[object], stdin: bytes, *, whole: bool = False) -> Figures:
    """Run a program that prints its figures as JSON.

    :param whole: Whether the figures are those of the whole process, from its start to its end.
    """
    words = [str(word) for word in command]
    before, started = _children_cpu(), time.perf_counter()
    with subprocess.Popen(words, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        ended = threading.Event()
        peak: list[float] = [0.0]
        watcher = threading.Thread(target=_watch, args=(process.pid, ended, peak))
        watcher.start()
        try:
            output, errors = process.communicate(stdin, TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        finally:
            seconds = time.perf_counter() - started
            ended.set()
            watcher.join()
    if process.returncode:
        raise RuntimeError(f"{words[0]} failed: {errors.decode(errors='replace')}")
    figures = Figures(**json.loads(output))
    figures.peak_mib = peak[0]
    if whole:
        figures.seconds, figures.cpu_seconds = seconds, _children_cpu() - before
    return figures


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _watch(pid: int, ended: threading.Event, peak: list[float]) -> None:
    """Read the peak of a process's memory until it ends. The kernel forgets it then."""
    while not ended.wait(PEAK_INTERVAL_S):
        peak[0] = max(peak[0], peak_mib(pid))


def peak_mib(pid: int | str = "self") -> float:
    """Return the peak of a process's resident memory; 0 if it has ended. Linux only."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    found = re.search(r"^VmHWM:\s*(\d+) kB", text, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def run(command: Sequence[object], scenario: str, task: Task) -> Figures:
    """Run a program that reads its task as JSON."""
    values = [value.decode() for value in task.values()]
    more = {"scenario": scenario, "values": values, "starts": COLD_STARTS}
    stdin = json.dumps(dataclasses.asdict(task) | more).encode()
    return figures_of(command, stdin, whole=task.whole)
