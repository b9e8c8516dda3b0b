"""Regular expressions for names of topics: Python's, and what Java and RE2 have beyond.

The connector uses Java's syntax, and brokers use RE2's (KIP-848). Python lacks some of their
classes. The names of topics have only the characters of `ALPHABET`. So such a class becomes a plain
list of these characters. A construct without a translation is an error that names an equivalent.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import Final

__all__ = ["ALPHABET", "topic_pattern"]

ALPHABET: Final = string.ascii_letters + string.digits + "._-"
"""The characters of topics' names."""

_LETTERS: Final = frozenset(string.ascii_letters)
_UPPER: Final = frozenset(string.ascii_uppercase)
_LOWER: Final = frozenset(string.ascii_lowercase)
_DIGITS: Final = frozenset(string.digits)
_PUNCTUATION: Final = frozenset("._-")
_NONE: Final[frozenset[str]] = frozenset()

_CLASSES: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("l", "isl", "letter", "isletter", "alpha", "alphabetic", "isalphabetic"),
                    _LETTERS),
    **dict.fromkeys(("latin", "islatin"), _LETTERS),
    **dict.fromkeys(("lu", "upper", "isuppercase", "uppercase", "islu"), _UPPER),
    **dict.fromkeys(("ll", "lower", "islowercase", "lowercase", "isll"), _LOWER),
    **dict.fromkeys(("n", "nd", "digit", "isdigit", "isnd", "isn"), _DIGITS),
    **dict.fromkeys(("alnum", "isalnum", "letterordigit"), _LETTERS | _DIGITS),
    "word": _LETTERS | _DIGITS | {"_"},
    "xdigit": frozenset(string.hexdigits),
    **dict.fromkeys(("p", "punct", "ispunctuation", "isp"), _PUNCTUATION),
    "pc": frozenset("_"),
    "pd": frozenset("-"),
    "po": frozenset("."),
    **dict.fromkeys(("ascii", "any", "graph", "print", "isassigned"), frozenset(ALPHABET)),
    **dict.fromkeys(("space", "blank", "cntrl", "iswhite_space", "z", "zs", "s", "m", "c"), _NONE),
}  # fmt: skip
"""The characters of Java's and RE2's named classes, by their names in lower case."""

_PROPERTY: Final = re.compile(r"\\([pP])(?:\{(\^?)([\w=]+)\}|([A-Z]))")
_POSIX: Final = re.compile(r"\[:(\^?)([a-z]+):\]")
_REFUSED: Final[Mapping[str, str]] = {
    "R": "names of topics have no line breaks: leave it out",
    "X": "write . in its place",
    "C": "write . in its place",
    "G": "leave it out: the whole name has to match",
}
_INTERSECTION_TEXT: Final = (
    "there are no && and no classes in classes: write (?![xy])[a-z] in place of [a-z&&[^xy]], "
    "and [a-cx-z] in place of [a-c[x-z]]"
)


def topic_pattern(text: str) -> re.Pattern[str]:
    r"""Compile a regular expression that whole names of topics match, for ``fullmatch()``.

    :param text: Python's syntax, or what Java and RE2 have beyond it: ``\p{Alpha}``,
        ``[[:alpha:]]``, ``\Q...\E``, ``(?<name>...)``, ``\h``, ``\z``, ``\x{41}``.
    :raises ValueError: The text is no regular expression, or has a part without an equivalent.
    """
    try:
        return re.compile(_Translator(text).translated())
    except re.error as error:
        raise ValueError(str(error)) from None


class _Translator:
    """Walks through a pattern once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._found: list[str] = []
        self._class_start = -1  # where the current class begins; -1: outside of classes

    def translated(self) -> str:
        while self._at < len(self._text):
            self._step()
        return "".join(self._found)

    def _step(self) -> None:
        char = self._text[self._at]
        if char == "\\":
            self._escape()
        elif self._class_start >= 0:
            self._in_class(char)
        elif char == "[":
            self._class_start = self._at
            negated = self._text.startswith("[^", self._at)
            self._take(2 if negated else 1)
            self._class_start = self._at  # a ] here is a plain character
        elif re.match(r"\(\?<[A-Za-z]", self._text[self._at :]):
            self._found.append("(?P<")
            self._at += 3
        else:
            self._take(1)

    def _in_class(self, char: str) -> None:
        posix = _POSIX.match(self._text, self._at)
        if posix is not None:
            self._add(posix[2], bool(posix[1]))
            self._at = posix.end()
        elif self._text.startswith("&&", self._at) or char == "[":
            raise ValueError(_INTERSECTION_TEXT)
        else:
            if char == "]" and self._at > self._class_start:
                self._class_start = -1
            self._take(1)

    def _escape(self) -> None:
        text, at = self._text, self._at
        named = _PROPERTY.match(text, at)
        letter = text[at + 1 : at + 2]
        if named is not None:
            self._add(named[3] or named[4], (named[1] == "P") != bool(named[2]))
            self._at = named.end()
        elif letter == "Q":
            quoted, _, _ = text[at + 2 :].partition(r"\E")
            self._found.append(re.escape(quoted))
            self._at += 2 + len(quoted) + 2
        elif letter == "z" and self._class_start < 0:
            self._put(r"\Z", 2)
        elif letter in "hH" and letter:
            self._put(r"\s" if letter == "h" else r"\S", 2)
        elif (code := re.compile(r"\\x\{([0-9a-fA-F]{1,6})\}").match(text, at)) is not None:
            self._put(re.escape(chr(int(code[1], 16))), len(code[0]))
        elif letter in _REFUSED and letter:
            raise ValueError(f"\\{letter} has no equivalent: {_REFUSED[letter]}")
        else:
            self._take(2)

    def _add(self, name: str, negated: bool) -> None:
        """Add the characters of a named class."""
        short = re.sub(r"^(script|sc|block|blk|general_category|gc|in)=", "", name.lower())
        chars = _CLASSES.get(short.removeprefix("java"), _CLASSES.get(short))
        if chars is None:
            raise ValueError(f"class {name!r} isn't known: list its characters, as in [A-Za-z0-9]")
        wanted = [each for each in ALPHABET if (each in chars) != negated]
        listed = "".join(re.escape(each) for each in wanted)
        if self._class_start >= 0:
            self._found.append(listed)
        else:
            self._found.append(f"[{listed}]" if listed else r"(?!)")

    def _put(self, text: str, length: int) -> None:
        self._found.append(text)
        self._at += length

    def _take(self, length: int) -> None:
        """Copy characters unchanged."""
        self._put(self._text[self._at : self._at + length], length)
