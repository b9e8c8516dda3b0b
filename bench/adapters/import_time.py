"""The CPU time of importing a client's classes, and the size of its installed files."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from bench.adapters import Figures, Stopwatch, Task

TIMES = 7
MIB = 2**20
SOURCES = {".pyx", ".pxd", ".c", ".h", ".pyc"}
"""Kinds of files that a wheel doesn't have, but a checkout or a used installation does."""


def imports(module: str, classes: str, task: Task) -> Figures:
    """Measure ``from module import classes`` in new processes, less the start of Python itself.

    Some packages load a class only when it is used first. So ``import module`` alone says little.
    """
    watch = Stopwatch()
    empty = [_cpu_s("pass") for _ in range(TIMES)]
    loaded = [_cpu_s(f"from {module} import {classes}") for _ in range(TIMES)]
    figures = watch.figures(TIMES)
    figures.more = {
        "import CPU ms": (median(loaded) - median(empty)) * 1e3,
        "installed MiB": installed_bytes(module) / MIB,
    }
    return figures


def _cpu_s(code: str) -> float:
    """The CPU time of a new process. The first one may compile the modules to bytecode."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    before = _of_children_s()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    return _of_children_s() - before


def _of_children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
