"""The adapter of kafkarrow, which only reads, and only as columns.

It orders the messages of all partitions by time.
"""

from __future__ import annotations

import time
from functools import partial
from importlib.util import find_spec

from bench.adapters import Figures, Stopwatch, Task, import_time
from bench.adapters.consumer_api import ROWS, WAIT_S

POLL_MS = 20

imports = partial(import_time.imports, "kafkarrow", "ConsumerManager, SourceTopic")


def missing() -> str | None:
    """The reason why this adapter can't run here, or None."""
    return None if find_spec("kafkarrow") else "kafkarrow is not installed"


def arrow(task: Task) -> Figures:
    """Read with poll(), up to 100,000 rows a call, from the second call on.

    At times poll() waits for its timeout and returns no rows, although there are more.
    """
    from kafkarrow import ConsumerManager, SourceTopic

    conf = {"bootstrap.servers": task.bootstrap, "queued.min.messages": "1000000"}
    size = min(ROWS, task.count // 2)
    manager = ConsumerManager(conf, [SourceTopic.from_earliest(task.topic)], batch_size=size)

    def rows() -> int:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            if count := manager.poll(timeout_ms=POLL_MS).num_rows:
                return int(count)
        raise RuntimeError(f"only {taken} of {task.count} messages came")

    taken = 0
    first = taken = rows()
    watch = Stopwatch()
    while taken < task.count:
        taken += rows()
    return watch.figures(taken - first)
