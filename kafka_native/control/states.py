"""The states of a client that its statistics show, and how long they have lasted.

Thread: the control thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka_native.control.context import ManagerContext
    from kafka_native.control.main_thread import Managers
    from kafka_native.errors import KafkaError

JOIN_STATES = {
    "OUT": "init",
    "STALE": "init",
    "FAILED": "init",
    "UNJOINED": "wait-join",
    "JOINING": "wait-join",
    "LEADING": "wait-metadata",
    "SYNCING": "wait-sync",
    "STABLE": "steady",
    "JOINED": "steady",
    "LOSING": "wait-unassign-call",
    "LEAVING": "wait-unassign-call",
}
"""librdkafka's join states, by the names of the memberships' states."""


NO_TRANSACTION = "Init"
"""The value of `transactions.State.INIT`. Only clients with transactions import that module."""


class States:
    """Records when states have changed, and when the application polled last."""

    def __init__(
        self,
        context: ManagerContext,
        managers: Managers,
        fatal: Callable[[], KafkaError | None],
        made_at: float,
    ) -> None:
        """``made_at`` is the time now (monotonic seconds)."""
        self._context = context
        self._managers = managers
        self._control = managers.consumer
        self._fatal = fatal
        self.made_at = made_at
        self._polls_seen = 0
        self._noted_at = self._polled_after = made_at
        self._since: dict[str, tuple[str, float]] = {}

    def record(self, now: float) -> None:
        """Notes the states at this time."""
        self._record("group", self.group(), now)
        self._record("identity", self.identity(), now)
        self._record("transaction", self.transaction(), now)

    def _record(self, what: str, state: str, now: float) -> None:
        known = self._since.get(what)
        if known is None or known[0] != state:
            self._since[what] = (state, now)

    def age_ms(self, what: str, now: float) -> int:
        """How long a state has been the same."""
        return int((now - self._since.get(what, ("", self.made_at))[1]) * 1000)

    # --- the application's polls ---

    def note_polls(self, now: float) -> None:
        """Records when the application polled last, by the number of its polls.

        Polls that take messages of an open batch read no clock.
        """
        if self._control is not None:
            polls, _ = self._control.polls()
            if polls != self._polls_seen:
                self._polls_seen, self._polled_after = polls, self._noted_at
            self._noted_at = now

    def last_poll_s(self, called_us: int, now: float) -> int:
        """Seconds since the application's last poll; 0: it polls now; -1: it never has."""
        assert self._control is not None
        self.note_polls(now)
        _, inside = self._control.polls()
        if inside or not called_us:
            return 0 if inside else -1
        called_s = now - (time.monotonic_ns() / 1e9 - called_us / 1e6)
        return max(0, int(now - max(called_s, self._polled_after)))

    # --- states ---

    def group(self) -> str:
        """The state of the group's coordinator; empty: no group."""
        if self._control is None or not self._control.member.group_id:
            return ""
        target = self._control.coordinator.target
        if target is not None:
            return "up" if self._context.pool.is_up(target) else "wait-broker-transport"
        return "query-coord" if self._control.subscription.wanted else "init"

    def identity(self) -> str:
        """The state of the producer's identity; empty: it needs none."""
        identity, transactions = self._managers.identity, self._managers.transactions
        if identity is None and transactions is None:
            return ""
        if self._fatal() is not None:
            return "FatalError"
        if transactions is not None:
            return (
                "Assigned"
                if transactions.granted
                else "WaitPID"
                if transactions.waits_for_id
                else "Init"
            )
        assert identity is not None
        if identity.known:
            return "Assigned"
        return "WaitPID" if identity.asking else "RequestPID"

    def transaction(self) -> str:
        """The state of the transaction."""
        transactions = self._managers.transactions
        return NO_TRANSACTION if transactions is None else transactions.state.value
