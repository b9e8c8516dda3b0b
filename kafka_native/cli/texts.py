"""Converts texts: escapes in delimiters and formats, hex and base64 for bytes, times, counts."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import datetime, timedelta

import click

_SIMPLE = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|(.))", re.S)

_EPOCH = datetime(1970, 1, 1)

FORMS = ("raw", "hex", "base64")
"""The forms of ``--key-as`` and ``--value-as``: the bytes themselves, or an ASCII form of them."""

TO_FORM: dict[str, Callable[[bytes], bytes]] = {
    "raw": bytes,
    "hex": binascii.hexlify,
    "base64": base64.b64encode,
}
FROM_FORM: dict[str, Callable[[bytes], bytes]] = {
    "raw": bytes,
    "hex": binascii.unhexlify,
    "base64": lambda text: base64.b64decode(text, validate=True),
}
"""Each raises ValueError for text that doesn't have the form."""


def unescaped(text: str) -> bytes:
    r"""Replace ``\n``, ``\t``, ``\r``, ``\0``, ``\xNN`` and ``\\``; another ``\c`` becomes c."""
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(text):
        parts.append(_bytes(text[end : match.start()]))
        parts.append(
            bytes([int(match[1], 16)]) if match[1] else _SIMPLE.get(match[2], _bytes(match[2]))
        )
        end = match.end()
    return b"".join([*parts, _bytes(text[end:])])


def _bytes(text: str) -> bytes:
    # A command-line argument that isn't UTF-8 keeps its bytes.
    return text.encode("utf-8", "surrogateescape")


def argument(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> bytes | None:
    """An option's text as bytes."""
    return None if text is None else _bytes(text)


def delimiter(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> bytes | None:
    """An option's text as a delimiter, with escapes replaced. An empty one is an error."""
    if text == "":
        raise click.BadParameter("an empty delimiter separates nothing")
    return None if text is None else unescaped(text)


def headers(
    _context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> list[tuple[str, bytes | None]]:
    """The pairs of ``-H name=value``, an option that may repeat.

    Without ``=`` the value is null.
    """
    found: list[tuple[str, bytes | None]] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not name:
            raise click.BadParameter("write NAME=VALUE, or NAME for a null")
        found.append((name, _bytes(value) if equals else None))
    return found


def time_text(milliseconds: int, utc: str = "+00:00") -> str | None:
    """A record's timestamp as ISO-8601 in UTC; None if the record has none.

    A producer may write any number. A time before the year 1 or after 9999 is shown as the number.

    :param utc: The text for the zone.
    """
    if milliseconds == -1:  # times before 1970 are other negative numbers
        return None
    try:
        return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(
            timespec="milliseconds"
        ) + utc
    except OverflowError:
        return str(milliseconds)


def count(number: int, what: str) -> str:
    """``1 message``, ``2 messages``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
