"""After one failed allocation the client raises an error or continues. It doesn't crash, hang or
lose a report.

Fast: past faults, and checks that the judge can fail a run. Slow: a random sample of each scenario.
`python -m tests.oom` runs everything.
"""

from __future__ import annotations

import os
import platform
import random
import shutil
import sys
from collections.abc import Iterator
from functools import partial

import pytest

from tests.oom.judge import Failure, Judge, failures, sample
from tests.oom.scenarios import BAD, SCENARIOS

pytestmark = [
    pytest.mark.skipif(
        sys.platform != "linux" or platform.libc_ver()[0] != "glibc",
        reason="allocations are intercepted in glibc",
    ),
    pytest.mark.skipif("KN_SANITIZE" in os.environ, reason="a sanitizer has its own allocator"),
]

LIMIT_S = 30.0
"""For one wait on a busy machine. A run alone has five seconds (`python -m tests.oom`)."""
SAMPLE = 8
SEED = int(os.environ.get("OOM_SEED") or random.randrange(1 << 32))

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
    ("scenario", "what"), [("crash", "crashed"), ("hang", "hangs"), ("forget", "not in the log")]
)
def test_judge_sees_a_bad_ending(scenario: str, what: str) -> None:
    assert scenario in BAD
    with Judge(LIMIT_S, hard_s=3.0) as judge:
        site = judge.sites(scenario)[0]
        assert what in (judge.run(Failure(scenario, site)).bad or "")


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_sample_ends_well(judge: Judge, scenario: str) -> None:
    chosen = sample(failures(scenario, judge.sites(scenario), 4), SAMPLE, SEED)
    for outcome in map(partial(Judge.run, judge), chosen):
        assert outcome.bad is None, f"seed {SEED}: {outcome}"
