"""Parses where reading begins and ends: ``-o``, ``--from`` and ``--to``."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

import click

from kafka_native.cli.envelope import milliseconds

Key = tuple[str, int]
"""A topic and a partition number."""

_WORDS = {
    "beginning": "beginning",
    "earliest": "beginning",
    "end": "end",
    "latest": "end",
    "stored": "stored",
}
_AGO = re.compile(r"-?(\d{1,9})(ms|s|m|h|d)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
EXPECTED_FORMS_TEXT = (
    "write beginning, end, stored, an offset, -N (N before the end), a time (2024-05-01T12:00Z), "
    "or 90m (ago)"
)


@dataclass(frozen=True, slots=True)
class OffsetBound:
    """A begin or an end of reading, for each partition."""

    kind: str
    """``beginning``, ``end``, ``stored``, ``offset``, ``tail`` or ``time``.

    ``tail`` counts messages before the end; ``time`` is in milliseconds since 1970.
    """
    number: int = 0


BEGINNING, END = OffsetBound("beginning"), OffsetBound("end")


def parsed(text: str) -> OffsetBound:
    """Parse a user's text.

    :raises ValueError: The text has none of the forms.
    """
    word = text.strip()
    if word.lower() in _WORDS:
        return OffsetBound(_WORDS[word.lower()])
    if re.fullmatch(r"\d{1,18}", word):
        return OffsetBound("offset", int(word))
    if re.fullmatch(r"-\d{1,18}", word):
        return OffsetBound("tail", -int(word))
    if match := _AGO.fullmatch(word):
        return _at(time.time_ns() // 1_000_000 - int(match[1]) * _UNITS_MS[match[2]])
    try:
        return _at(milliseconds(word))
    except ValueError:
        raise ValueError(f"{text!r}: {EXPECTED_FORMS_TEXT}") from None


def _at(time_ms: int) -> OffsetBound:
    # Brokers find no times before 1970: their request has other meanings for negative numbers.
    return OffsetBound("time", max(0, time_ms))


def _time(text: str) -> OffsetBound:
    """Parse the text after kcat's ``s@`` or ``e@``: milliseconds, or a time."""
    found = parsed(text)
    if found.kind == "offset":
        return OffsetBound("time", found.number)
    if found.kind != "time":
        raise ValueError(f"{text!r}: write milliseconds since 1970, or a time")
    return found


def chosen(
    offsets: tuple[str, ...], begin: str | None, end: str | None
) -> tuple[OffsetBound | None, OffsetBound | None]:
    """Combine the options that name a begin or an end. None: no option names it.

    :raises click.UsageError: A text has none of the forms, or two options name the same bound.
    """
    found: dict[str, OffsetBound] = {}
    try:
        for text in offsets:
            stops = text.startswith("e@")
            place = _time(text[2:]) if text[:2] in ("s@", "e@") else parsed(text)
            _note(found, "end" if stops else "begin", place)
        if begin is not None:
            _note(found, "begin", parsed(begin))
        if end is not None:
            _note(found, "end", parsed(end))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    last = found.get("end")
    if last is not None and last.kind == "time" and last.number > time.time_ns() // 1_000_000:
        raise click.UsageError(
            "this end is in the future; without it, reading goes on until Ctrl+C"
        )
    if last is not None and last.kind == "stored":
        raise click.UsageError("stored is no end")
    return found.get("begin"), last


def _note(found: dict[str, OffsetBound], which: str, place: OffsetBound) -> None:
    if which in found:
        raise ValueError(f"the {which} is named twice")
    found[which] = place
