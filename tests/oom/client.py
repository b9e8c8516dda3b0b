"""The process whose calls fail. It forks a child for each order, and reports the child's end.

Only children start threads, so forking is safe here, and a run needs no new interpreter.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import json
import os
import pkgutil
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import kafka_native._native
from tests.oom.scenarios import BAD, SCENARIOS
from tests.oom.steps import BadEndingError, Run


def _watch() -> ctypes.CDLL:
    """Load the preloaded library, which watches every extension."""
    for module in pkgutil.iter_modules(kafka_native._native.__path__):
        if not module.name.startswith("lib"):
            importlib.import_module(f"kafka_native._native.{module.name}")
    library = ctypes.CDLL(None)
    library.oom_fail.argtypes = [ctypes.c_uint64, ctypes.c_long, ctypes.c_int]
    library.oom_write.argtypes = [ctypes.c_char_p]
    if library.oom_watch() < 2:
        raise SystemExit("the preloaded library doesn't find the extensions")
    return library


def _child(library: ctypes.CDLL, order: dict[str, Any]) -> dict[str, Any]:
    """Run the scenario, and return its result."""
    scenario = (SCENARIOS | BAD)[order["scenario"]].run
    run = Run(
        order["conf"], order["prefix"], order["limit_s"], lambda: bool(library.oom_has_failed())
    )
    if order["site"] is not None:
        library.oom_fail(int(order["site"], 16), order["nth"], order["error"])
    bad = None
    try:
        scenario(run)
    except BadEndingError as error:
        bad = f"{error}"
    except BaseException:
        bad = traceback.format_exc()
    try:
        if bad is None:
            run.check_freed()
    except BadEndingError as error:
        bad = f"{error}"
    if bad is not None:
        faulthandler.dump_traceback()
    library.oom_write(order["sites"].encode())
    return {
        "bad": bad,
        "raised": run.raised,
        "acked": run.acked,
        "failed": bool(library.oom_has_failed()),
    }


def _wait(pid: int, hard_s: float) -> int:
    """Return the child's exit status as in `subprocess`. Kill it after its time."""
    deadline = time.monotonic() + hard_s
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            deadline = float("inf")
        time.sleep(0.005)


def main() -> int:
    """Read one order a line, and print one line for each. Return the status."""
    library = _watch()
    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        pid = os.fork()
        if pid:
            print(_wait(pid, order["hard_s"] + 5), flush=True)
            continue
        output = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        faulthandler.enable()
        faulthandler.dump_traceback_later(order["hard_s"], exit=True)
        outcome = _child(library, order)
        Path(order["result"]).write_text(json.dumps(outcome))
        if outcome["bad"] is not None:
            os._exit(1)  # at once: a failed run may not be able to end normally
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
