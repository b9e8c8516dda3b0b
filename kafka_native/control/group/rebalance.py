"""Handing partitions over in a rebalance: what both group protocols do with an assignment.

A step (assign, revoke, lose) goes to the application's callback, in its next poll(), close() or unsubscribe(). Where it
has none, or leaves the assignment alone in it, the default is done here. Stored offsets of what is revoked are
committed before the step ends, so that the next owner starts behind them. What is lost isn't committed: somebody else
may own it.

Thread: the control thread, but for the callback itself, which the application's thread runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeAlias

from kafka_native.control.positions import Key
from kafka_native.logs import QUIET, Log
from kafka_native.threads import Event
from kafka_native.types import OFFSET_STORED

FINISH_S = 5.0


class Partitions(Protocol):
    """What is assigned: `FetchManager`."""

    @property
    def assigned(self) -> Mapping[Key, Any]:
        """The partitions with their state."""

    def add(self, partitions: list[tuple[str, int, int]], now: float) -> None:
        """Reads (topic, partition, offset), too."""

    def remove(self, keys: list[Key]) -> None:
        """Reads these no more."""

    def end(self, keys: Iterable[Key]) -> None:
        """Nothing of these is handed out, stored or committed any more."""

    def expect_anew(self, keys: Iterable[Key]) -> None:
        """These are removed, and may be assigned again as partitions of a topic made anew."""

    def forget_anew(self) -> None:
        """None are expected any more."""


class Commits(Protocol):
    """What commits: `CommitManager`."""

    def flush(self, keys: list[Key], done: Callable[[], None]) -> None:
        """Takes what is stored of these partitions now and commits it, if auto commit is on; then ``done``."""


class Kind(Enum):
    """What happens to the partitions of a step."""

    ASSIGN = "assign"
    REVOKE = "revoke"
    LOSE = "lose"


Listener: TypeAlias = Callable[[Kind, list[Key]], bool]
"""The application's side of a step, on its thread: calls its callback; True if that has changed the assignment."""


@dataclass(slots=True, eq=False)
class Step:
    """One change of the assignment, from the membership to its end."""

    kind: Kind
    keys: list[Key]
    done: Callable[[], None]
    begun: bool = False  # its callback has been called
    dropped: bool = False  # what came after has made it pointless: its end is of no interest
    ended: bool = False  # to lose only what of its partitions has ended, because their topic was made anew
    silent: bool = False  # of partitions that were assigned by hand: no callback hears of it


def _left_alone(kind: Kind, keys: list[Key]) -> bool:
    """The listener of an application that has none."""
    return False


