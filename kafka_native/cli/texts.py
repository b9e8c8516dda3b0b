"""Text in options and of messages: escapes in delimiters and formats, forms for bytes that aren't text, times."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import click

_SIMPLE = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|(.))", re.S)

_EPOCH = datetime(1970, 1, 1)

FORMS = ("raw", "hex", "base64")
"""How bytes are written, ``--key-as`` and ``--value-as``: as they are, or in an alphabet that any terminal has."""

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
"""ValueError for what isn't of the form."""


def unescaped(text: str) -> bytes:
    r"""``\n``, ``\t``, ``\r``, ``\0``, ``\xNN`` and ``\\`` as the bytes they stand for; another ``\c`` is c itself."""
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
    return text.encode(
        "utf-8", "surrogateescape"
    )  # an argument that is no UTF-8 stays the bytes it was


def argument(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> bytes | None:
    """An option's text as bytes."""
    return None if text is None else _bytes(text)


def delimiter(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> bytes | None:
    """An option's text as a delimiter, not an empty one."""
    if text == "":
        raise click.BadParameter("an empty delimiter separates nothing")
    return None if text is None else unescaped(text)


def headers(
    _context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> list[tuple[str, Any]]:
    """``-H name=value``, repeated; without ``=`` the value is null."""
    found: list[tuple[str, Any]] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not name:
            raise click.BadParameter("write NAME=VALUE, or NAME for a null")
        found.append((name, _bytes(value) if equals else None))
    return found


def time_text(milliseconds: int, utc: str = "+00:00") -> str | None:
    """A timestamp of a record as ISO-8601 in UTC; None where there is none.

    A producer may write any number: one before the year 1 or after 9999 stays the number.

    :param utc: How the zone is written.
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
