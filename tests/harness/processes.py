"""Whose socket it is, and who is whose child: from Linux's /proc."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")


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
