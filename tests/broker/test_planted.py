"""Planted bugs of the C core: each must be caught by a rule of the runs under faults.

``make test-planted`` builds the core with them. A run with a bug breaks its rule; a run without
one, of the same build and with the same faults, breaks none.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import pytest

from tests.broker.acked.run import DECK, Options, Run, acked_rig
from tests.broker.acked.verify import violations
from tests.broker.bank import run as bank
from tests.broker.bank import verify
from tests.broker.bank.run import bank_rig
from tests.harness.cluster_run import Rig, module_rig, rig_or_skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.broker,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not os.environ.get("KN_PLANT"), reason="make test-planted builds the core with these bugs"
    ),
]


class Planted(NamedTuple):
    """A bug of csrc/base/planted.h, the rules that it may break, and faults that make it show."""

    bug: str
    what: str
    rules: set[str]
    faults: tuple[str, ...] = ("cut",)
    message_timeout_ms: int = 120_000


BUGS = (
    Planted(
        "renumbered-retry",
        "A retry gets a new sequence number",
        {"nothing_twice", "in_order"},
        DECK,
    ),
    Planted(
        "acked-unanswered",
        "A request without a response counts as acknowledged",
        {"acked_is_there"},
        DECK,
    ),
    Planted("wrong-offset", "A batch is reported one offset too high", {"acked_is_there"}),
    Planted("foreign-bytes", "A batch has another batch's bytes", {"every_byte_is_its_own"}),
    Planted(
        "denied-write",
        "A written batch whose time is over is reported as not written",
        {"failures_are_honest"},
        ("stall", "refuse", "cut"),
        1500,
    ),
    Planted("skipped-batch", "The consumer skips batches", {"readers_agree"}),
)
SHOWN_ABORTED = Planted(
    "shown-aborted",
    "A committed reader gets aborted records",
    {"readers_agree", "nothing_aborted_is_seen"},
    ("kill",),
)


three = module_rig(acked_rig)


def broken_rules(three: Rig, planted: Planted) -> set[str]:
    options = Options(
        seconds=25.0,
        timeout_s=4.0,
        fault_every_s=(0.3, 1.0),
        faults=planted.faults,
        message_timeout_ms=planted.message_timeout_ms,
    )
    run = Run(three, options)
    found = violations(run.run())
    print("\n".join([planted.bug, *run.lines(), *found]))
    return {text.split(":")[0] for text in found}


@pytest.mark.parametrize("planted", BUGS, ids=lambda planted: planted.bug)
def test_a_planted_bug_is_caught(
    three: Rig, planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KN_PLANTED", planted.bug)
    assert broken_rules(three, planted) & planted.rules


def test_a_consumer_that_shows_aborted_records_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KN_PLANTED", SHOWN_ABORTED.bug)
    with rig_or_skip(bank_rig(0)) as three:
        run = bank.Run(three, bank.Options(seconds=15.0, faults=SHOWN_ABORTED.faults))
        found = verify.violations(run.run())
    print("\n".join([*run.lines(), *found]))
    assert {text.split(":")[0] for text in found} >= SHOWN_ABORTED.rules


@pytest.mark.parametrize("timeout_ms", [1500, 120_000])
def test_the_same_build_without_a_bug_breaks_no_rule(three: Rig, timeout_ms: int) -> None:
    assert not broken_rules(three, Planted("none", "No bug", set(), DECK, timeout_ms))
