"""Planted bugs of a share group's member. Each must be caught by one of its rules."""

from __future__ import annotations

from tests.broker.chaos.planted import Bug

BUGS = {
    "hasty": Bug("A member accepts records before it has processed them", {"nothing_lost"}),
    "deaf": Bug("A member takes a failed acknowledgement for a success", {"done_once"}),
}
