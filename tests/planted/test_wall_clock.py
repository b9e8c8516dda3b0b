"""A wall clock that jumps breaks no rule of a workload: clients go by the monotonic clock.

librdkafka doesn't: some of its waits become as long as the jump. So no workload here reads with it.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.harness.processes import ROOT, guarded
from tests.harness.wall_clock import WallClock
from tests.planted.workload import WORKLOADS
from tests.waiting import PROGRAM_S

JUMPS_S = (86_400, -86_400, 0, 3600, -3 * 86_400)
"""The mock cluster deletes messages that seem older than seven days."""
JUMP_EVERY_S = 0.1


def test_only_the_wall_clock_jumps(tmp_path: Path) -> None:
    clock = WallClock(tmp_path / "clock")
    program = "import time; print(time.monotonic(), time.time()); input(); print(time.monotonic(), time.time())"
    process = subprocess.Popen(
        guarded(sys.executable, "-c", program),
        env=clock.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    first = [float(each) for each in process.stdout.readline().split()]
    clock.jump(-86_400)
    last = [float(each) for each in process.communicate("\n", PROGRAM_S)[0].split()]
    assert first[0] <= last[0] < first[0] + PROGRAM_S
    assert first[1] - 86_400 <= last[1] < first[1] - 86_400 + PROGRAM_S


@pytest.mark.slow
@pytest.mark.parametrize("workload", [name for name in WORKLOADS if name != "transactions"])
def test_a_jumping_wall_clock_breaks_no_rule(workload: str, tmp_path: Path) -> None:
    clock = WallClock(tmp_path / "clock")
    with (tmp_path / "output").open("w+") as output:
        process = subprocess.Popen(
            guarded(sys.executable, "-m", "tests.planted.workload", workload),
            cwd=ROOT,
            env=clock.environment,
            stdout=output,
            stderr=output,
        )
        deadline = time.monotonic() + PROGRAM_S
        for jump_s in itertools.cycle(JUMPS_S):
            clock.jump(jump_s)
            time.sleep(JUMP_EVERY_S)
            if process.poll() is not None:
                break
            assert time.monotonic() < deadline, f"{workload} hangs"
        output.seek(0)
        print(output.read())
    assert process.returncode == 0
