"""Finds the broker that coordinates a group or a transactional id.

The coordinator gets its own connection. Otherwise a JoinGroup or Fetch with a late reply would
delay the heartbeats and commits behind it.

Thread: the control thread only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafka_native.control.errors import (
    COORDINATOR_BUSY_ERRORS,
    COORDINATOR_LOST_ERRORS,
    COORDINATOR_REFUSED_ERRORS,
)
from kafka_native.control.requests import ANY_BROKER, NEVER, Backoff, Call, Reply
from kafka_native.errors import KafkaError
from kafka_native.protocol.coordinator import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from kafka_native.control.brokers.pool import BrokerPool

GROUP = 0
TRANSACTION = 1
NEEDS = {
    GROUP: "groups need Apache Kafka 0.9",
    TRANSACTION: "transactions need Apache Kafka 0.11",
}
"""The first release with a coordinator of each type."""


class Coordinator:
    """Finds and remembers the coordinator of one key.

    It sends no request before the first `want()`.
    """

    def __init__(
        self,
        pool: BrokerPool,
        key: str,
        *,
        key_type: int = GROUP,
        timeout_s: float,
        query_interval_s: float = NEVER,
        backoff: Backoff,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``query_interval_s`` is coordinator.query.interval.ms: the interval of look-ups."""
        self._pool = pool
        self._key = key
        self._key_type = key_type
        self._timeout_s = timeout_s
        self._query_interval_s = query_interval_s
        self._backoff = backoff.for_failover()
        self._clock = clock
        self._log = pool.logs["cgrp" if key_type == GROUP else "eos"]
        self._name = f"{'group' if key_type == GROUP else 'transactional id'} {key}"
        self._asking = False
        self.due = NEVER
        """The time of the next look-up; it isn't sent before `poll()`."""
        self.target: int | None = None
        """The target for calls to the coordinator; None while the look-up is running."""
        self.refused: KafkaError | None = None
        """Why the brokers refuse the look-up. It is repeated all the same."""
        self.on_found: list[Callable[[], None]] = []
        """Called when a target is found, and when it changes."""
        self.on_refused: list[Callable[[KafkaError], None]] = []
        """Called with the error whenever it changes."""

    def want(self, now: float) -> int | None:
        """The target, or None. Then the look-up starts, and ``on_found`` is called at its end."""
        if self.target is None and self.due == NEVER and not self._asking:
            self.due = now
        return self.target

    def failure_text(self) -> str:
        """Why the coordinator isn't known, as the end of an error text; empty if it is known."""
        if self.target is not None:
            return ""
        if self.refused is not None:
            return f": {self.refused.str()}"
        return f": the coordinator of {self._name} isn't known{self._pool.failure_text()}"

    def lost(self) -> None:
        """Looks up the coordinator again, with back-off: the target is down or not in charge."""
        if self.target is None:
            return
        self._log.debug("%s: its coordinator is lost", self._name)
        self.target = None
        first = self._backoff.failures == 0
        delay_s = self._backoff.next_s()
        if not self._asking:
            self.due = self._clock() + (0.0 if first else delay_s)

    def note(self, error: KafkaError) -> bool:
        """Handles the error of a call to the target. True: the call may be retried."""
        if error.code() in COORDINATOR_LOST_ERRORS:
            self.lost()
            return True
        return error.code() in COORDINATOR_BUSY_ERRORS

    def pause_s(self, backoff: Backoff) -> float:
        """The delay before a call is sent again after a retriable error, in seconds.

        While the look-up is running it is 0, because the look-up has its own back-off.
        """
        return 0.0 if self.target is None else backoff.next_s()

    def answered(self) -> None:
        """Resets the back-off after a successful call."""
        self._backoff.reset()

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        if self._asking or now < self.due:
            return [], NEVER if self._asking else self.due
        self._asking = True
        self.due = NEVER
        message = FindCoordinatorRequest(
            key=self._key, key_type=self._key_type, coordinator_keys=[self._key]
        )
        return [Call(message, ANY_BROKER, now + self._timeout_s, self._on_reply)], NEVER

    def _on_reply(self, reply: Reply) -> None:
        self._asking = False
        outcome = reply if isinstance(reply, KafkaError) else self._found(reply)
        if isinstance(outcome, KafkaError):
            if outcome.code() == KafkaError._UNSUPPORTED_FEATURE:
                what = NEEDS[self._key_type]
                outcome = KafkaError(outcome.code(), f"{outcome.str()}: {what} or newer")
            self._refuse(outcome)
            return
        node_id, host, port = outcome
        try:
            target = self._pool.coordinator(node_id, host, port)
        except MemoryError:
            self._refuse(KafkaError(KafkaError._CRIT_SYS_RESOURCE, "no memory for a connection"))
            return
        self.refused = None
        # The back-off isn't reset: a broker may repeatedly name one that isn't the coordinator.
        self.due = self._clock() + self._query_interval_s
        if target != self.target:
            self._log.debug(
                "%s: its coordinator is broker %d, %s:%d", self._name, node_id, host, port
            )
            self.target = target
            for listener in self.on_found:
                listener()

    def _found(self, reply: FindCoordinatorResponse) -> tuple[int, str, int] | KafkaError:
        """Node id, host and port. Up to version 3, the response itself has these fields."""
        answer: FindCoordinatorResponse | FindCoordinatorResponse.Coordinator = reply
        if reply.coordinators:
            answer = reply.coordinators[0]
        if answer.error_code:
            return KafkaError(
                answer.error_code,
                f"coordinator of {self._key!r}: {KafkaError(answer.error_code).str()}",
            )
        if answer.node_id < 0 or not answer.host or not 0 < answer.port < 1 << 16:
            return KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE)
        return answer.node_id, answer.host, answer.port

    def _refuse(self, error: KafkaError) -> None:
        self.due = self._clock() + self._backoff.next_s()
        self._log.debug("%s: no coordinator: %s", self._name, error.str())
        before, self.refused = (
            self.refused,
            error if error.code() in COORDINATOR_REFUSED_ERRORS else None,
        )
        if self.refused is not None and (before is None or before.code() != error.code()):
            for listener in self.on_refused:
                listener(error)
