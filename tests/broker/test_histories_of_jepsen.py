"""The situations of Jepsen's own tests of its Kafka workload, given to our checker.

The tests are those of jepsen/test/jepsen/tests/kafka_test.clj in the repository jepsen-io/jepsen, up
to October 2025. `SAME` has the situations in which our checker names Jepsen's anomaly, beside its
own. `DIFFERENT` has those in which it doesn't, with the reason.

Situations that aren't here: the lag of a consumer, which is a measurement, and the generators of
operations, which decide when a process polls again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.broker.histories.history import ASSIGN, FAILED, SEEK, UNKNOWN, Move, Operation, Send
from tests.broker.histories.verify import (
    Analysis,
    count_cycles,
    duplicate,
    inconsistent_offsets,
    internal_nonmonotonic_poll,
    internal_nonmonotonic_send,
    internal_poll_skip,
    lost_write,
    poll_skip,
    unseen,
    violations,
)
from tests.broker.test_histories import done, names

X, Y = 0, 1
A, B, C, D, E, F, G = range(10, 17)
COMMITTED_S = 6.5
"""The time of a poll, from the begin of its operation, after a commit that began 0.5 s before."""


class Situation(NamedTuple):
    """A history, and all anomalies that our checker has to name."""

    operations: list[Operation]
    anomalies: set[str]


def two_at_an_offset() -> Situation:
    """An unknown transaction has values where readers have found others."""
    unknown = done(2, 1, Send(X, C, 1), Send(X, B, 3), Send(X, D, 4), outcome=UNKNOWN)
    history = [done(1, 0, Send(X, A, 0)), unknown, done(3, 2, {X: [(0, A), (1, B)]})]
    return Situation(history, {"inconsistent_offsets", "duplicate", "torn_transaction", "unseen"})


def two_sent_to_an_offset() -> Situation:
    history = [done(1, 0, Send(X, A, 537)), done(2, 1, Send(X, B, 537))]
    return Situation(history, {"inconsistent_offsets", "unseen"})


def conflict_with_a_proven_transaction() -> Situation:
    """An unknown transaction was committed, because one of its values is polled."""
    proof = done(3, 2, {Y: [(5, B)]})
    return Situation([*_conflict(), proof], {"inconsistent_offsets", "torn_transaction", "unseen"})


def _conflict() -> list[Operation]:
    unknown = done(1, 0, Send(X, A, 0), Send(Y, B), outcome=UNKNOWN)
    return [unknown, done(2, 1, Send(X, C, 0))]


def polled_failure() -> Situation:
    failed = done(1, 0, Send(X, A), Send(Y, B), outcome=FAILED)
    return Situation([failed, done(2, 1, {X: [(0, A)]})], {"aborted_read"})


def lost_behind_a_poll() -> Situation:
    history = [
        done(1, 0, Send(X, A, 0)),
        done(1, 1, Send(X, B, 1), Send(X, D, 3)),
        done(2, 2, Send(X, C), outcome=UNKNOWN),
        done(1, 3, {X: [(2, C)]}),
    ]
    return Situation(history, {"lost_write", "unseen"})


def lost_by_an_overwrite() -> Situation:
    history = [
        done(1, 0, Send(X, A, 0)),
        done(1, 1, Send(X, B, 0), Send(X, C, 2)),
        done(1, 2, {X: [(0, B), (2, C)]}),
    ]
    return Situation(history, {"lost_write", "inconsistent_offsets", "nonmonotonic_send"})


def unproven_loss() -> Situation:
    """An unknown transaction of which nothing is polled may have failed."""
    history = [
        done(1, 0, Send(X, A), Send(Y, B, 0), outcome=UNKNOWN),
        done(2, 1, Send(Y, C), outcome=UNKNOWN),
        done(3, 3, {Y: [(1, C)]}),
    ]
    return Situation(history, set())


def proven_loss() -> Situation:
    """A poll of its other value shows that it was committed."""
    history = [*unproven_loss().operations, done(4, 2, {X: [(0, A)]})]
    return Situation(history, {"lost_write", "torn_transaction"})


def skips(*moves: Move) -> list[Operation]:
    """Process 1 skips offsets 3 and 6 of X. The moves come before its second and third poll."""
    sent = [Send(X, each) for each in (A, B, C, D, G)]
    return [
        done(4, 0, *sent, outcome=UNKNOWN),
        done(1, 1, {X: [(1, A), (2, B)]}),
        done(2, 2, {X: [(3, C)]}),
        *(done(1, 2.9 + 2 * number, move) for number, move in enumerate(moves)),
        done(1, 4, {X: [(4, D)]}),
        done(3, 4.95, Send(X, F, 6)),
        done(1, 7, {X: [(7, G)]}),
    ]


def skipped() -> Situation:
    return Situation(skips(), {"poll_skip", "lost_write"})


def skipped_after_other_keys() -> Situation:
    """A process that had other keys meanwhile may begin anywhere."""
    return Situation(skips(Move(ASSIGN, {Y: 0}), Move(ASSIGN, {Y: 0})), {"lost_write"})


def skipped_with_the_same_key() -> Situation:
    """An assignment at the known position changes nothing."""
    moves = Move(ASSIGN, {X: 3, Y: 0}), Move(ASSIGN, {X: 5, Y: 0})
    return Situation(skips(*moves), {"poll_skip", "lost_write"})


SIX = tuple(Send(X, each, offset) for offset, each in enumerate((A, B, C, D, E, F)))


def rewound() -> Situation:
    """After transactions that weren't committed, a process goes back."""
    again: dict[int, list[tuple[int, int]]] = {X: [(1, B), (2, C)]}
    history = [
        done(1, 0, *SIX[:3]),
        done(2, 1, {X: [(0, A)]}),
        done(2, 2, again, outcome=FAILED),
        done(2, 3, Move(SEEK, {X: 1}), again, outcome=UNKNOWN),
        done(2, 4, Move(SEEK, {X: 1}), again),
    ]
    return Situation(history, set())


