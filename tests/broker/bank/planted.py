"""Planted bugs of a processor. Each must be caught by one of its rules."""

from __future__ import annotations

from tests.broker.chaos.planted import Bug

BUGS = {
    "rewind": Bug(
        "A processor doesn't go back to the committed offset after an abort", {"each_order_once"}
    ),
}
