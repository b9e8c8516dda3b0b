"""Applies assignments in a rebalance, for both group protocols.

A step (assign, revoke, lose) runs the application's callback in its next poll(), close() or
unsubscribe(). Without a callback, or if the callback doesn't change the assignment, the default
runs. Stored offsets of revoked partitions are committed before the step ends, so that the next
owner starts after them. Offsets of lost partitions aren't committed, because another member may own
those partitions.

Thread: the control thread, except for the callback, which runs on the application's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kafka_native.control.positions import Key
from kafka_native.logs import QUIET, Log
from kafka_native.threads import Event
from kafka_native.types import OFFSET_STORED

if TYPE_CHECKING:
    from kafka_native.control.consumer.fetches import Assigned

FINISH_S = 5.0


class Partitions(Protocol):
    """The assigned partitions. `FetchManager` implements it."""

    @property
    def assigned(self) -> Mapping[Key, Assigned]:
        """The partitions with their state."""

    def add(self, partitions: list[tuple[str, int, int]], now: float) -> None:
        """Adds (topic, partition, offset) to the assignment."""

    def remove(self, keys: list[Key]) -> None:
        """Removes partitions from the assignment."""

    def end(self, keys: Iterable[Key]) -> None:
        """Stops delivery, stores and commits of these partitions: their topic was recreated."""

    def expect_recreated(self, keys: Iterable[Key]) -> None:
        """Marks removed partitions of a recreated topic, which may be assigned again."""

    def forget_recreated(self) -> None:
        """Ends `expect_recreated()`."""


class Commits(Protocol):
    """The commits. `CommitManager` implements it."""

    def flush(self, keys: list[Key], done: Callable[[], None]) -> None:
        """Commits the stored offsets of partitions (enable.auto.commit), then calls ``done``."""


class Kind(Enum):
    """The kind of a step."""

    ASSIGN = "assign"
    REVOKE = "revoke"
    LOSE = "lose"


Listener: TypeAlias = Callable[[Kind, list[Key]], bool]
"""Calls the application's callback on its thread. True: the callback has changed the assignment."""


class Step:
    """One change of the assignment."""

    def __init__(
        self,
        kind: Kind,
        keys: list[Key],
        done: Callable[[], None],
        ended: bool = False,
        silent: bool = False,
        replaces: bool = False,
    ) -> None:
        """Creates a step that hasn't begun."""
        self.kind = kind
        self.keys = keys
        self.done = done
        self.begun = False  # its callback was called
        self.dropped = False  # a later step replaces it: ``done`` isn't called
        self.ended = ended  # lose only those partitions whose topic was recreated
        self.silent = silent  # for manually assigned partitions: no callback
        self.replaces = replaces  # assign nothing but these partitions


def _left_alone(kind: Kind, keys: list[Key]) -> bool:
    """The listener for an application without a callback."""
    return False


