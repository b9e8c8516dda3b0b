"""Rebalance steps: callbacks on the application's thread, defaults, commits before a step ends, and
superseded steps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from kafka_native.control.group.rebalance import Kind, Rebalance
from kafka_native.control.positions import Key
from tests.waiting import wait_for

A, B, C = ("t", 0), ("t", 1), ("u", 0)


class Partition:
    """An assigned partition."""

    def __init__(self) -> None:
        self.cursor = None
        self.ended = False


class FakeFetchManager:
    """The assigned partitions."""

    def __init__(self) -> None:
        self.assigned: dict[Key, Partition] = {}
        self.recreated: set[Key] = set()

    def end(self, keys: list[Key]) -> None:
        for key in keys:
            self.assigned[key].ended = True

    def expect_recreated(self, keys: list[Key]) -> None:
        self.recreated.update(keys)

    def forget_recreated(self) -> None:
        self.recreated.clear()

    def add(self, new: list[tuple[str, int, int]], now: float) -> None:
        self.assigned |= {(topic, number): Partition() for topic, number, _ in new}

    def remove(self, keys: list[Key]) -> None:
        for key in keys:
            del self.assigned[key]


class Group:
    """A rebalance and the application's queue of callbacks. ``log`` has all events in order."""

    def __init__(self, post: Callable[[Callable[[], None]], None] = lambda work: work()) -> None:
        self.log: list[Any] = []
        self.fetches = FakeFetchManager()
        self.callbacks: list[Callable[[], None]] = []
        self.flushes: list[Callable[[], None]] = []
        fetches: Any = self.fetches
        commits: Any = self
        self.rebalance = Rebalance(
            fetches, commits, call_back=self.callbacks.append, post=post, clock=lambda: 0.0
        )

    def flush(self, keys: list[Key], done: Callable[[], None]) -> None:
        assert all(key in self.fetches.assigned for key in keys), (
            "a partition leaves only after its stored offsets are flushed"
        )
        self.log.append(("flush", keys))
        self.flushes.append(done)

    def listen(self, *kinds: Kind, handled: bool = False) -> None:
        def listener(kind: Kind, keys: list[Key]) -> bool:
            self.log.append((kind, keys))
            return handled

        self.rebalance.listeners = dict.fromkeys(kinds, listener)

    def poll(self) -> None:
        while self.callbacks:
            self.callbacks.pop(0)()

    def done(self, what: str) -> Callable[[], None]:
        return lambda: self.log.append(what)


def test_without_callbacks_assignments_end_at_once_and_revocations_after_their_commit() -> None:
    group = Group()
    group.rebalance.assign([B, A], group.done("assigned"))
    assert group.log == ["assigned"]
    assert group.rebalance.owned == {A, B}
    group.rebalance.revoke([A], group.done("revoked"))
    group.poll()
    assert group.log == ["assigned", ("flush", [A])]
    assert group.rebalance.busy
    assert group.rebalance.owned == {B}, "it isn't read during the commit"
    group.flushes.pop()()
    assert group.log[-1] == "revoked"
    assert not group.rebalance.busy


def test_an_assignment_may_replace_what_the_application_has_assigned() -> None:
    group = Group()
    group.fetches.add([(*A, 0), (*C, 0)], 0.0)
    group.rebalance.assign([A, B], group.done("assigned"), replaces=True)
    assert group.rebalance.owned == {A, B}
    assert group.log == [("flush", [C]), "assigned"]


def test_revocation_waits_for_the_application_to_poll_again() -> None:
    group = Group()
    group.rebalance.assign([A], group.done("assigned"))
    assert group.log == ["assigned"], "an assignment doesn't wait for a poll"
    group.rebalance.revoke([A], group.done("revoked"))
    assert group.log == ["assigned"], "the application may process a message"
    group.poll()
    group.flushes.pop()()
    assert group.log == ["assigned", ("flush", [A]), "revoked"]


def test_callbacks_come_in_the_next_poll_and_the_default_follows() -> None:
    group = Group()
    group.listen(Kind.ASSIGN, Kind.REVOKE)
    group.rebalance.assign([A], group.done("assigned"))
    assert group.log == []
    assert group.rebalance.owned == set()
    group.poll()
    assert group.log == [(Kind.ASSIGN, [A]), "assigned"]
    assert group.rebalance.owned == {A}
    group.rebalance.revoke([A], group.done("revoked"))
    group.poll()
    assert group.rebalance.owned == set()
    group.flushes.pop()()
    assert group.log[2:] == [(Kind.REVOKE, [A]), ("flush", [A]), "revoked"]


