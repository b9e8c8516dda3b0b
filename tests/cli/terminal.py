"""A terminal for a program: tests read its output, and type."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.cli.running import PROGRAM, environment

WAIT_S = 100.0


class Terminal:
    """A process whose stdin, stdout and stderr are one terminal."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.shown = ""
        self.data = b""
        self._master = master

    def wait_for(self, text: str, times: int = 1) -> str:
        """Wait until a text was shown this number of times, and return everything shown."""
        deadline = time.monotonic() + WAIT_S
        while self.shown.count(text) < times:
            assert time.monotonic() < deadline, f"{text!r} isn't there: {self.shown!r}"
            assert self._read(), f"it has ended without {text!r}: {self.shown!r}"
        return self.shown

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def end(self) -> int:
        """Wait for the end, and return the exit status."""
        deadline = time.monotonic() + WAIT_S
        while self._read():
            assert time.monotonic() < deadline, f"it doesn't end: {self.shown!r}"
        return self.process.wait(WAIT_S)

    def _read(self) -> bool:
        if not select.select([self._master], [], [], 0.2)[0]:
            return self.process.poll() is None
        try:
            data = os.read(self._master, 65536)
        except OSError:  # Linux: the other end is closed
            return False
        self.data += data
        self.shown += data.decode(errors="replace")
        return bool(data)


def output_on_terminal(command: Sequence[str], stream: str) -> tuple[bytes, bytes]:
    """Run a program with one output stream on a terminal, the other one in a pipe.

    :param stream: ``stdout`` or ``stderr``.
    :returns: The output on the terminal, and that in the pipe.
    """
    master, slave = pty.openpty()
    env = environment(TERM="xterm-256color", COLUMNS="80")
    env.pop("NO_COLOR")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: slave}
    shown = b""
    with subprocess.Popen(command, env=env, **pipes) as process:  # type: ignore[call-overload]
        os.close(slave)
        try:
            while chunk := os.read(master, 65536):
                shown += chunk
        except OSError:
            pass  # Linux: EIO, the other end is closed
        pipe = process.stderr if stream == "stdout" else process.stdout
        piped: bytes = pipe.read()
        assert process.wait(WAIT_S) == 0
    os.close(master)
    return shown, piped


@contextmanager
def terminal(
    *arguments: str, columns: int = 120, program: Sequence[str] = PROGRAM
) -> Iterator[Terminal]:
    """Start `kafka-native` or another program on a new terminal, and kill it after the block."""
    master, slave = pty.openpty()
    env = environment(TERM="xterm", COLUMNS=str(columns), LINES="40")
    env.pop("NO_COLOR")
    ends = {"stdin": slave, "stdout": slave, "stderr": slave}
    try:
        with subprocess.Popen(
            [*program, *arguments], env=env, start_new_session=True, **ends
        ) as process:  # type: ignore[call-overload]
            os.close(slave)
            try:
                yield Terminal(process, master)
            finally:
                if process.poll() is None:
                    process.kill()
    finally:
        os.close(master)
