"""How long the scenarios of a run take, from the figures of an earlier run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from bench.adapters import LATENCIES, PRODUCING, READING, Task
from bench.report import Rounds
from bench.variants import base_of

# Of one measurement: the start of its process, the topic, and the broker's way to rest.
RUN_S = 1.5
ROUND_S = 1.0  # the produce run that a round of consumers reads
PARTITION_S = 0.004  # to make, count and delete a partition
MESSAGE_S = 2e-6  # of a client that no earlier run has measured
COUNTED = ("cold", "imports", "call")  # their number of repetitions is their own
COUNTED_S = 5.0
WAIT_S = 1e-3  # the same, one message at a time
SHARED_PARTITIONS = 1000  # a topic with so many takes long to make: producers share it


@dataclass(frozen=True)
class Estimate:
    """The seconds of a scenario with all its clients and rounds."""

    scenario: str
    seconds: float


def estimate(
    scenario: str, adapters: list[str], task: Task, rounds: int, measured: Mapping[str, Rounds]
) -> Estimate:
    """Estimate a scenario. ``task`` has its settings, ``measured`` an earlier run's figures."""
    base = base_of(scenario)
    known = measured.get(scenario) or measured.get(base) or {}
    # Some clients run fewer messages than the others.
    count = max((each.count for every in known.values() for each in every), default=0)
    each_s = 0.0
    for adapter in adapters:
        if base in ("end_to_end", "round_trip"):
            measured_s = task.count / task.rate
        elif known.get(adapter):
            seconds = median(each.seconds for each in known[adapter])
            measured_s = seconds * (1 if base in COUNTED else task.count / count)
        elif base in COUNTED:
            measured_s = COUNTED_S
        else:
            measured_s = task.count * (WAIT_S if base in LATENCIES else MESSAGE_S)
        each_s += RUN_S + measured_s + _topic_s(base, task)
    round_s = ROUND_S if base in READING else 0.0
    if shares_topic(base, task):
        round_s += _topic_s("", task)
    return Estimate(scenario, rounds * (each_s + round_s))


def shares_topic(base: str, task: Task) -> bool:
    """Return whether all clients of a round use the same topic."""
    wide = base in PRODUCING and base != "spread" and task.partitions >= SHARED_PARTITIONS
    return base in READING or wide


def _topic_s(base: str, task: Task) -> float:
    """Return the seconds for a run's own topic."""
    topics = task.topics if base == "spread" else 1
    return 0.0 if shares_topic(base, task) else PARTITION_S * task.partitions * topics


class Budget:
    """The minutes of a part of a run: a scenario starts only if it will end within them."""

    def __init__(self, minutes: int | None) -> None:
        self._ends = time.monotonic() + minutes * 60 if minutes else None

    def allows(self, estimated: Estimate) -> bool:
        """Return whether a scenario will end in time."""
        return self._ends is None or time.monotonic() + estimated.seconds <= self._ends
