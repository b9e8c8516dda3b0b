"""Secrets in texts of somebody else: found in whatever spelling they come back, and taken out.

A provider or a broker may repeat what it was sent, and it repeats what it has seen: the header with base64, the form
with its percent signs, a JSON text within a JSON text.

Thread: any.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from kafka_native._reference.property import REDACTED as REDACTED

DERIVED_MIN = 6
"""Characters of base64 or hexadecimal digits that say enough of a secret to be taken for it."""
SPELLED_MAX = 16384
"""Longer secrets (an assertion from a file) are only looked for as they are."""
SEARCHED_MAX = 16384
"""Characters of a text that is searched. Of a longer one nothing is shown but its length: others decide how long it is,
and a search holds Python's lock."""
WHOLE_WORD_MAX = 5
"""Characters of a secret that is only found as a whole word. Elsewhere it is a part of everybody's words, and the gaps
would tell the secret."""
RECENT_MAX = 16
_WORD = re.compile(r"[A-Za-z0-9]+", re.ASCII)
LAYERS_MAX = 8
"""Backslashes before a character: 7 with three layers of JSON."""
_PERCENT = r"%(?:25){0,3}"
_ENTITY = rf"(?:&|{_PERCENT}26)(?:amp;){{0,3}}"
_BACKSLASH = rf"(?i:\\|{_PERCENT}5c|{_ENTITY}#(?:0{{0,6}}92|x0{{0,6}}5c);|x5c|u005c)"
_GAP = re.escape(REDACTED)
_BEGIN = r"(?:(?<![^\W_])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[abfnrtv0])|(?<=\\x[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4}))"
"""Where a word begins: also behind a sign that is written with letters or digits, as ``%20`` and ``\\n``."""
_END = r"(?![^\W_])"
_PIECE = re.compile(r"(\\+|)([^\\]|(?<=\\)\Z)")


class Secrets:
    """What one mechanism must not show: what it was made with, and what it has sent lately (tokens, assertions).

    Iterating goes through them as they are; `redacted()` knows how else they may be written.
    """

    def __init__(self, lasting: Iterable[str] = ()) -> None:
        """With those that stay."""
        self._lasting = tuple(lasting)
        self._recent: tuple[str, ...] = ()  # replaced as a whole: another thread may be looking

    def add(self, *secrets: str) -> None:
        """One that will be replaced by another one; the last few are remembered."""
        for secret in secrets:
            self._recent = (secret, *(each for each in self._recent if each != secret))[:RECENT_MAX]

    def keep(self, *secrets: str) -> None:
        """More of those that stay."""
        self._lasting = (*self._lasting, *secrets)

    def __iter__(self) -> Iterator[str]:
        return iter((*self._recent, *self._lasting))

    def __repr__(self) -> str:
        return f"Secrets({REDACTED})"


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets, in any of the spellings that are known here."""
    known = [secret for secret in secrets if secret]
    if len(text) > SEARCHED_MAX:
        for secret in sorted(known, key=len, reverse=True):
            text = text.replace(secret, REDACTED) if len(secret) > WHOLE_WORD_MAX else text
    if len(text) > SEARCHED_MAX:
        return f"a text of {len(text)} characters"
    forms = {form for secret in known for form in _forms(secret)}
    lowered = text.lower()
    for form in sorted(forms, key=len, reverse=True):
        if (
            max(_WORD.findall(form), key=len, default="").lower() in lowered
        ):  # spelled the same everywhere
            pattern = re.escape(form) if len(form) > SPELLED_MAX else _spelled(form)
            pattern = rf"{_BEGIN}{pattern}{_END}" if len(form) <= WHOLE_WORD_MAX else pattern
            text = re.sub(
                rf"{_GAP}|{pattern}", REDACTED, text
            )  # a gap stays one, whatever the secret is
    return text


def _forms(secret: str) -> set[str]:
    """The secret, what it becomes where its characters are lost, and its bytes in base64 and hexadecimal digits."""
    found = {secret}
    if len(secret) > SPELLED_MAX:
        return found
    data = secret.encode("utf-8", "surrogatepass")
    if not secret.isascii():
        lost = data.decode("ascii", "replace")
        found |= {
            secret.encode("ascii", "replace").decode(),
            lost,
            lost.replace("\ufffd", "?"),
            data.decode("latin-1"),
        }
    whole = base64.b64encode(data).decode().rstrip("=")
    derived = {whole, data.hex(), data.hex().upper()}
    for before in range(
        3
    ):  # also as a part of something else: how far it begins in a group of three bytes
        coded = base64.b64encode(bytes(before) + data).decode().rstrip("=")
        first = (before * 8 + 5) // 6  # what has bits of the bytes before it
        derived.add(coded[first : (before + len(data)) * 8 // 6])
    derived |= {each.replace("+", "-").replace("/", "_") for each in derived}
    return found | {each for each in derived if len(each) >= DERIVED_MIN}


def _spelled(form: str) -> str:
    """A pattern that finds a text however its characters are written: each one may be written in another way.

    Its repetitions are bounded, and no two of them meet, so that no text takes long.
    """
    found = []
    for run, character in _PIECE.findall(form):
        if run:
            found.append(rf"{_BACKSLASH}{{1,{LAYERS_MAX * len(run)}}}")
        elif not _is_plain(character):
            found.append(rf"{_BACKSLASH}{{0,{LAYERS_MAX}}}")
        found.append(_character(character))
    return "".join(found)


def _is_plain(character: str) -> bool:
    """Whether everybody writes it as it is. Nothing, too, which is behind a backslash at the end."""
    return not character or (character.isascii() and character.isalnum())


@lru_cache(1024)
def _character(character: str) -> str:
    r"""A character's spellings, most of them in more than one layer: ``%25%32F`` and ``\\\"``, too."""
    if _is_plain(character):
        return character
    code, data = ord(character), character.encode("utf-8", "surrogatepass")
    units = character.encode("utf-16-be", "surrogatepass").hex()
    again = rf"{_BACKSLASH}{{1,{LAYERS_MAX}}}"
    ways = [
        re.escape(character),
        "".join(rf"{_PERCENT}{byte:02x}" for byte in data),
        again.join(rf"u{units[at : at + 4]}" for at in range(0, len(units), 4)),
        again.join(rf"x{byte:02x}" for byte in data),
        rf"x{code:02x}",
        rf"U{code:08x}",
        rf"u\{{0{{0,6}}{code:x}\}}",
        rf"{code:03o}",
        rf"{_ENTITY}#0{{0,6}}{code};",
        rf"{_ENTITY}#x0{{0,6}}{code:x};",
    ]
    named = html.escape(character)
    if named != character:
        ways.append(rf"{_ENTITY}{re.escape(named[1:])}")
    if code < 256:
        ways.append(rf"{_PERCENT}{code:02x}")
    if character == " ":
        ways.append(r"\+")
    if character in "\a\b\f\n\r\t\v":
        ways.append("abtnvfr"[code - 7])
    if not character.isprintable():
        ways.append(r"[?\ufffd]")
    return f"(?i:{'|'.join(dict.fromkeys(ways))})"
