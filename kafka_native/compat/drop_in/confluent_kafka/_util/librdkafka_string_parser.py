"""Lists of texts and of ``key=value`` pairs, as librdkafka reads them in its properties."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["parse_key_values", "split"]

_SPACE: Final = " \t\n\v\f\r"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "0": "\0"}
_TOKEN: Final = re.compile(r"\\(.)|([^\\])", re.DOTALL)


def split(raw: str, sep: str, skip_empty: bool) -> list[str]:
    r"""Split a text at the first character of ``sep``.

    A backslash keeps the next character as it is, apart from ``\t``, ``\n``, ``\r`` and ``\0``.
    Spaces around a field are dropped; an escaped one at its start is kept.

    :param skip_empty: Leave out empty fields.
    :raises TypeError: ``raw`` is None.
    """
    if raw is None:
        raise TypeError("raw must not be None")
    separator = sep[:1]
    fields = [""]
    for escaped, plain in _TOKEN.findall(raw):
        if escaped:
            fields[-1] += _ESCAPES.get(escaped, escaped)
        elif plain == separator:
            fields.append("")
        elif fields[-1] or plain not in _SPACE:
            fields[-1] += plain
    stripped = [field.rstrip(_SPACE) for field in fields]
    return [field for field in stripped if field or not skip_empty]


def parse_key_values(raw: str, sep: str, context_label: str | None = None) -> list[tuple[str, str]]:
    """Return the ``key=value`` pairs of a text, split as `split()` does.

    :param context_label: The text's property, for the error.
    :raises TypeError: ``raw`` is None.
    :raises ValueError: A field has no ``=``, or no key.
    """
    pairs = []
    for field in split(raw, sep, skip_empty=True):
        key, equals, value = field.partition("=")
        if not key or not equals:
            where = f" in {context_label}" if context_label else ""
            raise ValueError(f"Malformed entry '{field}'{where} (expected key=value).")
        pairs.append((key, value))
    return pairs