class Rebalance:
    """Makes one step after the other."""

    def __init__(
        self,
        fetches: Partitions,
        commits: Commits,
        *,
        call_back: Callable[[Callable[[], None]], None],
        post: Callable[[Callable[[], None]], None],
        clock: Callable[[], float],
        log: Log = QUIET["cgrp"],
    ) -> None:
        """``call_back`` has a function called by the application's next poll(), ``post`` by the control thread."""
        self._fetches = fetches
        self._commits = commits
        self._call_back = call_back
        self._post = post
        self._clock = clock
        self._log = log
        self._steps: deque[Step] = deque()
        self._held: set[Key] = set()  # handed over by an assignment, and by no later step given up
        self.count = 0
        """How many steps there were that concern any partition."""
        self.last_at: float | None = None
        """When the last of these began."""
        self.listeners: dict[Kind, Listener] = {}
        """The application's callbacks; a kind that isn't there is done without one.

        Giving up waits for the next poll() all the same: until then the application may be dealing with messages of the
        partition, which it has yet to commit. Of what is revoked nobody else shall get any meanwhile; of what is lost
        somebody else may have got them, and a member that had joined again would commit them as its own.
        """
        self.in_application: Callable[[Step, Listener], Any] = self._in_application
        """What the application's next poll() does for a step: calls the listener, then has `finish()` called."""

    @property
    def owned(self) -> set[Key]:
        """What is assigned now."""
        return set(self._fetches.assigned)

    @property
    def busy(self) -> bool:
        """Whether a step has not ended yet."""
        return bool(self._steps)

    @property
    def kind(self) -> Kind | None:
        """Of the step that is under way, None: none is."""
        return self._steps[0].kind if self._steps else None

    def assign(self, added: Iterable[Key], done: Callable[[], None]) -> None:
        """These partitions are this member's from now on, besides what it has."""
        self._begin(Step(Kind.ASSIGN, sorted(added), done))

    def revoke(self, revoked: Iterable[Key], done: Callable[[], None]) -> None:
        """These go to another member, which waits until they are given up."""
        self._begin(Step(Kind.REVOKE, sorted(revoked), done))

    def lose(self, done: Callable[[], None]) -> None:
        """All that is assigned may be another member's already. Steps that have not ended yet never call their done."""
        for step in self._steps:
            step.dropped = True
        self._begin(Step(Kind.LOSE, sorted(self.owned), done))

    def end(self, keys: Iterable[Key]) -> None:
        """The topic of these is another one: when they are given up, nothing of them is committed."""
        self._fetches.end([key for key in keys if key in self._fetches.assigned])

    def lose_ended(self, keys: Iterable[Key], done: Callable[[list[Key]], None], *, silent: bool = False) -> None:
        """The topic of these was deleted and made anew: what they were is gone. ``done`` gets those that it was so for.

        ``silent``: no callback is called.
        """
        step = Step(Kind.LOSE, sorted(keys), lambda: done(step.keys), ended=True, silent=silent)
        self._begin(step)

    def renew(self, keys: Iterable[Key], *, silent: bool = False) -> None:
        """The same, and they are assigned once more, before anything else happens."""

        def assign(lost: list[Key]) -> None:
            if lost:
                step = Step(Kind.ASSIGN, lost, lambda: None, silent=silent)
                self._steps.appendleft(step)
                self._run(step)

        self.lose_ended(keys, assign, silent=silent)

    def _begin(self, step: Step) -> None:
        if step.keys:
            self.count += 1
            self.last_at = self._clock()
        self._steps.append(step)
        if len(self._steps) == 1:
            self._run(step)

    def _run(self, step: Step) -> None:
        # Steps before it may have changed what there is to give up: nothing is revoked twice.
        if step.ended:
            step.keys = self._ended(step.keys)
        elif step.kind is Kind.LOSE:
            step.keys = sorted(self.owned)
        elif step.kind is Kind.REVOKE:
            step.keys = [key for key in step.keys if key in self._held]
        if step.kind is Kind.ASSIGN:
            self._held.update(step.keys if not step.dropped else ())
        else:
            self._held.difference_update(step.keys)
        if self._log.on:
            keys = ", ".join(f"{topic} [{number}]" for topic, number in step.keys) or "nothing"
            self._log.debug("rebalance: %s %s%s", step.kind.name.lower(), keys, ", dropped" if step.dropped else "")
        listener = None if step.silent else self.listeners.get(step.kind)
        if listener is None and step.kind is not Kind.ASSIGN:
            listener = _left_alone
        if step.dropped or listener is None or (not step.keys and step.kind is not Kind.ASSIGN):
            self.finish(step, False)
        else:
            self._call_back(lambda: self.in_application(step, listener))

    def _in_application(self, step: Step, listener: Listener) -> None:
        handled = False
        try:
            if not step.dropped:
                step.begun = True
                handled = listener(step.kind, step.keys)
        finally:  # also when the callback raises: the group goes on
            self._finish_from_application(step, handled)

    def _finish_from_application(self, step: Step, handled: bool) -> None:
        """Ends a step whose callback has returned.

        The application's thread goes on to take messages afterwards, and none of them may be of what it has just given
        up: so it waits until the control thread has stopped that.
        """
        finished = Event()

        def work() -> None:
            try:
                self.finish(step, handled)
            finally:
                finished.set()

        self._post(work)
        if step.kind is not Kind.ASSIGN:
            finished.wait(FINISH_S)  # a client that is being closed may never do it, and hands out nothing either

    def finish(self, step: Step, handled: bool) -> None:
        """Control thread: ends a step. ``handled``: the application has changed the assignment itself."""
        if step.kind is Kind.ASSIGN:
            if not step.dropped and not handled:
                self.add(step.keys)
            self._end(step)
        elif step.kind is Kind.REVOKE and not step.dropped:
            self.remove(step.keys, lambda: self._end(step))
        elif step.begun or not step.dropped:  # or the one that came after gives up what is left, and says so
            if step.ended:
                step.keys = self._ended(step.keys)  # the application may have sought to a position in the new topic
            self._remove([key for key in step.keys if key in self._fetches.assigned])
            self._end(step)
        else:
            self._end(step)

    def add(self, keys: Iterable[Key]) -> None:
        """Starts partitions where the group has committed, or else where auto.offset.reset says."""
        new = [
            (topic, number, OFFSET_STORED) for topic, number in keys if (topic, number) not in self._fetches.assigned
        ]
        self._fetches.add(new, self._clock())

    def remove(self, keys: Iterable[Key], done: Callable[[], None]) -> None:
        """Takes partitions away and commits what is stored of them (enable.auto.commit); then ``done``."""
        gone = [key for key in keys if key in self._fetches.assigned]
        for key in gone:
            cursor = self._fetches.assigned[key].cursor
            if cursor is not None:
                cursor.stop()  # nothing is handed out behind what is committed
        self._commits.flush(gone, done)
        self._remove(gone)

    def _remove(self, keys: list[Key]) -> None:
        ended = self._ended(keys)
        self._fetches.remove(keys)
        self._fetches.expect_anew(ended)

    def _ended(self, keys: list[Key]) -> list[Key]:
        assigned = self._fetches.assigned
        return [key for key in keys if key in assigned and assigned[key].ended]

    def _end(self, step: Step) -> None:
        count = len(self._fetches.assigned)
        self._log.debug("rebalance: %s has ended, %d partition(s) assigned", step.kind.name.lower(), count)
        if step.kind is Kind.ASSIGN:
            self._fetches.forget_anew()
        self._steps.remove(step)
        following = self._steps[0] if self._steps else None
        if not step.dropped:
            step.done()
        if following is not None and self._steps and self._steps[0] is following:
            self._run(following)
