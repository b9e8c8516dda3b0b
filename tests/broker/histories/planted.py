"""Planted bugs of a process. Each must be caught by one of its rules."""

from __future__ import annotations

from tests.broker.chaos.planted import Bug

BUGS = {
    "dirty-poll": Bug(
        "A process polls messages of open and aborted transactions",
        {"aborted_read", "intermediate_read", "precommitted_read"},
    ),
    "promised-abort": Bug(
        "A process reports an aborted transaction as committed", {"lost_write", "unseen"}
    ),
    "poll-gap": Bug("A process leaves out a message", {"poll_skip", "internal_poll_skip"}),
}
