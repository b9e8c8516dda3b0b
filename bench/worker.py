"""The process of one measurement: ``python -m bench.worker ADAPTER SCENARIO``.

The task is JSON on stdin.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys

from bench.adapters import Task


def main() -> None:
    """Run the scenario and print its figures as JSON."""
    adapter, scenario = sys.argv[1:]
    task = Task(**json.load(sys.stdin))
    figures = getattr(importlib.import_module(f"bench.adapters.{adapter}"), scenario)(task)
    print(json.dumps(dataclasses.asdict(figures)))


if __name__ == "__main__":
    main()
