"""Patterns of tagged field names in a schema's metadata."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["wildcard_match"]

_TOKEN = re.compile(r"\\.|\*\*|.", re.DOTALL)
_EXPRESSIONS = {"**": ".*", "*": r"[^.]*", "?": r"[^.]"}


def wildcard_match(text: str, matcher: str) -> bool:
    """Return whether a full field name matches a pattern.

    In a pattern, ``?`` is one character and ``*`` any number of characters, both without dots.
    ``**`` is any number of characters with dots. A backslash makes the next character literal.

    :param text: The full name of a field, for instance ``com.example.User.email``.
    :param matcher: The pattern.
    """
    return _expression(matcher).fullmatch(text) is not None


@lru_cache(maxsize=1024)
def _expression(matcher: str) -> re.Pattern[str]:
    tokens: list[str] = _TOKEN.findall(matcher.replace("**.*", "**"))
    return re.compile("".join(_translated(token) for token in tokens))


def _translated(token: str) -> str:
    literal = token[1] if len(token) == 2 and token[0] == "\\" else token
    return _EXPRESSIONS.get(token) or re.escape(literal)