def _not_rewound(*outcomes: str) -> list[Operation]:
    """Return polls that go on behind aborted ones, although the process has sought back."""
    history = [
        done(1, 0, *SIX),
        done(2, 1, {X: [(0, A)]}),
        done(2, 2, {X: [(1, B), (2, C)]}, outcome=FAILED),
    ]
    for number, outcome in enumerate(outcomes):
        found = {X: [(3, D), (4, E)] if number == 0 else [(5, F)]}
        history += [
            done(2, 3 + 2 * number, Move(SEEK, {X: 1})),
            done(2, 4 + 2 * number, found, outcome=outcome),
        ]
    return history


def not_rewound_and_failed() -> Situation:
    return Situation(_not_rewound(FAILED, FAILED), {"poll_skip"})


def not_rewound_and_unknown() -> Situation:
    return Situation(_not_rewound(UNKNOWN), {"poll_skip", "unseen"})


def _backward(*moves: Move) -> list[Operation]:
    return [
        done(1, 0, *(Send(X, each) for each in (A, B, C, D))),
        done(2, 1, {X: [(1, A), (2, B), (3, C)]}),
        *(done(2, 2, move) for move in moves),
        done(2, 3, {X: [(2, B), (3, C), (4, D)]}),
    ]


def backward() -> Situation:
    return Situation(_backward(), {"nonmonotonic_poll"})


def backward_after_other_keys() -> Situation:
    return Situation(_backward(Move(ASSIGN, {Y: 0})), set())


def backward_with_the_same_key() -> Situation:
    return Situation(_backward(Move(ASSIGN, {X: 4, Y: 0})), {"nonmonotonic_poll"})


def _sent_backward(*moves: Move) -> list[Operation]:
    return [
        done(1, 0, Send(X, C, 3), Send(X, D, 4)),
        *(done(1, 1, move) for move in moves),
        done(1, 2, Send(X, A, 1), Send(X, B, 2)),
        done(2, 3, {X: [(1, A), (2, B), (3, C), (4, D)]}),
    ]


def sent_backward() -> Situation:
    return Situation(_sent_backward(), {"nonmonotonic_send"})


def sent_backward_with_the_same_key() -> Situation:
    return Situation(_sent_backward(Move(ASSIGN, {X: 0, Y: 0})), {"nonmonotonic_send"})


