"""Which failures are reported: each cause at once, and then once a minute for as long as the outage lasts.

A subject is whatever fails for causes of its own: a broker's address, the cluster, a group. Nothing here reports; who
has met a failure asks, and reports it to the application or else only to the debug log.

Thread: the control thread only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

REMINDER_INTERVAL_S = 60.0
"""How soon the same cause is reported again while the outage lasts."""
BURST_MAX = 3.0
"""Reports of the same cause that are due at once when a subject fails again and again, and works in between."""
SUBJECTS_MAX = 1000
"""Outages that are kept; the oldest goes first. Addresses of brokers may change for as long as a client lives."""


@dataclass(slots=True)
class _Cause:
    """A report takes one of ``credit``, which grows by one each reminder interval up to `BURST_MAX`."""

    credit: float
    reported_at: float


@dataclass(slots=True)
class _Outage:
    since: float | None = None
    """When the present outage was first reported; None: nothing is reported that isn't over."""
    over_at: float = -1.0
    causes: dict[Hashable, _Cause] = field(default_factory=dict)


class Outages:
    """The failures of one client's brokers, or of one group."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock``: in seconds."""
        self._clock = clock
        self._outages: dict[Hashable, _Outage] = {}

    def is_due(self, subject: Hashable, cause: Hashable, *, reminds: bool = True) -> bool:
        """Whether this failure is to be reported now, which counts as done then.

        ``reminds``: also if the cause is no news, once a minute.
        """
        now = self._clock()
        outage = self._outages.pop(subject, None) or _Outage()
        self._outages[subject] = outage  # the last one now
        if len(self._outages) > SUBJECTS_MAX:
            del self._outages[next(iter(self._outages))]
        known = outage.causes.get(cause)
        if known is None:
            outage.causes[cause] = _Cause(BURST_MAX - 1, now)
        else:
            elapsed_s = now - known.reported_at
            credit = min(BURST_MAX, known.credit + elapsed_s / REMINDER_INTERVAL_S)
            is_news = known.reported_at <= outage.over_at
            if credit < 1 or not (is_news or (reminds and elapsed_s >= REMINDER_INTERVAL_S)):
                return False
            outage.causes[cause] = _Cause(credit - 1, now)
        if outage.since is None:
            outage.since = now
        return True

    def age_s(self, subject: Hashable) -> float:
        """How long ago the present outage was first reported; 0: there is none."""
        outage = self._outages.get(subject)
        return 0.0 if outage is None or outage.since is None else self._clock() - outage.since

    def end(self, subject: Hashable) -> float | None:
        """The subject works: how long its outage was, in seconds, or None if none was reported."""
        outage = self._outages.get(subject)
        if outage is None:
            return None
        outage.over_at = now = self._clock()
        since, outage.since = outage.since, None
        return None if since is None else now - since
