"""After one failed call, an allocation or a system call, the client raises an error or continues. It
doesn't crash, hang or lose a report.

Fast: past faults, and checks that the judge can fail a run. Slow: a random sample of each scenario.
`python -m tests.oom` runs everything.
"""

from __future__ import annotations

import os
import platform
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import kafka_native._native
from tests.oom.calls import ALLOCATIONS, ERRORS, KINDS, SYSTEM_CALLS, errors_of, number_of
from tests.oom.judge import Failure, Judge, Site, failures, sample
from tests.oom.scenarios import BAD, SCENARIOS

pytestmark = [
    pytest.mark.skipif(
        sys.platform != "linux" or platform.libc_ver()[0] != "glibc",
        reason="calls are intercepted in glibc",
    ),
    pytest.mark.skipif("KN_SANITIZE" in os.environ, reason="a sanitizer has its own allocator"),
]

LIMIT_S = 30.0
"""For one wait on a busy machine. A run alone has five seconds (`python -m tests.oom`)."""
SAMPLES = {ALLOCATIONS: 8, SYSTEM_CALLS: 4}
SEED = int(os.environ.get("OOM_SEED") or random.randrange(1 << 32))

OTHER_SYSTEM_CALLS = (
    *("accept", "accept4", "bind", "dup", "dup2", "epoll_create1", "epoll_ctl", "epoll_wait"),
    *("eventfd_read", "eventfd_write", "fcntl", "fork", "fstat", "getpeername", "getrandom"),
    *("getsockname", "ioctl", "listen", "lseek", "mprotect", "mremap", "nanosleep", "open"),
    *("open64", "openat", "pipe", "pipe2", "poll", "pread", "pselect", "pwrite", "recvfrom"),
    *("recvmsg", "select", "send", "sendfile", "sendto", "shutdown", "socketpair", "splice"),
    *("stat", "syscall", "timerfd_create", "writev"),
)
"""Calls that ours don't make."""

FAULTS = {
    "a delivered batch was freed while it was reported": ("produce", "kn_chunk_new", "Report_open"),
    "partitions were never set": ("produce", "table_new", "Topic_", "set_partitions"),
    "partitions were never set, in the binding": ("produce", "Topic_", "set_partitions (engine.c"),
    "a call was never sent": ("admin", "control_request_new", "Engine_", "submit"),
    "a connection never got its handshake": ("produce", "control_request_new"),
    "a constructor raised RuntimeError": ("produce", "kn_broker_thread_new"),
    "a partition was never fetched": ("consume", "kn_cursor_new"),
    "a partition's leader never got it": ("consume", "kn_reserve_take", "Cursor_", "start"),
    "a fetch error was never reported": ("consume", "kn_event_new", "post_cursor_event"),
    "an operation of the group's connection was lost": (
        "share",
        "kn_reserve_take",
        "stop_heartbeat",
    ),
    "acquired records were lost until their locks expired": (
        "share",
        "kn_buffer_take",
        "open_acquired",
    ),
    "a transaction was open that hadn't begun": (
        "transactions",
        "kn_event_new",
        "kn_engine_transaction_begin",
    ),
    "records were relayed twice": ("relay", "kn_runs_reserve"),
}
"""Past failures, by scenario and the functions on the way to the failed allocation."""


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(LIMIT_S) as found:
        yield found


@pytest.mark.skipif(
    shutil.which("addr2line") is None, reason="addr2line, which names functions, is missing"
)
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_stays_fixed(judge: Judge, fault: str) -> None:
    scenario, *functions = FAULTS[fault]
    places = [
        site for site in judge.sites(scenario) if all(name in str(site) for name in functions)
    ]
    assert places, f"{scenario} doesn't allocate there any more: {functions}"
    outcomes = [judge.run(failure) for failure in failures(scenario, places[:2], 2)]
    assert any(outcome.failed for outcome in outcomes)
    for outcome in outcomes:
        assert outcome.bad is None, str(outcome)


@pytest.mark.parametrize(
    ("scenario", "what", "hard_s"),
    [("crash", "crashed", None), ("hang", "hangs", 3.0), ("forget", "not in the log", None)],
)
def test_judge_sees_a_bad_ending(scenario: str, what: str, hard_s: float | None) -> None:
    assert scenario in BAD
    with Judge(LIMIT_S, hard_s) as judge:
        site = judge.sites(scenario)[0]
        assert what in (judge.run(Failure(scenario, site)).bad or "")


def test_each_system_call_of_ours_can_fail() -> None:
    """A new call has to get its function in oom.c, and its errors in calls.py."""
    if shutil.which("nm") is None:
        pytest.skip("nm, which lists what a library imports, is missing")
    used: set[str] = set()
    for library in Path(kafka_native._native.__path__[0]).glob("*.so"):
        command = ["nm", "-D", "--undefined-only", "-P", str(library)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        names = [line.split(" ")[0].partition("@")[0] for line in done.stdout.splitlines()]
        used.update(name.removeprefix("__").removesuffix("_chk") for name in names)
    assert used & {*ERRORS, *OTHER_SYSTEM_CALLS} == set(ERRORS)


@pytest.mark.parametrize(
    ("call", "error", "raised"),
    [("eventfd", "EMFILE", "MemoryError"), ("connect", "ECONNREFUSED", ""), ("close", "EIO", "")],
)
def test_a_system_call_fails_with_its_error(
    judge: Judge, call: str, error: str, raised: str
) -> None:
    """Without a descriptor there is no client. Without a connection there is a second attempt."""
    [site, *_] = judge.sites("produce_observed", (call,))
    outcome = judge.run(Failure("produce_observed", site, 0, error))
    assert outcome.failed
    assert outcome.bad is None, str(outcome)
    assert bool(outcome.raised) == bool(raised)
    assert all(raised in text for text in outcome.raised)
    assert (os.strerror(number_of(error)) in outcome.log) == (call == "connect")


def test_each_error_of_a_call_comes_once_and_places_take_turns() -> None:
    site = Site("1", "connect", 3, ())
    chosen = failures("produce", [site], 4)
    assert sorted(each.error for each in chosen) == sorted(errors_of("connect"))
    assert {each.nth for each in chosen} == {0, 1, 2}
    many = failures("produce", [Site("2", "malloc", 100, ())], 4)
    assert [(each.nth, each.error) for each in many] == [(nth, "ENOMEM") for nth in (0, 33, 66, 99)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_sample_ends_well(judge: Judge, scenario: str, kind: str) -> None:
    sites = judge.sites(scenario, KINDS[kind])
    chosen = sample(failures(scenario, sites, 4), SAMPLES[kind], SEED)
    for outcome in map(partial(Judge.run, judge), chosen):
        assert outcome.bad is None, f"seed {SEED}: {outcome}"
