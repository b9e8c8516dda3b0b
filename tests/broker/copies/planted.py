"""Planted bugs of our copiers. Each must be caught by one of its rules."""

from __future__ import annotations

from tests.broker.chaos.planted import Bug

BUGS = {
    "uncommitted": Bug("A copier reads aborted messages", {"nothing_aborted_is_seen"}),
}
