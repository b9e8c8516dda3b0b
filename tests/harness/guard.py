"""Runs a command that the kernel ends together with the tests.

    python guard.py PARENT_PID COMMAND [ARGUMENT ...]

A killed test run can't clean up, and a leftover broker would run for days. If the kernel has no
such service, only the clean-up at the end of the test run remains.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Replace this process by the command. Never returns."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the test run has already ended")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
