"""The arithmetic of the Spark benchmarks."""

from __future__ import annotations

import os
import subprocess
import sys

from bench.adapters import Figures
from bench.spark import CONTESTANTS, SCENARIOS
from bench.spark.main import event
from bench.spark.processes import cpu_seconds
from bench.spark.report import GOALS, TRIGGER, verdicts

BURN = "import time\nwhile time.process_time() < 0.3: pass\n"


def test_cpu_of_children_counts_while_they_run_and_when_they_have_ended() -> None:
    before = cpu_seconds(os.getpid())
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])\n"
    code += "print(flush=True)\nsys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()  # the grandchild has ended, the child still runs
        assert cpu_seconds(os.getpid()) - before >= 0.28
    assert cpu_seconds(os.getpid()) - before >= 0.28


def test_targets_compare_with_the_connector_within_a_round() -> None:
    rounds = {
        "jvm": [Figures(100, 1.0, 2.0), Figures(100, 4.0, 2.0), Figures(100, 2.0, 2.0)],
        "frames": [Figures(100, 0.5, 1.0), Figures(100, 1.0, 1.0), Figures(100, 1.0, 1.6)],
    }
    assert verdicts("read", rounds) == [
        "frames: rate / jvm: 2.00, target at least 2.5: not reached",
        "frames: CPU / jvm: 0.50, target at most 0.65: reached",
    ]
    assert verdicts("read", {"frames": rounds["frames"]}) == []
    triggers = {
        name: [Figures(1, 1.0, 1.0, more={TRIGGER: ms})]
        for name, ms in (("jvm", 200.0), ("frames", 300.0))
    }
    assert verdicts("trigger", triggers) == [
        f"frames: {TRIGGER} / jvm: 1.50, target at most 1.4: not reached"
    ]


def test_every_target_is_measured() -> None:
    for goal in GOALS:
        assert {goal.contestant, "jvm"} <= set(SCENARIOS[goal.scenario])
    assert {name for each in SCENARIOS.values() for name in each} == set(CONTESTANTS)


def test_values_have_the_requested_size() -> None:
    assert {len(event(number, size)) for number in range(500) for size in (20,)} == {20}
    assert {len(event(number, 100)) for number in range(500)} == {100}
    assert len({event(number, 100) for number in range(500)}) == 500