def test_no_default_follows_a_callback_that_assigns() -> None:
    group = Group()
    group.listen(Kind.ASSIGN, handled=True)
    group.rebalance.assign([A], group.done("assigned"))
    group.poll()
    assert group.rebalance.owned == set()
    assert group.log[-1] == "assigned"


def test_empty_assignment_has_a_callback_and_an_empty_revocation_has_none() -> None:
    group = Group()
    group.listen(Kind.ASSIGN, Kind.REVOKE)
    group.rebalance.assign([], group.done("assigned"))
    group.rebalance.revoke([], group.done("revoked"))
    group.poll()
    group.flushes.pop()()
    assert group.log == [(Kind.ASSIGN, []), "assigned", ("flush", []), "revoked"]


def test_callback_that_raises_still_ends_its_step() -> None:
    group = Group()

    def listener(kind: Kind, keys: list[Key]) -> bool:
        raise RuntimeError("from the application")

    group.rebalance.listeners = {Kind.ASSIGN: listener}
    group.rebalance.assign([A], group.done("assigned"))
    with pytest.raises(RuntimeError, match="from the application"):
        group.poll()
    assert group.rebalance.owned == {A}
    assert group.log == ["assigned"]


def test_loss_supersedes_steps_that_wait_for_a_poll() -> None:
    group = Group()
    group.listen(Kind.ASSIGN, Kind.LOSE)
    group.rebalance.assign([A], group.done("first"))
    group.poll()
    group.rebalance.assign([B], group.done("superseded"))
    group.rebalance.lose(group.done("lost"))
    group.poll()
    assert group.log == [(Kind.ASSIGN, [A]), "first", (Kind.LOSE, [A]), "lost"]
    assert group.rebalance.owned == set()


def test_partitions_of_a_superseded_revocation_are_lost_with_a_callback() -> None:
    group = Group()
    group.listen(Kind.REVOKE, Kind.LOSE)
    group.rebalance.assign([A, B], group.done("assigned"))
    group.rebalance.revoke([A, B], group.done("superseded"))
    group.rebalance.lose(group.done("lost"))
    group.poll()
    assert group.log == ["assigned", (Kind.LOSE, [A, B]), "lost"]
    assert group.rebalance.owned == set()


def test_partitions_that_on_revoke_got_before_it_was_superseded_are_not_lost_again() -> None:
    group = Group()
    group.rebalance.assign([A, B], group.done("assigned"))

    def listener(kind: Kind, keys: list[Key]) -> bool:
        group.log.append((kind, keys))
        if kind is Kind.REVOKE:
            group.rebalance.lose(group.done("lost"))
        return False

    group.rebalance.listeners = dict.fromkeys([Kind.REVOKE, Kind.LOSE], listener)
    group.rebalance.revoke([A], group.done("superseded"))
    group.poll()
    assert group.log == ["assigned", (Kind.REVOKE, [A]), (Kind.LOSE, [B]), "lost"]


@pytest.mark.parametrize("kind", [Kind.REVOKE, Kind.LOSE])
def test_the_application_continues_only_when_its_former_partitions_are_stopped(kind: Kind) -> None:
    posted: list[Callable[[], None]] = []
    group = Group(post=posted.append)
    group.listen(kind)
    group.rebalance.assign([A], group.done("assigned"))
    begin = (
        group.rebalance.revoke
        if kind is Kind.REVOKE
        else lambda _, done: group.rebalance.lose(done)
    )
    begin([A], group.done("given up"))
    owned_afterwards: list[set[Key]] = []

    def application() -> None:
        group.poll()
        owned_afterwards.append(group.rebalance.owned)

    thread = threading.Thread(target=application)
    thread.start()
    wait_for(lambda: bool(posted))
    assert thread.is_alive()
    assert not owned_afterwards
    posted.pop()()
    thread.join(10)
    assert owned_afterwards == [set()]


