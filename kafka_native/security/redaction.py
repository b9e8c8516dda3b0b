"""Removes secrets from texts of a provider or a broker, in every spelling.

A provider or a broker may repeat what the client sent, in the form that it saw: a header with
base64, a form with percent signs, a JSON text inside a JSON text.

Thread: any.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from kafka_native._reference.property import REDACTED as REDACTED
from kafka_native.security.secret_buffer import SecretBuffer

DERIVED_MIN = 6
"""The minimum number of base64 or hexadecimal digits that identify a secret."""
SPELLED_MAX = 16384
"""The maximum length of a secret that is searched in every spelling.

A longer secret (an assertion from a file) is only searched in plain form.
"""
SEARCHED_MAX = 16384
"""The maximum length of a text that is searched.

Of a longer text only the length is shown. The network decides how long a text is, and a search
holds the interpreter lock.
"""
WHOLE_WORD_MAX = 5
"""The maximum length of a secret that is only searched as a whole word.

Such a short secret also occurs inside other words, and the gaps in them would reveal it.
"""
RECENT_MAX = 16
_WORD = r"[A-Za-z0-9]+"
LAYERS_MAX = 8
"""The maximum number of backslashes before a character. Three layers of JSON write 7."""
_PERCENT = r"%(?:25){0,3}"
_ENTITY = rf"(?:&|{_PERCENT}26)(?:amp;){{0,3}}"
_BACKSLASH = rf"(?i:\\|{_PERCENT}5c|{_ENTITY}#(?:0{{0,6}}92|x0{{0,6}}5c);|x5c|u005c)"
_GAP = re.escape(REDACTED)
_BEGIN = (
    r"(?:(?<![^\W_])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[abfnrtv0])"
    r"|(?<=\\x[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4}))"
)
r"""The start of a word.

It may follow an escape that ends with a letter or digit: ``%20``, ``\n``.
"""
_END = r"(?![^\W_])"
_PIECE = r"(\\+|)([^\\]|(?<=\\)\Z)"


class Secrets:
    """The secrets of one mechanism: the configured ones, and recently sent tokens and assertions.

    Iteration yields them in plain form. `redacted()` knows the other spellings.
    """

    def __init__(self, lasting: Iterable[str] = ()) -> None:
        """``lasting``: the secrets that never expire."""
        self._lasting = tuple(map(SecretBuffer, lasting))
        # Replaced as a whole, because another thread may iterate over it
        self._recent: tuple[SecretBuffer, ...] = ()

    def add(self, *secrets: str) -> None:
        """Add secrets that later ones replace. The last few are remembered."""
        for secret in map(SecretBuffer, secrets):
            others = (each for each in self._recent if each.data != secret.data)
            self._recent = (secret, *others)[:RECENT_MAX]

    def keep(self, *secrets: str) -> None:
        """Add secrets that never expire."""
        self._lasting = (*self._lasting, *map(SecretBuffer, secrets))

    def wipe(self) -> None:
        """Overwrite and forget all secrets."""
        for secret in (*self._recent, *self._lasting):
            secret.wipe()
        self._recent = self._lasting = ()

    def __iter__(self) -> Iterator[str]:
        return (secret.text() for secret in (*self._recent, *self._lasting))

    def __repr__(self) -> str:
        return f"Secrets({REDACTED})"


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return the text without these secrets, in all known spellings."""
    known = [secret for secret in secrets if secret]
    if len(text) > SEARCHED_MAX:
        for secret in sorted(known, key=len, reverse=True):
            text = text.replace(secret, REDACTED) if len(secret) > WHOLE_WORD_MAX else text
    if len(text) > SEARCHED_MAX:
        return f"a text of {len(text)} characters"
    forms = {form for secret in known for form in _forms(secret)}
    lowered = text.lower()
    for form in sorted(forms, key=len, reverse=True):
        # The longest word of a form is spelled the same in every spelling.
        if max(re.findall(_WORD, form), key=len, default="").lower() in lowered:
            pattern = re.escape(form) if len(form) > SPELLED_MAX else _spelled(form)
            pattern = rf"{_BEGIN}{pattern}{_END}" if len(form) <= WHOLE_WORD_MAX else pattern
            # The pattern also matches an earlier replacement, so that no secret can change one.
            text = re.sub(rf"{_GAP}|{pattern}", REDACTED, text)
    return text


def _forms(secret: str) -> set[str]:
    """Return the secret, its base64 and hexadecimal forms, and its forms after a lossy encoding."""
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
    # Also as a part of a longer text: `before` is the position in a group of three bytes.
    for before in range(3):
        coded = base64.b64encode(bytes(before) + data).decode().rstrip("=")
        first = (before * 8 + 5) // 6  # Skips the digit with bits of the bytes before
        derived.add(coded[first : (before + len(data)) * 8 // 6])
    derived |= {each.replace("+", "-").replace("/", "_") for each in derived}
    return found | {each for each in derived if len(each) >= DERIVED_MIN}


def _spelled(form: str) -> str:
    """Return a pattern that finds a text in every spelling of each character.

    Its repetitions are bounded and no two of them meet, so that no text takes long.
    """
    found = []
    for run, character in re.findall(_PIECE, form):
        if run:
            found.append(rf"{_BACKSLASH}{{1,{LAYERS_MAX * len(run)}}}")
        elif not _is_plain(character):
            found.append(rf"{_BACKSLASH}{{0,{LAYERS_MAX}}}")
        found.append(_character(character))
    return "".join(found)


def _is_plain(character: str) -> bool:
    """Return True if every encoding keeps the character.

    It returns True for an empty string, too, which follows a last backslash.
    """
    return not character or (character.isascii() and character.isalnum())


@lru_cache(1024)
def _character(character: str) -> str:
    r"""Return a pattern for a character's spellings.

    Most match several layers: ``%25%32F``, ``\\\"``.
    """
    import html  # only for secrets with special characters

    if _is_plain(character):
        return character
    code, data = ord(character), character.encode("utf-8", "surrogatepass")
    units = character.encode("utf-16-be", "surrogatepass").hex()
    separator = rf"{_BACKSLASH}{{1,{LAYERS_MAX}}}"
    spellings = [
        re.escape(character),
        "".join(rf"{_PERCENT}{byte:02x}" for byte in data),
        separator.join(rf"u{units[at : at + 4]}" for at in range(0, len(units), 4)),
        separator.join(rf"x{byte:02x}" for byte in data),
        rf"x{code:02x}",
        rf"U{code:08x}",
        rf"u\{{0{{0,6}}{code:x}\}}",
        rf"{code:03o}",
        rf"{_ENTITY}#0{{0,6}}{code};",
        rf"{_ENTITY}#x0{{0,6}}{code:x};",
    ]
    named = html.escape(character)
    if named != character:
        spellings.append(rf"{_ENTITY}{re.escape(named[1:])}")
    if code < 256:
        spellings.append(rf"{_PERCENT}{code:02x}")
    if character == " ":
        spellings.append(r"\+")
    if character in "\a\b\f\n\r\t\v":
        spellings.append("abtnvfr"[code - 7])
    if not character.isprintable():
        spellings.append(r"[?\ufffd]")
    return f"(?i:{'|'.join(dict.fromkeys(spellings))})"
