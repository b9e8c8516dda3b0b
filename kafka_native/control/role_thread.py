"""The control plane of a role: it runs on the control thread of its host.

A shared client (the host) has one control thread. Its roles are whole clients, with managers, an
engine, callbacks and statistics of their own, but without a control thread. The host's thread calls
a role when the role has an event, queued work or something due, and after each change at the host.

Thread: as `main_thread`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from kafka_native.control.brokers.role_pool import RolePool
from kafka_native.control.context import ManagerContext
from kafka_native.control.main_thread import (
    DEFECT_PAUSE_S,
    JOIN_TIMEOUT_S,
    MainThread,
    Managers,
    _Link,
)
from kafka_native.control.requests import NEVER, Manager
from kafka_native.errors import KafkaError
from kafka_native.threads import Event as ThreadEvent

if TYPE_CHECKING:
    from kafka_native._native.engine import Event


class RoleThread(MainThread):
    """Owns the control plane of one role. The thread is the host's.

    The host's thread holds a reference to it only during an iteration, and from `begin_stop()` to
    the end.
    """

    def __init__(
        self,
        host: MainThread,
        context: ManagerContext,
        managers: Managers,
        common: Sequence[Manager] = (),
        *,
        on_close: Sequence[Callable[[KafkaError], None]] = (),
        on_fatal: Callable[[KafkaError], None],
        on_orphaned: Callable[[], None],
    ) -> None:
        """See `MainThread`. `start()` gives it to its host; before that, the host knows nothing."""
        super().__init__(
            context,
            managers,
            common,
            on_close=on_close,
            on_fatal=on_fatal,
            on_orphaned=on_orphaned,
        )
        self._host = host
        self._role_pool = cast(RolePool, context.pool)
        self._role_pool.on_change = self.touch
        self._is_started = False
        self._has_ended = ThreadEvent()
        self._due_at = 0.0
        self.get_if_alive = _finder(self._link)
        """Returns this object, or None while the garbage collector frees it."""
        self.touched = True
        """Its managers are polled in the next iteration."""

    def touch(self) -> None:
        """Polls the managers in the next iteration, because their state has changed."""
        self.touched = True

    def start(self) -> None:
        """Gives the role to its host. RuntimeError: the host is closed, or the role."""
        with self._starting:  # `stop()` sees a role that the host ends, or one that never starts
            self.check_running()
            self._host.adopt(self)
            self._is_started = True
        self.post(self._join)

    def _join(self) -> None:
        if not self.stopping:  # else this is the last work of a role that has left already
            self._role_pool.attach()
            self.metadata.attach()

    @property
    def started(self) -> bool:
        """Whether the role was ever given to its host."""
        return self._is_started

    def is_current(self) -> bool:
        """Whether the caller runs on the host's thread."""
        return self._host.is_current()

    def stop(self) -> None:
        """Stops the role. The host and its other roles go on.

        Unfinished calls fail with _DESTROY. Don't call this on the control thread.
        """
        self.begin_stop()
        if self.started and not self._has_ended.wait(JOIN_TIMEOUT_S):
            self._logger.error("the role has not ended within %.0f s", JOIN_TIMEOUT_S)

    def hold(self, on_end: Callable[[], None] | None = None) -> None:
        """Keeps this object alive until it has ended. Destructors call this."""
        super().hold(on_end)
        self.touched = True

    # --- the host's thread ---

    def pending_work(self) -> int:
        """The number of queued functions."""
        return len(self._work)

    def step_if_due(self, work: int) -> float:
        """Runs the role if it has something to do.

        Returns the time (monotonic seconds) of the next step.
        """
        if work or self.touched or time.monotonic() >= self._due_at:
            self.touched = False
            try:
                self._due_at = self.step(work)
                if self.stopping:
                    self.end()
                    return NEVER
            except Exception:  # a defect of one role must not end its host
                self._on_defect()
                self._due_at = time.monotonic() + DEFECT_PAUSE_S
        return 0.0 if self.touched or self._work else self._due_at

    def handle_events(self) -> None:
        """Handles all events of the host and its roles."""
        self._host.handle_events()

    def take_event(self, event: Event) -> None:
        """Handles an event of this role's engine."""
        self.touched = True
        self._guarded(event)

    def end(self) -> None:
        """Fails the unfinished calls and leaves the host."""
        try:
            super().end()
        finally:
            self._host.release(self)
            self.touched = False
            self._link.main = _gone
            self._has_ended.set()

    def _end(self) -> None:
        self.metadata.detach()
        super()._end()
        self._role_pool.detach()

    def _take_last_lines(self) -> None:
        self._host.handle_events()

    def _report_dropped(self) -> None:
        """The host reports dropped log lines: the engines count them together."""


def _gone() -> None:
    """Stands for a role that has ended."""


def _finder(link: _Link) -> Callable[[], RoleThread | None]:
    """A function that returns the role of a link without keeping it alive."""
    return lambda: cast("RoleThread | None", link.main())
