"""Faults that a process with a client makes by itself, at a command of the run."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable

from tests.harness.processes import say

CHILD_S = 30
"""A forked child that takes longer hangs, and is killed."""


def hold(seconds: int) -> None:
    """Keep the interpreter lock for so long. No other thread runs Python code."""
    ctypes.PyDLL(None).sleep(seconds)


def fork(is_refused: Callable[[], bool]) -> None:
    """Fork a child that uses the client once, and report its exit code. 0: it was refused."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(CHILD_S)
        code = 2
        try:
            code = 0 if is_refused() else 1
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    say("forked", code=os.waitstatus_to_exitcode(status))


def obey(command: str, is_refused: Callable[[], bool]) -> None:
    """Make the fault of a line: ``hold SECONDS`` or ``fork``.

    ``is_refused`` uses the client in a forked child, and returns whether the client refused that.
    """
    name, *arguments = command.split()
    if name == "hold":
        hold(int(arguments[0]))
    elif name == "fork":
        fork(is_refused)
    else:
        raise ValueError(f"there is no command {command!r}")


def listen(leaving: threading.Event, is_refused: Callable[[], bool]) -> None:
    """Obey the lines of standard input in a thread. The line ``leave`` sets the event.

    Without it, the end of the input ends the process, because the run has ended.
    """

    def read() -> None:
        for line in sys.stdin:
            if line.strip() == "leave":
                leaving.set()
            else:
                obey(line, is_refused)
        if not leaving.is_set():
            os._exit(3)

    threading.Thread(target=read, daemon=True).start()
