"""Commits offsets in the name of a member of a streams group (OffsetCommit).

One request is in flight at a time. A request is repeated with the member's newest epoch until its
deadline: the application commits before it confirms that it gave tasks up, so they are still its
own. After the group has removed the member, commits fail.

Thread: the control thread only; the public API gets here through `MainThread.gather()`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kafka_native.control.consumer.commits import commit_message, commit_results
from kafka_native.control.errors import COMMIT_FENCED_ERRORS, COMMIT_RETRIABLE_ERRORS
from kafka_native.control.positions import Key, OffsetPosition
from kafka_native.control.requests import NEVER, Backoff, Call, Reply
from kafka_native.errors import KafkaError

if TYPE_CHECKING:
    from kafka_native.control.brokers.coordinator import Coordinator
    from kafka_native.control.group.membership import Member

Outcome: TypeAlias = "dict[Key, int] | KafkaError"
"""The error code of each partition (0: committed), or one error for all."""


@dataclass(slots=True)
class _Commit:
    """One call, until each of its partitions has a result."""

    left: dict[Key, OffsetPosition]
    deadline: float
    done: Callable[[Outcome], None]
    results: dict[Key, int]


class StreamsCommits:
    """The commits of one member. `poll()` is that of `requests.Manager`."""

    def __init__(
        self,
        member: Member,
        coordinator: Coordinator,
        *,
        backoff: Backoff,
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``timeout_s``: socket.timeout.ms, for one request."""
        self._member = member
        self._coordinator = coordinator
        self._backoff = backoff
        self._timeout_s = timeout_s
        self._clock = clock
        self._waiting: deque[_Commit] = deque()
        self._in_flight = False
        self._not_before = 0.0

    def commit(
        self,
        positions: Mapping[Key, OffsetPosition],
        deadline: float,
        done: Callable[[Outcome], None],
    ) -> None:
        """Commits these positions, with retries until the deadline."""
        self._waiting.append(_Commit(dict(positions), deadline, done, {}))

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        while not self._in_flight and self._waiting:
            first = self._waiting[0]
            if not self._member.joined:
                self._end(KafkaError(KafkaError.UNKNOWN_MEMBER_ID, "the group has no such member"))
            elif now >= first.deadline:
                self._end(KafkaError(KafkaError._TIMED_OUT))
            elif now < self._not_before:
                return [], min(self._not_before, first.deadline)
            else:
                target = self._coordinator.want(now)
                if target is None:
                    return [], first.deadline  # another poll follows when it is found
                self._in_flight = True
                message = commit_message(self._member, first.left, {})
                until = min(first.deadline, now + self._timeout_s)
                return [Call(message, target, until, self._on_reply)], NEVER
        return [], NEVER

    def _on_reply(self, reply: Reply) -> None:
        self._in_flight = False
        if not self._waiting:
            return  # the client has closed
        first = self._waiting[0]
        if isinstance(reply, KafkaError):
            if not self._coordinator.note(reply) and reply.code() not in COMMIT_RETRIABLE_ERRORS:
                self._end(reply)
                return
            self._not_before = self._clock() + self._coordinator.pause_s(self._backoff)
            return
        self._coordinator.answered()
        codes = commit_results(reply, lambda topic_id: None)
        for key in list(first.left):
            code = codes.get(key, KafkaError._BAD_MSG)
            if code in COMMIT_FENCED_ERRORS:
                self._end(KafkaError(code))
                return
            if code and self._coordinator.note(KafkaError(code)):
                continue
            if code not in COMMIT_RETRIABLE_ERRORS:
                first.results[key] = code
                del first.left[key]
        if first.left:
            self._not_before = self._clock() + self._coordinator.pause_s(self._backoff)
        else:
            self._backoff.reset()
            self._end(first.results)

    def _end(self, outcome: Outcome) -> None:
        self._waiting.popleft().done(outcome)

    def close(self, error: KafkaError) -> None:
        """Fails all commits, because the client closes."""
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            each.done(error)
