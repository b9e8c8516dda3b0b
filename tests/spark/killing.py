"""Common parts of tests that kill Spark: a command in its own processes, and delayed responses."""

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

ALL_RESPONSES = 1_000_000
"""A count of responses that no test reaches."""
CLUSTER = "local-cluster[2,1,1024]"
_CONF = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
}


class Gate:
    """Delays responses of a mock cluster until it is opened."""

    def __init__(self) -> None:
        """Start closed."""
        self._open = threading.Event()
        self._threads: list[threading.Thread] = []

    def hold(self) -> None:
        """Wait. A connection's thread calls it."""
        if not self._open.is_set():
            self._threads.append(threading.current_thread())
            self._open.wait(WAIT_S)

    @property
    def port(self) -> int:
        """Return the port of the first delayed client, or 0. It is in the thread's name."""
        return int(self._threads[0].name.rpartition("-")[2]) if self._threads else 0

    def open(self) -> None:
        """Delay no further responses."""
        self._open.set()

    def drain(self) -> None:
        """Open the gate, and wait until the cluster has executed the requests of dead clients."""
        self.open()
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()


@contextlib.contextmanager
def closed_gate() -> Iterator[Gate]:
    """Yield a gate that is opened at the end, because the connections' threads must end too."""
    gate = Gate()
    try:
        yield gate
    finally:
        gate.open()


class Command:
    """A Python module in processes of its own, with its JVM, executors, planner and workers."""

    def __init__(self, output: Path, module: str, *arguments: object) -> None:
        """Start ``python -m``. Its output goes into a file."""
        self._output = output
        command = [sys.executable, "-m", module, *map(str, arguments)]
        self._process = started(*command, output=output, cwd=ROOT, start_new_session=True)

    def output(self) -> str:
        return self._output.read_text(encoding="utf-8", errors="replace")

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until a condition holds while the command runs."""
        wait_for(lambda: condition() or self._process.poll() is not None, what, self.output)
        assert self._process.poll() is None, self.output()

    def wait_for_success(self, timeout_s: float = WAIT_S) -> None:
        assert self._process.wait(timeout_s) == 0, self.output()

    def kill(self) -> None:
        """Kill all of its processes with SIGKILL, unless it has ended."""
        if self._process.poll() is None:
            kill_all(self._process.pid)
            self._process.wait(WAIT_S)

    def kill_executor(self, port: int) -> None:
        """Kill only the executor whose worker has this connection. The worker ends by itself."""
        worker = owner(port, descendants(self._process.pid))
        assert worker is not None, self.output()
        self.kill_executor_of(worker)

    def kill_executor_of(self, worker: int) -> None:
        """Kill only the executor of this worker, which ends by itself."""
        executor = next(each for each in ancestors(worker) if name_of(each) == "java")
        assert b"CoarseGrainedExecutorBackend" in _command_line(executor)
        os.kill(executor, signal.SIGKILL)
        wait_for(
            lambda: not (_command_line(executor) or _command_line(worker)),
            "the end of executor and worker",
        )


def _command_line(pid: int) -> bytes:
    """Return a command line, or nothing if the process has ended."""
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_bytes()
    return b""


@contextlib.contextmanager
def module_running(output: Path, module: str, *arguments: object) -> Iterator[Command]:
    """Yield ``python -m``, and kill it at the end if it still runs."""
    command = Command(output, module, *arguments)
    try:
        yield command
    finally:
        command.kill()


@contextlib.contextmanager
def running(output: Path, master: str, *arguments: object) -> Iterator[Command]:
    """Yield ``python -m kafka_native.spark ...``, and kill it at the end if it still runs."""
    conf = [f"--conf={name}={value}" for name, value in _CONF.items()]
    with module_running(
        output, "kafka_native.spark", *arguments, "--master", master, *conf
    ) as command:
        yield command
