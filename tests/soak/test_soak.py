"""Short runs of the workloads, and planted leaks that each must find."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.harness.processes import ROOT, guarded
from tests.harness.runs import broken
from tests.soak.resources import MIB, Sample, growth, left
from tests.soak.steady import RULES, TOPIC, Options, Result, Seen
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
    clients = "24" if bug == "memory" else "4"
    few = ("--kinds", "producer,admin", "--states", "refused", "--clients", clients)
    code, text = run("open_close", *few, "--at-once=1", "--crowd=1", "--slack=60", "--bug", bug)
    rule = "memory_stays_constant" if bug == "memory" else "nothing_is_left_behind"
    assert code == 1, text
    assert f"BROKEN {rule}" in text


@pytest.mark.slow
def test_all_kinds_of_clients_work_under_faults_and_leave_nothing_behind() -> None:
    often = ("--fault-every", "3", "--sample-every", "2", "--open-every", "0.5")
    code, text = run("steady", "--seconds", "25", *often)
    assert code == 0, text
    assert "no rule was broken" in text
    assert "faults: none" not in text


@pytest.mark.slow
@pytest.mark.parametrize("bug", ["descriptor", "client"])
def test_a_planted_leak_of_a_steady_process_is_found(bug: str) -> None:
    code, text = run("steady", "--seconds", "5", "--open-every", "0.5", "--bug", bug)
    assert code == 1, text
    assert "BROKEN nothing_is_left_behind" in text


def a_steady_run(grown_bytes_h: float, seconds: float, seen: int = 10) -> Result:
    samples = [
        a_sample(second, int(grown_bytes_h * second / 3600))
        for second in range(0, int(seconds), 10)
    ]
    counted = Seen()
    for number in range(seen):
        counted.add(number)
    options = Options(seconds=seconds)
    return Result(options, a_sample(0), a_sample(1), samples, {TOPIC: 10}, {"auto": counted})


@pytest.mark.parametrize("seconds", [600, 7200])
def test_a_slow_growth_of_memory_is_found(seconds: float) -> None:
    assert broken(RULES, a_steady_run(0, seconds)) == []
    limit_h = 0.5 * MIB if seconds > 3600 else MIB / (0.6 * seconds / 3600)
    assert broken(RULES, a_steady_run(0.9 * limit_h, seconds)) == []
    [text] = broken(RULES, a_steady_run(1.2 * limit_h, seconds))
    assert "memory_stays_constant" in text


def test_a_message_that_is_not_consumed_is_found() -> None:
    [text] = broken(RULES, a_steady_run(0, 600, seen=9))
    assert text == "each_message_is_consumed_once: auto: 1 of 10 are missing: 9"
    [text] = broken(RULES, a_steady_run(0, 600, seen=11))
    assert "nobody sent" in text


def test_repeated_messages_are_counted() -> None:
    seen = Seen()
    for number in (0, 2, 1, 2, 4, 4):
        seen.add(number)
    assert (seen.low, seen.ahead, seen.repeated) == (3, {4}, 2)


@pytest.mark.slow
def test_overload_stays_within_the_budget() -> None:
    code, text = run("overload", "--seconds", "10")
    assert code == 0, text


@pytest.mark.slow
def test_a_planted_unbounded_queue_is_found() -> None:
    code, text = run("overload", "--seconds", "5", "--bug", "unbounded")
    assert code == 1, text
    assert "BROKEN memory_is_within_the_budget" in text


@pytest.mark.slow
def test_small_sizes_of_each_part_of_scale() -> None:
    sizes = {
        "clients": 45,
        "topics": 100,
        "partitions": 500,
        "members": 5,
        "metadata": 5000,
        "large-mb": 20,
        "queued": 200_000,
    }
    code, text = run("scale", *(f"--{name}={size}" for name, size in sizes.items()))
    assert code == 0, text


@pytest.mark.slow
def test_a_part_of_scale_that_fails_is_named() -> None:
    zeros = [f"--{name}=0" for name in ("clients", "topics", "metadata", "large-mb", "queued")]
    code, text = run("scale", *zeros, "--partitions", "1", "--members", "1")
    assert code == 1, text
    assert "BROKEN 0 topics, 1 partitions, 1 members: ZeroDivisionError" in text
