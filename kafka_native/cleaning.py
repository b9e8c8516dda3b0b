"""Texts of somebody else, made fit to be shown: names, error texts and certificates come from the network.

A terminal obeys escape sequences, a log's reader believes a line that a text has begun, and marks that turn the
direction of writing show another text than there is. None of them is printable, as Python sees it.
"""

from __future__ import annotations

import re
from typing import Final

ERROR_TEXT_MAX: Final = 1000
"""Characters of a broker's text that an error shows. Kafka's own are sentences."""
NAME_MAX: Final = 255
"""Characters of a name that an error shows: a topic's has 249 at most, a host's 255."""
_ESCAPE: Final = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")
"""What `escaped` makes of a character that isn't printable."""


def printable(text: str) -> str:
    """A text as one line without what a terminal would obey; ``?`` for each character that isn't printable."""
    return (
        text
        if text.isprintable()
        else "".join(each if each.isprintable() else "?" for each in text)
    )


def clean(text: str, length_max: int = 80) -> str:
    """The same, and not too long."""
    shown = printable(text[: length_max + 1])
    return shown if len(shown) <= length_max else shown[: length_max - 1] + "…"


def error_text(text: str) -> str:
    """A broker's text for an error: one printable line of at most `ERROR_TEXT_MAX` characters, whitespace as spaces."""
    start = text[: ERROR_TEXT_MAX + 1]
    if not start.isprintable():
        start = "".join(" " if each.isspace() else each for each in start)
    return clean(start, ERROR_TEXT_MAX)


def escaped(text: str) -> str:
    r"""A text as one line, with ``\x1b`` or ``\u202e`` for each character that isn't printable.

    Different texts stay different: where a text has such a character, or already looks as if it had one, its
    backslashes are doubled.
    """
    if text.isprintable() and _ESCAPE.search(text) is None:
        return text
    return "".join(_escape(each) for each in text.replace("\\", "\\\\"))


def escaped_data(data: bytes) -> str:
    r"""Bytes of a message as one line of text, with ``\xff`` for a byte that isn't UTF-8; a backslash stays one."""
    text = data.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(_escape(each) for each in text)


def _escape(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )
