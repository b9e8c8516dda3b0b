"""Texts from the network, made safe to print: names, error texts, certificates.

Such a text could attack its reader. A terminal executes escape sequences. A line break starts a
forged line in a log. A bidirectional control character hides the real text. Python
considers none of these characters printable.
"""

from __future__ import annotations

import re
from typing import Final

ERROR_TEXT_MAX: Final = 1000
"""The number of characters of a broker's text that an error shows.

Kafka's own texts are sentences.
"""
NAME_MAX: Final = 255
"""The number of characters of a name that an error shows.

A topic's name has at most 249, a host's 255.
"""
_ESCAPE: Final = r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})"
"""The result of `escaped` for a character that isn't printable."""


def printable(text: str) -> str:
    """Return the text as one line. ``?`` replaces each character that isn't printable."""
    return (
        text
        if text.isprintable()
        else "".join(each if each.isprintable() else "?" for each in text)
    )


def is_utf8(text: str) -> bool:
    """Return whether a text can be written as UTF-8: it has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def clean(text: str, length_max: int = 80) -> str:
    """Return the text as `printable` does, cut off after ``length_max`` characters."""
    shown = printable(text[: length_max + 1])
    return shown if len(shown) <= length_max else shown[: length_max - 1] + "…"


def error_text(text: str) -> str:
    """Return a broker's text as one printable line of at most `ERROR_TEXT_MAX` characters.

    Spaces replace other whitespace.
    """
    start = text[: ERROR_TEXT_MAX + 1]
    if not start.isprintable():
        start = "".join(" " if each.isspace() else each for each in start)
    return clean(start, ERROR_TEXT_MAX)


def escaped(source: object) -> str:
    r"""Return an object's text as one line. An escape replaces what isn't printable.

    Escapes are, for instance, ``\x1b`` and ``\u202e``. Different texts stay different: if a text
    has such a character, or a part that looks like an escape, its backslashes are doubled.
    """
    text = str(source)
    if text.isprintable() and re.search(_ESCAPE, text) is None:
        return text
    return "".join(_escape(each) for each in text.replace("\\", "\\\\"))


def escaped_data(data: bytes) -> str:
    r"""Return the bytes of a message as one line of text.

    ``\xff`` replaces a byte that isn't UTF-8. Backslashes aren't doubled.
    """
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
