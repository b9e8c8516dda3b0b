"""Processes that end with the tests, and the owners of processes and sockets in Linux's /proc."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.waiting import PROGRAM_S

PROC = Path("/proc")
ROOT = Path(__file__).resolve().parents[2]
FILES_MIN = 8
"""A process has so many files open from its start to its end."""
GUARD = Path(__file__).with_name("guard.py")


def guarded(*command: str) -> list[str]:
    """Return the command line of a process that ends together with this thread (see guard.py)."""
    return [sys.executable, "-S", str(GUARD), str(os.getpid()), *command]


def started(*command: str, output: Path, **options: Any) -> subprocess.Popen[bytes]:
    """Start a guarded process without input. Its output is appended to a file."""
    with output.open("ab") as printed:
        return subprocess.Popen(
            guarded(*command),
            **{"stdin": subprocess.DEVNULL, "stdout": printed, "stderr": printed, **options},
        )


def output(*command: str, **how: Any) -> str:
    """Run a program to its end, and return its output.

    A failure is an AssertionError with all output.
    """
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PROGRAM_S, check=False, **how
    )
    assert done.returncode == 0, (
        f"{command[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    )
    return done.stdout


class Process:
    """A guarded process that faults kill and freeze."""

    def __init__(self, *command: str, output: Path, **options: Any) -> None:
        """Its output is appended to ``output``. ``options`` are those of ``subprocess.Popen``."""
        self._process = started(*command, output=output, cwd=ROOT, **options)
        self.unlimit_at: float | None = None
        """The time at which the process must get file descriptors again."""
        self.resume_at: float | None = None
        """The time at which a stopped process must be resumed."""

    def send(self, line: str) -> None:
        """Send a command to its standard input. A process that has just died doesn't read it."""
        assert self._process.stdin is not None, "a process without input gets no command"
        with suppress(BrokenPipeError):
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._process.kill()
        self._process.wait(20)

    def stop(self, seconds: float) -> None:
        """Freeze the process and those that it has started. The caller must resume it in time."""
        self._signal_all(signal.SIGSTOP)
        self.resume_at = time.monotonic() + seconds

    def resume(self) -> None:
        """Resume a frozen process."""
        if self.resume_at is not None:
            self._signal_all(signal.SIGCONT)
            self.resume_at = None

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in descendants(self._process.pid):
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, number)

    def limit_files(self, seconds: float) -> None:
        """Let the process, and those it has started, open no more files and sockets.

        The caller must end that in time.
        """
        self._set_files_max(FILES_MIN)
        self.unlimit_at = time.monotonic() + seconds

    def unlimit_files(self) -> None:
        """End `limit_files()`."""
        if self.unlimit_at is not None:
            self._set_files_max(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
            self.unlimit_at = None

    def _set_files_max(self, count: int) -> None:
        for pid in descendants(self._process.pid):
            with suppress(ProcessLookupError):  # it has just ended
                hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, hard))

    def leave(self) -> None:
        """Send the command to end."""
        self.send("leave")

    def code(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._process.poll()


class Child(Process):
    """A module of ours in a guarded process.

    Its standard input is a line of settings, then commands.
    """

    def __init__(
        self,
        module: str,
        settings: Any,
        output: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``settings`` is a dataclass. The module gets it as JSON.

        Its output is appended to ``output``. ``environment`` is by default that of the tests.
        """
        command = sys.executable, "-m", module
        super().__init__(*command, output=output, stdin=subprocess.PIPE, env=environment)
        self.send(json.dumps(asdict(settings)))


def say(event: str, **values: Any) -> None:
    """Print a line for the run in one write, so that a killed process leaves only whole lines."""
    os.write(1, json.dumps({"e": event, **values}).encode() + b"\n")


def said(directory: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a run's processes, without other output."""
    for output in directory.glob("*.out"):
        for line in output.read_text(errors="replace").splitlines():
            if line.startswith('{"e"'):
                yield json.loads(line)


def _parents() -> dict[int, int]:
    found = {}
    for folder in PROC.iterdir():
        with suppress(OSError):  # it may have ended by now
            if folder.name.isdigit():
                found[int(folder.name)] = int(
                    (folder / "stat").read_text().rpartition(")")[2].split()[1]
                )
    return found


def descendants(root: int) -> set[int]:
    """Return a process and its descendants, as far as the processes between them are alive."""
    parents, found = _parents(), {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def kill_all(root: int) -> None:
    """Send SIGKILL to a process and all its descendants."""
    for pid in descendants(root):
        with suppress(ProcessLookupError):  # it ended together with its parent
            os.kill(pid, signal.SIGKILL)


def ancestors(pid: int) -> Iterator[int]:
    """Yield the parent, its parent, and so on."""
    parents = _parents()
    while pid := parents.get(pid, 0):
        yield pid


def name_of(pid: int) -> str:
    """Return the program's name, or an empty string if it has ended."""
    with suppress(OSError):
        return (PROC / str(pid) / "comm").read_text().strip()
    return ""


def owner(port: int, among: set[int]) -> int | None:
    """Return the process that owns the connection with this local port."""
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