def skipped_inside() -> Situation:
    """In a poll, and between two polls of a transaction."""
    history = [
        done(1, 0, *(Send(X, each) for each in (A, B, D)), outcome=UNKNOWN),
        done(2, 1, {X: [(1, A), (4, D)]}),
        done(3, 2, {X: [(1, A)]}, {X: [(4, D)]}),
        done(4, 3, {X: [(2, B)]}),
    ]
    return Situation(history, {"internal_poll_skip"})


def backward_inside() -> Situation:
    history = [
        done(1, 0, *(Send(X, each) for each in (A, B, C)), outcome=UNKNOWN),
        done(2, 1, {X: [(3, C), (1, A)]}),
        done(3, 2, {X: [(2, B), (3, C)]}, {X: [(3, C)]}),
    ]
    return Situation(history, {"internal_nonmonotonic_poll"})


def sent_backward_inside() -> Situation:
    """Reports show it for X, and polls for Y."""
    history = [
        done(1, 0, Send(X, C, 3), Send(X, A, 1)),
        done(1, 1, Send(Y, D), Send(Y, B), outcome=UNKNOWN),
        done(2, 2, Send(Y, E), outcome=UNKNOWN),
        done(3, 3, {X: [(1, A), (3, C)], Y: [(2, B), (3, E), (4, D)]}),
    ]
    return Situation(history, {"internal_nonmonotonic_send"})


def at_two_offsets() -> Situation:
    history = [
        done(1, 0, Send(X, A, 1)),
        done(2, 1, Send(X, B), outcome=UNKNOWN),
        done(3, 2, {X: [(2, B), (3, A)]}),
    ]
    return Situation(history, {"duplicate"})


def circle_of_polls() -> Situation:
    """Two transactions have polled each other's values (G1c)."""
    first = done(1, 0, Send(X, A, 0), {Y: [(0, B)]}, poll_s=COMMITTED_S)
    second = done(2, 0.05, Send(Y, B, 0), {X: [(0, A)]}, poll_s=COMMITTED_S)
    return Situation([first, second], {"g1c", "g1c_realtime"})


def polled_by_itself() -> Situation:
    history = [done(1, 0, Send(X, A, 0), {X: [(0, A)]})]
    return Situation(history, {"precommitted_read", "intermediate_read"})


SAME = (
    *(two_at_an_offset, two_sent_to_an_offset, conflict_with_a_proven_transaction),
    *(polled_failure, lost_behind_a_poll, lost_by_an_overwrite, unproven_loss, proven_loss),
    *(skipped, skipped_after_other_keys, skipped_with_the_same_key),
    *(rewound, not_rewound_and_failed, not_rewound_and_unknown),
    *(backward, backward_after_other_keys, backward_with_the_same_key),
    *(sent_backward, sent_backward_with_the_same_key),
    *(skipped_inside, backward_inside, sent_backward_inside, at_two_offsets),
    *(circle_of_polls, polled_by_itself),
)


# --- other verdicts than Jepsen's ---


def conflict_with_an_unknown_transaction() -> Situation:
    """Jepsen finds nothing: the transaction may have failed.

    An offset of our histories is that of a delivery report. So the record is in the log there, also
    if its transaction was aborted, and nothing else can be.
    """
    return Situation(_conflict(), {"inconsistent_offsets", "unseen"})


def aborted_at_two_offsets() -> Situation:
    """Jepsen names only A: the aborted B wasn't written.

    For the same reason, B can't be at two offsets. Nobody may poll it at all.
    """
    history = [
        done(1, 0, Send(X, A, 1)),
        done(1, 1, Send(X, B, 2), outcome=FAILED),
        done(2, 2, {X: [(11, A), (12, B)]}, outcome=FAILED),
    ]
    return Situation(history, {"duplicate", "aborted_read"})


def sent_backward_after_other_keys() -> Situation:
    """Jepsen finds nothing, because the process had other keys meanwhile.

    Kafka assigns keys to consumers. The order of a producer has nothing to do with them.
    """
    return Situation(_sent_backward(Move(ASSIGN, {Y: 0})), {"nonmonotonic_send"})


def mixed_with_another() -> Situation:
    """Jepsen has a name for it (int-send-skip), and expects it of Kafka as we do.

    Transactions that write at the same time interleave in a log.
    """
    history = [
        done(1, 0, Send(X, A, 1), Send(X, C)),
        done(2, 0.1, Send(X, B), outcome=UNKNOWN),
        done(3, 2, {X: [(1, A), (2, B), (3, C)]}),
    ]
    return Situation(history, set())


