"""What the tests that kill Spark share: a command in processes of its own, and answers that are held back meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.harness.processes import PROC, ancestors, descendants, kill_all, name_of, owner, started
from tests.spark.conftest import ROOT
from tests.spark.streams import WAIT_S, wait_for

EVER = 1_000_000
"""So many answers pass a gate."""
CLUSTER = "local-cluster[2,1,1024]"
_CONF = {"spark.driver.memory": "1g", "spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m"}


class Gate:
    """Holds answers of a mock cluster back, until it is opened."""

    def __init__(self) -> None:
        """Shut."""
        self._open = threading.Event()
        self._threads: list[threading.Thread] = []

    def hold(self) -> None:
        """Called by a connection's thread: waits."""
        if not self._open.is_set():
            self._threads.append(threading.current_thread())
            self._open.wait(WAIT_S)

    @property
    def port(self) -> int:
        """Of the client whose answer is held back, the first of them, after which its thread is named; 0: none is."""
        return int(self._threads[0].name.rpartition("-")[2]) if self._threads else 0

    def open(self) -> None:
        """Nothing is held back any more."""
        self._open.set()

    def drained(self) -> None:
        """Opens it, and waits until the cluster has done all that clients who are dead now have asked for."""
        self.open()
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()


@contextlib.contextmanager
def shut() -> Iterator[Gate]:
    """A gate that is opened at the end, for the connections' threads have to end, too."""
    gate = Gate()
    try:
        yield gate
    finally:
        gate.open()


class Command:
    """``python -m kafka_native.spark ...``, with its JVM, executors, planner and Python workers."""

    def __init__(self, said: Path, master: str, *arguments: object) -> None:
        """Starts it; what it says goes into a file."""
        self._said = said
        conf = [f"--conf={name}={value}" for name, value in _CONF.items()]
        command = [sys.executable, "-m", "kafka_native.spark", *map(str, arguments), "--master", master, *conf]
        self._process = started(*command, output=said, cwd=ROOT, start_new_session=True)

    def said(self) -> str:
        """All that it has said."""
        return self._said.read_text(encoding="utf-8", errors="replace")

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Until something is the case, for which the command must be there."""
        wait_for(lambda: condition() or self._process.poll() is not None, what, self.said)
        assert self._process.poll() is None, self.said()

    def completed(self) -> None:
        """Waits for its end, which must be a good one."""
        assert self._process.wait(WAIT_S) == 0, self.said()

    def kill(self) -> None:
        """All of its processes with SIGKILL, unless it has ended."""
        if self._process.poll() is None:
            kill_all(self._process.pid)
            self._process.wait(WAIT_S)

    def kill_executor(self, port: int) -> None:
        """With SIGKILL the executor alone whose worker has this connection; its worker ends by itself."""
        worker = owner(port, descendants(self._process.pid))
        assert worker is not None, self.said()
        executor = next(each for each in ancestors(worker) if name_of(each) == "java")
        assert b"CoarseGrainedExecutorBackend" in _command_line(executor)
        os.kill(executor, signal.SIGKILL)
        wait_for(lambda: not (_command_line(executor) or _command_line(worker)), "the end of executor and worker")


def _command_line(pid: int) -> bytes:
    """Empty if the process has ended."""
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_bytes()
    return b""


@contextlib.contextmanager
def running(said: Path, master: str, *arguments: object) -> Iterator[Command]:
    """A command that is killed at the end, if it is still there."""
    command = Command(said, master, *arguments)
    try:
        yield command
    finally:
        command.kill()
