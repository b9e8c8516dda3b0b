"""Names that would act on a terminal, and what text on a terminal may hold."""

from __future__ import annotations

import re

MARKS = "\x1b[35m\x1b]0;title\x07\x7f\x9b2J\u202e\u200b\U000e0041[red][/]\r\nforged"
"""ESC, BEL, DEL, a C1 control, a bidi mark, one without width, a tag, rich's markup, and a line of its own."""
ESCAPED_MARKS = r"\x1b[35m\x1b]0;title\x07\x7f\x9b2J\u202e\u200b\U000e0041[red][/]\x0d\x0aforged"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def unprintable(text: str) -> set[str]:
    """What a terminal would obey, or wouldn't show as it is."""
    return {each for each in text if not each.isprintable() and each != "\n"}


def check(text: str) -> None:
    """Nothing in it acts on a terminal, and no name has begun a line."""
    assert not unprintable(text), text
    lines = text.splitlines()
    assert not [line for line in lines if line.lstrip(" │┃|").startswith("forged")], "a name has begun a line"