class Rebalance:
    """Runs one step after the other."""

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
        """``call_back`` queues a function for the application, ``post`` for the control thread."""
        self._fetches = fetches
        self._commits = commits
        self._call_back = call_back
        self._post = post
        self._clock = clock
        self._log = log
        self._steps: deque[Step] = deque()
        self._held: set[Key] = set()  # assigned partitions that no later step has taken away
        self.count = 0
        """The number of steps with at least one partition."""
        self.last_at: float | None = None
        """When the last of these steps began."""
        self.listeners: dict[Kind, Listener] = {}
        """The application's callbacks. For a kind without a callback, the default runs.

        Revoking and losing always wait for the next poll(). Until then, the application may be
        processing messages that it hasn't committed. No other member may get revoked partitions in
        that time. Lost partitions may already have another owner. If the member had joined again,
        it would commit its old messages as the new owner.
        """
        self.in_application: Callable[[Step, Listener], Any] = self._in_application
        """Runs a step in the application's next poll(): calls the listener, then `finish()`.
        """

    @property
    def owned(self) -> set[Key]:
        """The assigned partitions."""
        return set(self._fetches.assigned)

    @property
    def busy(self) -> bool:
        """Whether a step is running or waiting."""
        return bool(self._steps)

    @property
    def kind(self) -> Kind | None:
        """The kind of the running step; None: no step."""
        return self._steps[0].kind if self._steps else None

    def assign(
        self, added: Iterable[Key], done: Callable[[], None], *, replaces: bool = False
    ) -> None:
        """Adds partitions to the assignment. ``replaces``: takes all others away."""
        self._begin(Step(Kind.ASSIGN, sorted(added), done, replaces=replaces))

    def revoke(self, revoked: Iterable[Key], done: Callable[[], None]) -> None:
        """Takes partitions away for another member, which waits for the end of this step."""
        self._begin(Step(Kind.REVOKE, sorted(revoked), done))

    def lose(self, done: Callable[[], None]) -> None:
        """Takes all partitions away as lost: another member may own them.

        Drops the unfinished steps.
        """
        for step in self._steps:
            step.dropped = True
        self._begin(Step(Kind.LOSE, sorted(self.owned), done))

    def end(self, keys: Iterable[Key]) -> None:
        """Stops partitions of recreated topics: their offsets won't be committed."""
        self._fetches.end([key for key in keys if key in self._fetches.assigned])

    def lose_ended(
        self, keys: Iterable[Key], done: Callable[[list[Key]], None], *, silent: bool = False
    ) -> None:
        """Takes partitions of recreated topics away as lost.

        ``done`` gets those that were taken away. ``silent``: no callback is called.
        """
        step = Step(Kind.LOSE, sorted(keys), lambda: done(step.keys), ended=True, silent=silent)
        self._begin(step)

    def renew(self, keys: Iterable[Key], *, silent: bool = False) -> None:
        """Does what `lose_ended()` does, then assigns the partitions again before other steps."""

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
        # Earlier steps may have removed partitions: nothing is revoked twice.
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
        if step.kind is Kind.LOSE and not step.ended:
            self._held.clear()  # also what the application has unassigned
        if self._log.on:
            keys = ", ".join(f"{topic} [{number}]" for topic, number in step.keys) or "nothing"
            self._log.debug(
                "rebalance: %s %s%s",
                step.kind.name.lower(),
                keys,
                ", dropped" if step.dropped else "",
            )
        listener = None if step.silent else self.listeners.get(step.kind)
        if listener is None and step.kind is not Kind.ASSIGN:
            listener = _left_alone
        if step.dropped or listener is None or (not step.keys and step.kind is not Kind.ASSIGN):
            self.finish(step, False)
        else:
            self._call_back(lambda: self.in_application(step, self._listener_of(step)))

    def _listener_of(self, step: Step) -> Listener:
        """The listener at the time of the call: a new subscription may have replaced it."""
        return _left_alone if step.silent else self.listeners.get(step.kind, _left_alone)

    def _in_application(self, step: Step, listener: Listener) -> None:
        handled = False
        try:
            if not step.dropped:
                step.begun = True
                handled = listener(step.kind, step.keys)
        finally:  # also after an exception in the callback: the group goes on
            self._finish_from_application(step, handled)

    def _finish_from_application(self, step: Step, handled: bool) -> None:
        """Ends a step whose callback has returned.

        After that, the application's thread takes messages again. None may come from partitions
        that it has just given up. Therefore it waits here until the control thread has stopped
        them.
        """
        finished = Event()

        def work() -> None:
            try:
                self.finish(step, handled)
            finally:
                finished.set()

        self._post(work)
        if step.kind is not Kind.ASSIGN:
            # a closing client may never run it, but delivers no messages either
            finished.wait(FINISH_S)

    def finish(self, step: Step, handled: bool) -> None:
        """Ends a step. ``handled``: the application has changed the assignment itself.

        Control thread only.
        """
        if step.kind is Kind.ASSIGN:
            if not step.dropped and not handled:
                others = self.owned.difference(step.keys) if step.replaces else ()
                if others:  # assigned by hand before the first generation
                    self.remove(sorted(others), lambda: None)
                self.add(step.keys)
            self._end(step)
        elif step.kind is Kind.REVOKE and not step.dropped:
            # the application may have assigned others: a member without partitions reads none
            keys = step.keys if self._held else sorted(self.owned)
            self.remove(keys, lambda: self._end(step))
        # otherwise the later step removes the rest and reports it
        elif step.begun or not step.dropped:
            if step.ended:
                # the application may have sought to a position in the new topic
                step.keys = self._ended(step.keys)
            self._remove([key for key in step.keys if key in self._fetches.assigned])
            self._end(step)
        else:
            self._end(step)

    def add(self, keys: Iterable[Key]) -> None:
        """Starts partitions at the group's committed offset, or else by auto.offset.reset."""
        new = [
            (topic, number, OFFSET_STORED)
            for topic, number in keys
            if (topic, number) not in self._fetches.assigned
        ]
        self._fetches.add(new, self._clock())

    def remove(self, keys: Iterable[Key], done: Callable[[], None]) -> None:
        """Removes partitions, commits their stored offsets (enable.auto.commit), calls ``done``."""
        gone = [key for key in keys if key in self._fetches.assigned]
        for key in gone:
            cursor = self._fetches.assigned[key].cursor
            if cursor is not None:
                cursor.stop()  # no message is delivered after the committed offset is read
        self._commits.flush(gone, done)
        self._remove(gone)

    def _remove(self, keys: list[Key]) -> None:
        ended = self._ended(keys)
        self._fetches.remove(keys)
        self._fetches.expect_recreated(ended)

    def _ended(self, keys: list[Key]) -> list[Key]:
        assigned = self._fetches.assigned
        return [key for key in keys if key in assigned and assigned[key].ended]

    def _end(self, step: Step) -> None:
        count = len(self._fetches.assigned)
        self._log.debug(
            "rebalance: %s has ended, %d partition(s) assigned", step.kind.name.lower(), count
        )
        if step.kind is Kind.ASSIGN:
            self._fetches.forget_recreated()
        self._steps.remove(step)
        following = self._steps[0] if self._steps else None
        if not step.dropped:
            step.done()
        if following is not None and self._steps and self._steps[0] is following:
            self._run(following)
