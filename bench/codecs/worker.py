"""The process of one measurement: ``python -m bench.codecs.worker``, with the work as JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections import deque
from contextlib import ExitStack

from bench.adapters import Figures, Stopwatch
from bench.codecs import CHUNK, FROM_TOPIC, MESSAGES, Work, contestants, topic


def measured(work: Work) -> Figures:
    """Decode chunks, after one that warms up."""
    with ExitStack() as stack:
        prepared = contestants.prepare(work.scenario, work.contestant, stack)
        decode = prepared
        if work.scenario in MESSAGES:
            decode = lambda: deque(prepared(), maxlen=0)  # noqa: E731
        decode()
        watch, count = Stopwatch(), 0
        while True:
            decode()
            count += CHUNK
            figures = watch.figures(count)
            if figures.seconds >= work.seconds:
                return figures


def main() -> None:
    """Run the work and print its figures as JSON."""
    work = Work(**json.load(sys.stdin))
    figures = topic.measured(work) if work.scenario in FROM_TOPIC else measured(work)
    figures.more["M records/s"] = figures.rate / 1e6
    print(json.dumps(dataclasses.asdict(figures)))


if __name__ == "__main__":
    main()