def test_a_leave_during_a_revocation_revokes_only_the_other_partitions() -> None:
    group = Group()
    group.listen(*Kind)
    group.rebalance.assign([A, B], group.done("assigned"))
    group.poll()
    group.rebalance.revoke([B], group.done("revoked"))
    group.poll()  # on_revoke has run, the commit is in flight
    group.log.clear()
    group.rebalance.revoke([A, B], group.done("left"))
    group.flushes.pop(0)()
    group.poll()
    assert group.log == ["revoked", (Kind.REVOKE, [A]), ("flush", [A])]
    group.flushes.pop(0)()
    assert group.log[-1] == "left"
    assert not group.fetches.assigned


def test_loss_commits_nothing() -> None:
    group = Group()
    group.rebalance.assign([A], group.done("assigned"))
    group.rebalance.lose(group.done("lost"))
    assert group.log == ["assigned"], "the application may process its messages"
    group.poll()
    assert group.log == ["assigned", "lost"]
    assert group.rebalance.owned == set()


def test_steps_begun_at_the_end_of_another_queue_behind_waiting_ones() -> None:
    group = Group()
    group.listen(Kind.ASSIGN)

    def again() -> None:
        group.log.append("first")
        group.rebalance.assign([C], group.done("third"))

    group.rebalance.assign([A], again)
    group.rebalance.assign([B], group.done("second"))
    group.poll()
    assert [entry for entry in group.log if isinstance(entry, str)] == ["first", "second", "third"]
    assert group.rebalance.owned == {A, B, C}


def test_partitions_of_a_recreated_topic_are_lost_and_reassigned_first() -> None:
    group = Group()
    group.listen(Kind.ASSIGN, Kind.REVOKE, Kind.LOSE)
    group.rebalance.assign([A, B, C], group.done("assigned"))
    group.poll()
    group.log.clear()
    group.fetches.end([A, B])
    before = dict(group.fetches.assigned)
    group.rebalance.renew([A, B])
    group.rebalance.revoke([B, C], group.done("revoked"))
    group.poll()
    assert group.log[:2] == [(Kind.LOSE, [A, B]), (Kind.ASSIGN, [A, B])]
    assert group.log[2:] == [(Kind.REVOKE, [B, C]), ("flush", [B, C])]
    assert group.fetches.assigned[A] is not before[A]
    assert group.fetches.recreated == set()


def test_only_ended_partitions_are_lost() -> None:
    group = Group()
    group.rebalance.assign([A, B], group.done("assigned"))
    group.fetches.end([A, B])
    lost: list[list[Key]] = []
    group.rebalance.lose_ended([A, B], lost.append)
    group.fetches.assigned[
        B
    ].ended = False  # the application has sought to a place in the new topic meanwhile
    group.poll()
    assert lost == [[A]]
    assert group.rebalance.owned == {B}
    assert group.fetches.recreated == {A}


def test_manually_assigned_partitions_are_renewed_without_callbacks_in_the_next_poll() -> None:
    group = Group()
    group.listen(Kind.ASSIGN, Kind.REVOKE, Kind.LOSE)  # of an earlier subscription
    group.fetches.add([(*A, 0)], 0.0)
    before = group.fetches.assigned[A]
    group.fetches.end([A])
    group.rebalance.renew([A], silent=True)
    assert group.fetches.assigned[A] is before, "the application may process a message of it"
    group.poll()
    assert group.fetches.assigned[A] is not before
    assert group.log == []


def test_loss_of_everything_supersedes_a_renewal() -> None:
    group = Group()
    group.listen(Kind.ASSIGN, Kind.REVOKE, Kind.LOSE)
    group.rebalance.assign([A, B], group.done("assigned"))
    group.poll()
    group.log.clear()
    group.fetches.end([A])
    group.rebalance.renew([A])
    group.rebalance.lose(group.done("lost"))
    group.poll()
    assert group.log == [(Kind.LOSE, [A, B]), "lost"]
    assert group.rebalance.owned == set()


def test_ended_partitions_are_expected_again_after_a_revocation() -> None:
    group = Group()
    group.rebalance.assign([A, B], group.done("assigned"))
    group.fetches.end([A])
    group.rebalance.revoke([A, B], group.done("revoked"))
    group.poll()
    group.flushes.pop()()
    assert group.fetches.recreated == {A}
    group.rebalance.assign([A], group.done("assigned"))
    assert group.fetches.recreated == set()
