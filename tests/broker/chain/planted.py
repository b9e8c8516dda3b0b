"""Planted bugs of a chain's members. Each must be caught by one of its rules."""

from __future__ import annotations

from tests.broker.chaos.planted import Bug

BUGS = {"repeat": Bug("A member copies some messages twice", {"nothing_twice"})}
