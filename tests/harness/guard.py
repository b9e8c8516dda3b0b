"""Becomes the command that it is given, after asking the kernel to end it together with the tests.

    python guard.py PARENT_PID COMMAND [ARGUMENT ...]

A test run that is killed runs no clean-up of its own, and a broker left behind would go on for days. Where the kernel
has no such service, only the clean-up at the end of the test run remains.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Never returns."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the test run has already ended")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
