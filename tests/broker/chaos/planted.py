"""Planted bugs of a group's member. Each must be caught by one of its rules."""

from __future__ import annotations

from typing import NamedTuple


class Bug(NamedTuple):
    """What member 0 does wrong (`member.py`), and the rules of `verify.py` that it may break."""

    what: str
    rules: set[str]


BUGS = {
    "ahead": Bug("A member commits offsets that it hasn't processed", {"nothing_ahead"}),
    "back": Bug("A member commits older offsets after newer ones", {"nothing_ahead"}),
    "skip": Bug("A member leaves out a message", {"in_order", "nothing_lost"}),
    "keep": Bug(
        "A member doesn't give up a revoked partition", {"only_what_is_owned", "one_owner"}
    ),
    "hang": Bug(
        "A member's callback for revoked partitions never returns", {"settles", "good_ends"}
    ),
}
