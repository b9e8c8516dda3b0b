"""How long a client's import takes, and the size of its installed files."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from bench.adapters import Figures, Stopwatch, Task

TIMES = 7
MIB = 2**20
SOURCES = {".pyx", ".pxd", ".c", ".h", ".pyc"}
"""Kinds of files that a wheel doesn't have, but a checkout or a used installation does."""


def imports(module: str, task: Task) -> Figures:
    """Measure ``import module`` in new processes, less the start of Python itself."""
    watch = Stopwatch()
    empty = [_started("pass") for _ in range(TIMES)]
    loaded = [_started(f"import {module}") for _ in range(TIMES)]
    figures = watch.figures(TIMES)
    figures.more = {
        "import ms": (median(loaded) - median(empty)) * 1e3,
        "installed MiB": installed_bytes(module) / MIB,
    }
    return figures


def _started(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - started


def installed_bytes(module: str) -> int:
    """Return the bytes of a package's files, with the libraries that its wheel brought along."""
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"{module} is not an installed package")
    folder = Path(spec.submodule_search_locations[0])
    folders = [folder, *folder.parent.glob(f"{module}*.libs")]
    files = (file for each in folders for file in each.rglob("*"))
    return sum(
        file.stat().st_size for file in files if file.is_file() and file.suffix not in SOURCES
    )
