"""Hostile names for terminals, and a check of text that a terminal shows."""

from __future__ import annotations

import re

MARKS = "\x1b[35m\x1b]0;title\x07\x7f\x9b2J\u202e\u200b\U000e0041[red][/]\r\nforged"
"""ESC, BEL, DEL, C1, a bidi mark, a zero-width character, a tag, rich's markup, a new line.
"""
ESCAPED_MARKS = r"\x1b[35m\x1b]0;title\x07\x7f\x9b2J\u202e\u200b\U000e0041[red][/]\x0d\x0aforged"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def unprintable(text: str) -> set[str]:
    """Return the characters that a terminal obeys, or doesn't show as they are."""
    return {each for each in text if not each.isprintable() and each != "\n"}


def check(text: str) -> None:
    """Check that no character acts on a terminal, and that no name begins a line."""
    assert not unprintable(text), text
    lines = text.splitlines()
    assert not [line for line in lines if line.lstrip(" │┃|").startswith("forged")], (
        "a name has begun a line"
    )