def circle_of_writes() -> Situation:
    """Jepsen has an option that reports it as G0. We count it: it is normal in Kafka."""
    first = done(1, 0, Send(X, A, 0), Send(Y, C, 1))
    second = done(2, 0.1, Send(X, B, 1), Send(Y, D, 0))
    reader = done(3, 2, {X: [(0, A), (1, B)], Y: [(0, D), (1, C)]})
    return Situation([first, second, reader], set())


def circle_of_a_write_and_a_poll() -> Situation:
    """Jepsen has an option that reports circles with writes as G1c. We count it."""
    first = done(1, 0, Send(X, A, 0), Send(Y, C, 2))
    second = done(2, 0.05, {X: [(0, A)]}, Send(Y, B, 1), poll_s=COMMITTED_S)
    return Situation([first, second, done(3, 2, {Y: [(1, B), (2, C)]})], set())


def nothing_done() -> Situation:
    """Jepsen calls a history without any message invalid.

    A run on real brokers has to count transactions, and goal G19 requires a number of them.
    """
    return Situation([done(1, 0, Move(ASSIGN, {X: 0}))], set())


DIFFERENT = (
    *(conflict_with_an_unknown_transaction, aborted_at_two_offsets),
    *(sent_backward_after_other_keys, mixed_with_another),
    *(circle_of_writes, circle_of_a_write_and_a_poll, nothing_done),
)


@pytest.mark.parametrize("situation", [*SAME, *DIFFERENT], ids=lambda each: each.__name__)
def test_a_situation_of_jepsen_has_these_anomalies(situation: Callable[[], Situation]) -> None:
    history, anomalies = situation()
    assert names(violations(history)) == anomalies, violations(history)


def test_each_case_of_a_situation_is_named() -> None:
    for situation, rule, texts in (
        (lost_behind_a_poll, lost_write, [f"value {A}", f"value {B}"]),
        (lost_behind_a_poll, unseen, [f"value {D}"]),
        (lost_by_an_overwrite, lost_write, [f"value {A}"]),
        (proven_loss, lost_write, [f"value {B}"]),
        (skipped, poll_skip, [f"[(3, {C})]", f"[(6, {F})]"]),
        (not_rewound_and_failed, poll_skip, [f"(1, {B}), (2, {C})]", f"(4, {E})]"]),
        (skipped_inside, internal_poll_skip, [f"[(2, {B})]"] * 2),
        (backward_inside, internal_nonmonotonic_poll, ["expected from 4"] * 2),
        (sent_backward_inside, internal_nonmonotonic_send, ["@1 after @3", "@2 after @4"]),
        (aborted_at_two_offsets, duplicate, [f"value {A}", f"value {B}"]),
    ):
        found = list(rule(Analysis(situation().operations)))
        assert len(found) == len(texts), found
        for text, part in zip(found, texts, strict=True):
            assert part in text


def test_every_value_at_the_same_two_offsets_is_named() -> None:
    values = range(10)
    history = [
        each
        for value in values
        for each in (
            done(1, 2 * value, Send(X, value, 0)),
            done(2, 2 * value + 1, {X: [(1, value)]}),
        )
    ]
    analysis = Analysis(history)
    assert len(list(duplicate(analysis))) == len(values)
    assert [text.split(" has ")[0] for text in inconsistent_offsets(analysis)] == [
        *("key 0 @0", "key 0 @1")
    ]


def test_what_is_unseen_follows_the_polls() -> None:
    history = [
        done(1, 0, {}),
        done(1, 1, Send(X, A, 0), Send(X, B, 1)),
        done(1, 2, {X: [(0, A)]}),
        done(1, 3, {X: [(1, B)]}),
    ]
    counts = [len(list(unseen(Analysis(history[:end])))) for end in range(1, 5)]
    assert counts == [0, 2, 1, 0]


def test_circles_that_are_normal_are_counted() -> None:
    assert count_cycles(circle_of_writes().operations)["ww"] == 2
    assert count_cycles(circle_of_a_write_and_a_poll().operations) == {
        "ww": 0,
        "ww-wr": 2,
        "ww-wr-rw": 2,
    }
