"""The process of one measurement: ``python -m bench.worker ADAPTER SCENARIO STARTED``.

The task is JSON on stdin. ``STARTED`` is the time when the process was started, for the scenarios
that measure all of it.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import resource
import sys
import time

from bench.adapters import PROGRAMS, Task
from bench.adapters.program import peak_mib


def main() -> None:
    """Run the scenario and print its figures as JSON."""
    adapter, scenario, started = sys.argv[1:]
    task = Task(**json.load(sys.stdin))
    figures = getattr(importlib.import_module(f"bench.adapters.{adapter}"), scenario)(task)
    if adapter not in PROGRAMS:
        figures.peak_mib = peak_mib()
        if task.whole:
            usage = resource.getrusage(resource.RUSAGE_SELF)
            figures.seconds = time.time() - float(started)
            figures.cpu_seconds = usage.ru_utime + usage.ru_stime
    print(json.dumps(dataclasses.asdict(figures)))


if __name__ == "__main__":
    main()
