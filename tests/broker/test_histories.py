"""Histories of transactions and polls. ``python -m tests.broker.histories`` makes long ones.

The first tests check the checker: it names each planted anomaly, and finds none in good histories.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.broker.histories.history import (
    ASSIGN,
    FAILED,
    OK,
    REBALANCE,
    SEEK,
    UNKNOWN,
    Messages,
    Move,
    Operation,
    Poll,
    Send,
    Step,
    export,
    plain,
    read,
)
from tests.broker.histories.model import Model
from tests.broker.histories.planted import BUGS
from tests.broker.histories.run import Options, Run, histories_rig
from tests.broker.histories.verify import RULES, Analysis, count_cycles, violations
from tests.harness.cluster_run import Rig, module_rig

BEGIN_S, POLL_S, COMMIT_S, END_S = 0.0, 4.0, 6.0, 9.0


def names(found: Iterable[str]) -> set[str]:
    return {text.split(":")[0] for text in found}


def done(
    process: int,
    at: float,
    *steps: Step | Messages,
    outcome: str = OK,
    poll_s: float = POLL_S,
    end: float | None = None,
) -> Operation:
    """Return an operation that begins at 10 times ``at``, and ends before the next one."""
    begin = 10 * at
    found = [Poll(each, begin + poll_s) if isinstance(each, dict) else each for each in steps]
    commit = None if outcome == FAILED else begin + COMMIT_S
    return Operation(process, begin, found, outcome, commit, end or begin + END_S)


ALL = Move(ASSIGN, {0: 0, 1: 0})


def two_writers() -> list[Operation]:
    """Three transactions of two processes, and a reader. Offsets 2 and 4 of key 0 are markers."""
    return [
        done(1, 0, Send(0, 10, 0), Send(0, 11, 1), Send(1, 12, 0)),
        done(2, 1, Send(0, 20, 3), {}),
        done(1, 2, Send(1, 13, 2)),
        done(3, 3, ALL),
        done(3, 4, {0: [(0, 10), (1, 11)], 1: [(0, 12)]}),
        done(3, 5, {0: [(3, 20)]}, {1: [(2, 13)]}),
    ]


def aborted() -> list[Operation]:
    failed = done(2, 6, Send(0, 21, 5), outcome=FAILED)
    return [*two_writers(), failed, done(1, 7, Send(0, 14, 7)), done(3, 8, {0: [(7, 14)]})]


def unknown_and_there() -> list[Operation]:
    unknown = done(2, 6, Send(0, 21), Send(1, 22), outcome=UNKNOWN)
    return [*two_writers(), unknown, done(3, 7, {0: [(5, 21)], 1: [(4, 22)]})]


def unknown_and_gone() -> list[Operation]:
    return [*two_writers(), done(2, 6, Send(0, 21), Send(1, 22, 4), outcome=UNKNOWN)]


def back_by_seek() -> list[Operation]:
    again = done(3, 7, Move(SEEK, {0: 1}), {0: [(1, 11), (3, 20)]})
    return [*two_writers(), again, done(3, 8, Move(SEEK, {0: 0}), {0: [(0, 10)]})]


def forward_by_seek() -> list[Operation]:
    reader = done(4, 6, ALL), done(4, 7, Move(SEEK, {0: 3})), done(4, 8, {0: [(3, 20)]})
    return [*two_writers(), *reader]


def elsewhere_by_rebalance() -> list[Operation]:
    reader = done(3, 6, Move(REBALANCE, {0: None}), {0: [(1, 11)]}), done(3, 7, {0: [(3, 20)]})
    return [*two_writers(), *reader]


def reassigned() -> list[Operation]:
    """A key that was given up has no position."""
    reader = done(3, 6, Move(ASSIGN, {1: 0}), {1: [(0, 12)]}), done(3, 7, Move(ASSIGN, {0: 1}))
    return [*two_writers(), *reader, done(3, 8, {0: [(1, 11)]})]


def interleaved() -> list[Operation]:
    """Transactions at the same time interleave in the logs (G0). That is normal."""
    first = done(1, 0, Send(0, 10, 0), Send(1, 11, 1))
    second = done(2, 0.1, Send(0, 20, 1), Send(1, 21, 0))
    reader = done(3, 2, ALL, {0: [(0, 10), (1, 20)], 1: [(0, 21), (1, 11)]})
    return [first, second, reader]


@pytest.mark.parametrize(
    "history",
    [
        *(two_writers, aborted, unknown_and_there, unknown_and_gone, back_by_seek),
        *(forward_by_seek, elsewhere_by_rebalance, reassigned, interleaved),
    ],
)
def test_a_good_history_has_no_anomaly(history: Callable[[], list[Operation]]) -> None:
    assert violations(history()) == []


def test_cycles_of_writes_are_counted() -> None:
    assert count_cycles(two_writers()) == {"ww": 0, "ww-wr": 0, "ww-wr-rw": 0}
    assert count_cycles(interleaved()) == {"ww": 2, "ww-wr": 2, "ww-wr-rw": 2}


def test_cycles_of_overtaken_polls_are_counted() -> None:
    """Two transactions that don't see each other's values (write skew)."""
    before = done(1, -1, Send(1, 9, 0), Send(0, 8, 0))
    first = done(1, 0, ALL, {1: [(0, 9)]}, Send(0, 10, 2))
    second = done(2, 0.1, ALL, {0: [(0, 8)]}, Send(1, 20, 2))
    reader = done(3, 2, ALL, {0: [(0, 8), (2, 10)], 1: [(0, 9), (2, 20)]})
    history = [before, first, second, reader]
    assert violations(history) == []
    assert count_cycles(history) == {"ww": 0, "ww-wr": 0, "ww-wr-rw": 2}


def anomaly(*more: Operation) -> list[Operation]:
    return [*two_writers(), *more]


PLANTED: dict[str, list[list[Operation]]] = {
    "lost_write": [
        anomaly(done(1, 6, Send(0, 14, 5)), done(2, 7, Send(0, 21, 7)), done(3, 8, {0: [(7, 21)]})),
        anomaly(done(1, 6, Send(0, 14))),
    ],
    "unseen": [anomaly(done(1, 6, Send(0, 14, 5)))],
    "duplicate": [anomaly(done(3, 6, {0: [(5, 20)]}))],
    "inconsistent_offsets": [
        anomaly(done(1, 6, Send(0, 14, 3)), done(3, 7, {0: [(5, 14)]})),
        anomaly(done(4, 6, ALL, {0: [(0, 11)]})),
    ],
    "unwritten_read": [
        anomaly(done(3, 6, {0: [(5, 99)]})),
        anomaly(done(1, 6, Send(0, 14)), done(3, 7, {1: [(4, 14)]})),
    ],
    "aborted_read": [
        anomaly(done(1, 6, Send(0, 14, 5), outcome=FAILED), done(3, 7, {0: [(5, 14)]}))
    ],
    "precommitted_read": [anomaly(done(3, 6, Send(0, 14, 5), {0: [(5, 14)]}))],
    "intermediate_read": [
        anomaly(
            done(1, 6, Send(0, 14, 5)),
            done(3, 6.1, {0: [(5, 14)]}),
        )
    ],
    "torn_transaction": [
        anomaly(done(2, 6, Send(0, 21), Send(1, 22), outcome=UNKNOWN), done(3, 7, {0: [(5, 21)]}))
    ],
    "poll_skip": [
        anomaly(done(4, 6, ALL), done(4, 7, {0: [(1, 11)]})),
        anomaly(done(4, 6, ALL), done(4, 7, {0: [(0, 10)]}), done(4, 8, {0: [(3, 20)]})),
        anomaly(done(4, 6, ALL), done(4, 7, Move(SEEK, {1: 0})), done(4, 8, {0: [(1, 11)]})),
    ],
    "internal_poll_skip": [
        anomaly(done(4, 6, ALL, {0: [(0, 10), (3, 20)]})),
        anomaly(done(4, 6, ALL, {0: [(0, 10)]}, {0: [(3, 20)]})),
        anomaly(done(4, 6, Move(SEEK, {0: 1}), {0: [(3, 20)]})),
    ],
    "nonmonotonic_poll": [
        anomaly(done(3, 6, {0: [(3, 20)]})),
        anomaly(done(3, 6, Move(SEEK, {0: 3})), done(3, 7, {0: [(1, 11), (3, 20)]})),
        anomaly(done(3, 6, Move(REBALANCE, {1: None}), {0: [(3, 20)]})),
    ],
    "internal_nonmonotonic_poll": [
        anomaly(done(4, 6, ALL, {0: [(0, 10), (3, 20), (1, 11)]})),
        anomaly(done(4, 6, ALL, {0: [(0, 10)]}, {0: [(0, 10)]})),
    ],
    "nonmonotonic_send": [
        anomaly(
            done(1, 6, Send(0, 14, 7)),
            done(1, 7, Send(0, 15, 5)),
            done(3, 8, {0: [(5, 15), (7, 14)]}),
        )
    ],
    "internal_nonmonotonic_send": [
        anomaly(done(1, 6, Send(0, 14, 6), Send(0, 15, 5)), done(3, 8, {0: [(5, 15), (6, 14)]}))
    ],
    "g1c": [
        anomaly(
            done(1, 6, Send(0, 14, 5), Move(SEEK, {1: 4}), {1: [(4, 21)]}, poll_s=6.5),
            done(2, 6.05, Send(1, 21, 4), Move(SEEK, {0: 5}), {0: [(5, 14)]}, poll_s=6.5),
        )
    ],
    "g1c_realtime": [
        anomaly(
            done(1, 6, Move(SEEK, {0: 5}), {0: [(5, 21)]}),
            done(2, 7, Send(0, 21, 5)),
        )
    ],
}


@pytest.mark.parametrize(
    ("name", "history"), [(name, each) for name, ways in PLANTED.items() for each in ways]
)
def test_each_planted_anomaly_is_named(name: str, history: list[Operation]) -> None:
    assert name in names(violations(history))


def test_every_rule_has_a_planted_anomaly() -> None:
    assert set(PLANTED) == {rule.__name__ for rule in RULES}
    assert set().union(*(bug.rules for bug in BUGS.values())) <= set(PLANTED)


# --- histories of a correct model ---

SEEDS = st.integers(0, 2**32)
ACTIONS = 150


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS, actions=st.integers(0, ACTIONS))
def test_no_history_of_a_correct_model_has_an_anomaly(seed: int, actions: int) -> None:
    assert violations(Model(random.Random(seed)).run(actions)) == []


def polled(history: list[Operation]) -> list[tuple[list[tuple[int, int]], int]]:
    """Return all places of polled messages: their list, and the index in it."""
    return [
        (messages, index)
        for operation in history
        for poll in operation.polls()
        for messages in poll.messages.values()
        for index in range(len(messages))
    ]


def skip_one(history: list[Operation], draw: random.Random) -> bool:
    """Leave out a message between others, which the reader at the end has."""
    inner = [(each, at) for each, at in polled(history[:-1]) if 0 < at < len(each) - 1]
    if inner:
        messages, at = draw.choice(inner)
        del messages[at]
    return bool(inner)


def swap_two(history: list[Operation], draw: random.Random) -> bool:
    """Exchange two messages of a poll."""
    pairs = [(each, at) for each, at in polled(history) if at > 0]
    if pairs:
        messages, at = draw.choice(pairs)
        messages[at - 1 : at + 1] = [messages[at], messages[at - 1]]
    return bool(pairs)


def repeat_one(history: list[Operation], draw: random.Random) -> bool:
    """Poll a message twice."""
    places = polled(history)
    if places:
        messages, at = draw.choice(places)
        messages.insert(at, messages[at])
    return bool(places)


def change_a_value(history: list[Operation], draw: random.Random) -> bool:
    """Poll a value that nobody sent."""
    places = polled(history)
    if places:
        messages, at = draw.choice(places)
        messages[at] = messages[at][0], 10**9
    return bool(places)


def move_a_value(history: list[Operation], draw: random.Random) -> bool:
    """Poll a message at a second offset. The reader at the end has it at the first one."""
    places = polled(history[:-1])
    if places:
        messages, at = draw.choice(places)
        messages[at] = messages[at][0] + 1000, messages[at][1]
    return bool(places)


def writers(history: list[Operation], outcome: str) -> list[Operation]:
    return [each for each in history if each.outcome == outcome and any(each.sends())]


def deny_a_commit(history: list[Operation], draw: random.Random) -> bool:
    """Say that a committed transaction failed."""
    found = writers(history, OK)
    if found:
        draw.choice(found).outcome = FAILED
    return bool(found)


def promise_an_abort(history: list[Operation], draw: random.Random) -> bool:
    """Say that an aborted transaction was committed."""
    found = writers(history, FAILED)
    if found:
        draw.choice(found).outcome = OK
    return bool(found)


def commit_later(history: list[Operation], draw: random.Random) -> bool:
    """Begin a commit after the end of all."""
    found = writers(history, OK)
    if found:
        draw.choice(found).commit = history[-1].begin + 1000
    return bool(found)


MUTATIONS: dict[Callable[[list[Operation], random.Random], bool], set[str]] = {
    skip_one: {"internal_poll_skip"},
    swap_two: {"internal_nonmonotonic_poll", "internal_poll_skip"},
    repeat_one: {"internal_nonmonotonic_poll"},
    change_a_value: {"unwritten_read"},
    move_a_value: {"duplicate"},
    deny_a_commit: {"aborted_read"},
    promise_an_abort: {"lost_write", "unseen"},
    commit_later: {"intermediate_read"},
}


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda each: each.__name__)
@settings(max_examples=50, deadline=None)
@given(seed=SEEDS)
def test_each_mutation_of_a_good_history_is_named(
    mutate: Callable[[list[Operation], random.Random], bool], seed: int
) -> None:
    draw = random.Random(seed)
    history = Model(draw).run(ACTIONS)
    assume(mutate(history, draw))
    assert names(violations(history)) & MUTATIONS[mutate]


# --- the log of the processes, and the export ---


def lines_of(history: Iterable[Operation]) -> list[dict[str, object]]:
    """Return the lines that processes log of these operations."""
    found: list[dict[str, object]] = []
    for number, each in enumerate(history):
        common = {"process": each.process, "number": number}
        steps = [plain(step) for step in each.steps]
        found.append({"e": "begin", **common, "time": each.begin, "steps": steps})
        if each.commit is not None:
            found.append({"e": "commit", **common, "time": each.commit})
        if each.end is not None:
            offsets = [[it.value, it.offset] for it in each.sends()]
            end = {"time": each.end, "outcome": each.outcome, "offsets": offsets}
            found.append({"e": "end", **common, **end})
    return found


def test_a_log_is_read_as_it_was_written() -> None:
    history = Model(random.Random(7)).run(ACTIONS)
    ended = [each for each in history if each.end is not None or each.outcome != OK]
    found = read(lines_of(history))
    assert len(found) == len(history) == len(ended)
    for read_back, each in zip(found, history, strict=True):
        if each.end is not None:
            assert read_back == each
        else:
            assert read_back.outcome == (FAILED if each.commit is None else UNKNOWN)


def test_the_export_has_the_form_of_jepsen() -> None:
    file = io.StringIO()
    dead = Operation(4, 35.0, [Send(1, 30)], UNKNOWN, 36.0, None)
    export([*two_writers()[:4], dead, done(3, 4, {0: [(0, 10), (1, 11)], 1: [(0, 12)]})], file)
    lines = file.getvalue().splitlines()
    assert lines[0] == (
        "{:index 0, :time 0, :process 1, :type :invoke, :f :txn, "
        ":value [[:send 0 10] [:send 0 11] [:send 1 12]]}"
    )
    assert lines[1].endswith(
        ":type :ok, :f :txn, :value [[:send 0 [0 10]] [:send 0 [1 11]] [:send 1 [0 12]]]}"
    )
    assert lines[6].endswith(":type :invoke, :f :assign, :value [0 1]}")
    assert lines[10].endswith(
        ":type :ok, :f :txn, :value [[:poll {0 [[0 10] [1 11]], 1 [[0 12]]}]]}"
    )
    assert lines[11].endswith(":process 4, :type :info, :f :txn, :value [[:send 1 [nil 30]]]}")


def test_versions_are_what_was_committed() -> None:
    assert Analysis(aborted()).versions == {
        0: [(0, 10), (1, 11), (3, 20), (7, 14)],
        1: [(0, 12), (2, 13)],
    }


# --- runs on real brokers ---


three = module_rig(histories_rig)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(600)
def test_a_history_of_real_brokers_has_no_anomaly(three: Rig) -> None:
    options = Options(seconds=20.0, fault_every_s=(0.5, 2.0))
    run = Run(three, options)
    found = violations(run.run())
    print("\n".join([str(options), *run.lines()]))
    assert found == [], f"the processes' output is in {run.directory}"
    assert sum(each.outcome == OK and any(each.sends()) for each in run.operations) > 10
    assert any(any(each.polls()) for each in run.operations if each.process >= 0)
    assert run.faults


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BUGS)
def test_every_planted_bug_of_a_process_is_caught(
    three: Rig, name: str, record_property: Callable[[str, object], None]
) -> None:
    options = Options(seconds=4.0, fault_every_s=(1.0, 2.0), bug=name, faults=("cut",))
    run = Run(three, options)
    found = violations(run.run())
    print("\n".join([str(options), *run.lines(), *found]))
    assert names(found) & BUGS[name].rules
    record_property("caught", name)
