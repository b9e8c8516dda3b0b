"""Decides which failures to report: each cause at once, then once a minute during the outage.

A subject is anything that fails for its own causes: a broker's address, the cluster, a group. This
module reports nothing itself. Its caller asks `is_due()` and then reports the failure to the
application, or only to the debug log.

Thread: the control thread only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

REMINDER_INTERVAL_S = 60.0
"""How soon the same cause is reported again during an outage."""
BURST_MAX = 3.0
"""The maximum number of immediate reports of one cause, if a subject often fails and recovers.
"""
SUBJECTS_MAX = 1000
"""The maximum number of outages to remember; the oldest is dropped first.

Without it, the memory of a client would grow, because addresses of brokers may change.
"""


class _Cause:
    """Each report costs one ``credit``.

    It grows by one per reminder interval, up to `BURST_MAX`.
    """

    def __init__(self, credit: float, reported_at: float) -> None:
        self.credit = credit
        self.reported_at = reported_at


class _Outage:
    def __init__(self) -> None:
        self.since: float | None = None
        """When the current outage was first reported; None: no reported outage is open."""
        self.over_at = -1.0
        self.causes: dict[Hashable, _Cause] = {}


class Outages:
    """The failures of one client's brokers, or of one group."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` returns seconds."""
        self._clock = clock
        self._outages: dict[Hashable, _Outage] = {}

    def is_due(self, subject: Hashable, cause: Hashable, *, reminds: bool = True) -> bool:
        """Whether to report this failure now. True counts as reported.

        ``reminds``: also report a known cause again, once a minute.
        """
        now = self._clock()
        outage = self._outages.pop(subject, None) or _Outage()
        self._outages[subject] = outage  # it is the newest now
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
        """The age of the current outage since its first report, in seconds; 0: no outage."""
        outage = self._outages.get(subject)
        return 0.0 if outage is None or outage.since is None else self._clock() - outage.since

    def end(self, subject: Hashable) -> float | None:
        """Ends the subject's outage.

        Returns its length in seconds, or None if none was reported.
        """
        outage = self._outages.get(subject)
        if outage is None:
            return None
        outage.over_at = now = self._clock()
        since, outage.since = outage.since, None
        return None if since is None else now - since
