"""Runs a program on the simulated machine of `machine.c`, and finds the faults that it needs."""

from __future__ import annotations

import atexit
import ctypes
import functools
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tests.harness.builds import ROOT, compiler
from tests.sim.faults import Fault

FOLDER = Path(__file__).parent
WORKLOAD = Path("inside", "workload.py")
LIBRARY = "machine.so"
SOURCES = ("machine.c", "network.c")
SHARED = (ROOT / "tests/broker/payload.py", ROOT / "tests/broker/acked/ledger.py")
"""Modules of the acked runs that the program uses, too."""
FIXED_ADDRESSES = 0x0040000  # ADDR_NO_RANDOMIZE: sets of objects are in the order of addresses
TIMEOUT_S = 3600.0


class Unsimulated(Exception):
    """This system can't run the machine. The text says why."""


@dataclass
class Options:
    """What a run simulates.

    ``seconds``: of simulated time until the end of the faults. ``pace_s``: the mean time between
    two bursts of a producer. ``bug``: a mistake of `inside.bugs`.
    """

    seed: int = 0
    seconds: float = 600.0
    pace_s: float = 1.0
    bug: str = ""
    faults: list[Fault] = field(default_factory=list)


@dataclass
class Outcome:
    """The end of a run. Two runs with the same options have the same ``digest``."""

    options: Options
    digest: str
    seconds: float  # simulated
    switches: int
    carried_bytes: int
    result: dict[str, Any]


@functools.cache
def build(folder: Path | None = None) -> Path:
    """Make a folder with the machine and copies of the programs. Raises `Unsimulated`.

    Nobody else writes to the copies. So no run differs from the next one by what Python finds in
    their folders, or compiles.
    """
    if not (sys.platform == "linux" and sys.implementation.name == "cpython"):
        raise Unsimulated("the machine needs Linux and CPython")
    if folder is None:
        folder = Path(mkdtemp(prefix="kafka-native-machine-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    flags = ["-O2", "-g", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden"]
    try:
        subprocess.run(
            [*compiler(), *flags, "-o", folder / LIBRARY, *(FOLDER / name for name in SOURCES)],
            check=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unsimulated(f"no C compiler builds the machine: {error}") from None
    for source in (ROOT / "kafka_native", FOLDER / "inside"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, folder / source.name, ignore=ignored)
    for module in SHARED:
        shutil.copy(module, folder / "inside")
    command = [sys.executable, folder / WORKLOAD, "--import"]
    subprocess.run(command, check=True, env=_environment(folder), cwd=folder)
    return folder


def _environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": str(folder),
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
    }


def _prepare_process() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if ctypes.CDLL(None).personality(FIXED_ADDRESSES) < 0:
        os._exit(125)


def simulate(options: Options, folder: Path | None = None, trace: Path | None = None) -> Outcome:
    """Run the workload on the machine. Raises RuntimeError with what it said if it fails.

    ``folder``: what `build()` has returned.
    """
    folder = folder or build()
    environment = _environment(folder) | {
        "MALLOC_ARENA_MAX": "1",
        "MACHINE_SEED": str(options.seed),
        "LD_PRELOAD": str(folder / LIBRARY),
    }
    if trace:
        environment["MACHINE_TRACE"] = str(trace)
    done = subprocess.run(
        [sys.executable, "-B", folder / WORKLOAD],
        input=json.dumps(asdict(options)),
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        preexec_fn=_prepare_process,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode == 125:
        raise Unsimulated("the system doesn't fix the addresses of a process (personality)")
    if done.returncode:
        raise RuntimeError(f"the run ended with {done.returncode}: {done.stderr[-9000:]}")
    return Outcome(options, **json.loads(done.stdout.splitlines()[-1]))


def needed(faults: Sequence[Fault], fails: Callable[[Sequence[Fault]], bool]) -> list[Fault]:
    """Return a part of the faults that still fails, and no longer does without any one of them.

    It leaves out ever smaller parts (delta debugging, Zeller 1999).
    """
    left = list(faults)
    size = len(left)
    while size:
        for start in range(0, len(left), size):
            fewer = left[:start] + left[start + size :]
            if len(fewer) < len(left) and fails(fewer):
                left = fewer
                break
        else:
            size //= 2
        size = min(size, len(left))
    return left
