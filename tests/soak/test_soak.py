"""Short runs of the workloads, and planted leaks that each must find."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.harness.processes import ROOT, guarded
from tests.soak.resources import Sample, growth, left
from tests.waiting import PROGRAM_S

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the figures of a process are read in /proc"
)


def run(workload: str, *options: str) -> tuple[int, str]:
    """Run a workload, and return its exit code and its output."""
    done = subprocess.run(
        guarded(sys.executable, "-m", f"tests.soak.{workload}", *options),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def a_sample(at_s: float, rss_bytes: int = 0, descriptors: int = 9, **live: int) -> Sample:
    return Sample(at_s, at_s, rss_bytes, descriptors, 1, 100, live)


def test_growth_is_that_of_a_straight_line() -> None:
    samples = [a_sample(second, 1000 + 10 * second + second % 2) for second in range(101)]
    assert growth(samples).rss_bytes == pytest.approx(1000, abs=5)
    assert growth(samples[:1]).rss_bytes == 0


def test_what_is_left_is_named() -> None:
    assert list(left(a_sample(0), a_sample(1))) == []
    assert list(left(a_sample(0), a_sample(1, descriptors=10, engines=2))) == [
        "2 engines of the C core are alive",
        "9 descriptors became 10",
    ]


@pytest.mark.slow
def test_clients_in_each_state_leave_nothing_behind() -> None:
    code, text = run(
        "open_close", "--clients", "110", "--at-once", "1", "--crowd", "10", "--slack", "60"
    )
    assert code == 0, text
    assert "no rule was broken" in text
    assert "Traceback" not in text, text


@pytest.mark.slow
@pytest.mark.parametrize("bug", ["memory", "descriptor", "client"])
def test_a_planted_leak_of_a_client_is_found(bug: str) -> None:
    few = ("--states", "refused", "--clients", "60", "--at-once", "1", "--crowd", "1")
    code, text = run("open_close", *few, "--slack", "60", "--bug", bug)
    rule = "memory_stays_constant" if bug == "memory" else "nothing_is_left_behind"
    assert code == 1, text
    assert f"BROKEN {rule}" in text
