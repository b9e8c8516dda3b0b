"""Collects a client's statistics: for ``stats_cb`` every statistics.interval.ms, and for metrics().

The counters come from the engine; states and decisions come from the managers. While one document
waits for the application's poll, no other document is made. The windows go on, so no values are
lost.

Thread: the control thread, except for `_give()`, which runs on the application's thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kafka_native.control.requests import NEVER, Call
from kafka_native.control.states import States

if TYPE_CHECKING:
    from kafka_native.control.context import ManagerContext
    from kafka_native.control.main_thread import Managers
    from kafka_native.control.metrics_reader import MetricsReader
    from kafka_native.errors import KafkaError
    from kafka_native.statistics import ClientMetrics


class Statistics:
    """The manager whose `poll()` makes the documents that are due."""

    def __init__(
        self,
        context: ManagerContext,
        managers: Managers,
        *,
        name: str,
        client_id: str,
        kind: str,
        interval_s: float,
        stats_cb: Callable[[str], object] | None,
        call_back: Callable[[Callable[[], object]], None],
        fatal: Callable[[], KafkaError | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``call_back`` queues a function for the application's next poll().

        ``interval_s`` 0: no documents.
        """
        self._states = states = States(context, managers, fatal, clock())

        def make_reader() -> MetricsReader:
            # not at the top: a client that is never asked for statistics doesn't import them
            from kafka_native.control.metrics_reader import MetricsReader

            return MetricsReader(
                context,
                managers,
                states,
                name=name,
                client_id=client_id,
                kind=kind,
                fatal=fatal,
                clock=clock,
            )

        self._make_reader = make_reader
        self._reader: MetricsReader | None = None
        self._interval_s = interval_s
        self._stats_cb = stats_cb
        self._call_back = call_back
        wanted = interval_s > 0 and stats_cb is not None
        self._due = self._states.made_at + interval_s if wanted else NEVER
        self._waits = False  # a document waits for the application

    def poll(self, now: float) -> tuple[list[Call], float]:
        """See `requests.Manager`."""
        self._states.record(now)
        self._states.note_polls(now)
        if now >= self._due:
            next_due = self._due + self._interval_s
            self._due = next_due if next_due > now else now + self._interval_s
            if not self._waits:
                self._waits = True
                self._call_back(partial(self._give, self._document()))
        return [], self._due

    def _give(self, text: str) -> object:
        self._waits = False
        return None if self._stats_cb is None else self._stats_cb(text)

    def metrics(self) -> ClientMetrics:
        """The metrics for the application.

        Each call starts new windows, unless documents use them.
        """
        return self.collect(end=self._due == NEVER)

    def collect(self, *, end: bool) -> ClientMetrics:
        """Returns all current values. ``end``: ends the windows."""
        if self._reader is None:
            self._reader = self._make_reader()
        return self._reader.read(end=end)

    def _document(self) -> str:
        from kafka_native.statistics import to_json

        return to_json(self.collect(end=True))
