"""Planted bugs of a chain's members. Each must be caught by one of its rules."""

from __future__ import annotations

from tests.broker.chaos.planted import Bug

BUGS = {
    "rewind": Bug(
        "A member doesn't go back to the committed offset after an abort", {"nothing_lost"}
    ),
}
