"""Processes that end with the tests, and, from Linux's /proc, whose child and whose socket is whose."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

PROC = Path("/proc")
ROOT = Path(__file__).resolve().parents[2]
GUARD = Path(__file__).with_name("guard.py")


def guarded(*command: str) -> list[str]:
    """The command line of a process that ends together with this thread (see guard.py)."""
    return [sys.executable, "-S", str(GUARD), str(os.getpid()), *command]


def started(*command: str, output: Path, **options: Any) -> subprocess.Popen[bytes]:
    """A guarded process that reads nothing, and appends what it prints to a file."""
    with output.open("ab") as printed:
        return subprocess.Popen(guarded(*command), stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, **options)


class Child:
    """A module of ours in a guarded process: a line with its settings on its standard input, then commands."""

    def __init__(self, module: str, settings: Any, output: Path) -> None:
        """``settings`` is a dataclass; the module gets it as JSON. What it prints is appended to ``output``."""
        with output.open("ab") as printed:
            self._process = subprocess.Popen(
                guarded(sys.executable, "-m", module),
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=printed,
                cwd=ROOT,
                text=True,
            )
        self.resume_at: float | None = None
        """When one that is stopped is to go on."""
        self.tell(json.dumps(asdict(settings)))

    def tell(self, line: str) -> None:
        """A command; a process that has just died doesn't read it."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def kill(self) -> None:
        """With SIGKILL."""
        self._process.kill()
        self._process.wait(20)

    def stop(self, seconds: float) -> None:
        """Freezes it; who has it resumes it in time."""
        self._process.send_signal(signal.SIGSTOP)
        self.resume_at = time.monotonic() + seconds

    def resume(self) -> None:
        """Lets one that is stopped go on."""
        if self.resume_at is not None:
            self._process.send_signal(signal.SIGCONT)
            self.resume_at = None

    def leave(self) -> None:
        """Tells it to end."""
        self.tell("leave")

    def code(self) -> int | None:
        """How it has ended; None: not yet."""
        return self._process.poll()


def say(event: str, **values: Any) -> None:
    """A line for the run, in one write: a process that is killed leaves whole ones."""
    os.write(1, json.dumps({"e": event, **values}).encode() + b"\n")


def said(directory: Path) -> Iterator[dict[str, Any]]:
    """What the processes of a run have said, without the noise."""
    for output in directory.glob("*.out"):
        for line in output.read_text(errors="replace").splitlines():
            if line.startswith('{"e"'):
                yield json.loads(line)


def _parents() -> dict[int, int]:
    found = {}
    for folder in PROC.iterdir():
        with suppress(OSError):  # it may have ended by now
            if folder.name.isdigit():
                found[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    return found


def descendants(root: int) -> set[int]:
    """All processes that stem from one, itself among them, as far as those between live."""
    parents, found = _parents(), {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def kill_all(root: int) -> None:
    """SIGKILL to all processes that stem from one, and to itself."""
    for pid in descendants(root):
        with suppress(ProcessLookupError):  # its parent's end was its own, too
            os.kill(pid, signal.SIGKILL)


def ancestors(pid: int) -> Iterator[int]:
    """Its parent, the parent of that, and so on."""
    parents = _parents()
    while pid := parents.get(pid, 0):
        yield pid


def name_of(pid: int) -> str:
    """The program's; empty if it has ended."""
    with suppress(OSError):
        return (PROC / str(pid) / "comm").read_text().strip()
    return ""


def owner(port: int, among: set[int]) -> int | None:
    """Which of these processes has the connection with this port of its own."""
    inodes = set()
    for line in (PROC / "net" / "tcp").read_text().splitlines()[1:]:
        words = line.split()
        if int(words[1].partition(":")[2], 16) == port:
            inodes.add(f"socket:[{words[9]}]")
    for pid in among:
        with suppress(OSError):
            for each in (PROC / str(pid) / "fd").iterdir():
                with suppress(OSError):
                    if os.readlink(each) in inodes:
                        return pid
    return None
