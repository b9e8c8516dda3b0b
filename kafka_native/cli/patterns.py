"""Patterns of topic names: globs such as ``orders-*``, regular expressions such as ``^orders``."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase

import click

_WILDCARDS = re.compile(r"[*?\[]")
_CHARACTER = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)


def for_subscription(name: str) -> str:
    """Return a topic or a pattern in the form of `Consumer.subscribe`: a glob becomes a ``^regex``.

    :raises click.UsageError: The regular expression is invalid.
    """
    if name.startswith("^"):
        _compiled(name)
        return name
    if not is_pattern(name):
        return name
    parts = [_as_regex(each) for each in _CHARACTER.findall(name)]
    return f"^{''.join(parts)}$"


def is_pattern(name: str) -> bool:
    """Return whether the text is a pattern. The name of a topic has no such characters."""
    return name.startswith("^") or _WILDCARDS.search(name) is not None


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether a name matches a glob or a ``^regex``.

    :raises click.UsageError: The regular expression is invalid.
    """
    if pattern.startswith("^"):
        found = _compiled(pattern)
        return lambda name: found.match(name) is not None
    return lambda name: fnmatchcase(name, pattern)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise click.UsageError(f"{pattern!r} is no regular expression: {error}") from None


def _as_regex(part: str) -> str:
    """Return the regular expression of one character, wildcard or set of a glob."""
    if part == "*":
        return ".*"
    if part == "?":
        return "."
    if len(part) > 1:
        negated = part[1] == "!"
        inside = part[2:-1] if negated else part[1:-1]
        escaped = inside.replace("\\", "\\\\").replace("^", "\\^")
        return f"[{'^' if negated else ''}{escaped}]"
    return re.escape(part) if part not in "-_" else part
