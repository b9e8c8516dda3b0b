"""The CPU time of a process and all that came of it, from /proc."""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(root: int) -> float:
    """User and system time of a process and its descendants, those that have ended included.

    What has ended is in its parent's figures from the moment on that its parent has waited for it.
    """
    used: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
        # The name may hold anything, so count from its closing parenthesis: state, parent, ... see proc(5).
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
