"""The CPU time of a process and its descendants, from /proc."""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(root: int) -> float:
    """The user and system time of a process and its descendants, including ended ones.

    The figures of an ended process are added to its parent's when the parent waits for it.
    """
    used: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):  # the process has just ended
            continue
        # The name may have any characters. So count fields from its closing parenthesis: state,
        # parent, ... see proc(5).
        fields = text[text.rindex(")") + 2 :].split()
        number = int(entry.name)
        children.setdefault(int(fields[1]), []).append(number)
        used[number] = sum(int(field) for field in fields[11:15])  # utime, stime, cutime, cstime
    total, open_ = 0, [root]
    while open_:
        number = open_.pop()
        total += used.get(number, 0)
        open_ += children.get(number, [])
    return total / TICKS
