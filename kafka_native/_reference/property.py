"""The type of a declared configuration property. The other modules here have the declarations."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple

BOTH: Final = "*"
PRODUCER: Final = "P"
CONSUMER: Final = "C"

HIGH: Final = "high"
MEDIUM: Final = "medium"
LOW: Final = "low"

REDACTED: Final = "[redacted]"
# A match begins where a word begins. A search from each letter would take long for a long value.
_LOGIN: Final = r"(?s)(?<=://).*@|(?<![^\s,@/])[^\s,@/]+:(?!//)[^\s,@]*@"
_QUERY: Final = r"(?s)(://[^?]*\?).+"


class State(Enum):
    """The effect of a property in this version."""

    EFFECTIVE = "effective"
    """It has its documented effect."""
    INERT = "accepted, without effect"
    """It is accepted and has no effect. A value other than its default logs a warning."""
    REFUSED = "refused"
    """Ignoring it would be wrong or dangerous. A value other than its default is an error."""
    INTERNAL = "not settable"
    """It belongs to librdkafka's C interface. Python code can't set it."""


class Property(NamedTuple):
    """A configuration property: its name, its values and its effect."""

    name: str
    kind: str
    """The type of its values: ``integer``, ``float``, ``boolean``, ``enum``, ``string``, ``flags``,
    ``patterns``, ``callable`` or ``object``; ``internal``: it has no values.
    """
    scope: str
    """The clients that have it: :data:`BOTH`, :data:`PRODUCER` or :data:`CONSUMER`."""
    importance: str
    doc: str
    state: State
    note: str = ""
    """EFFECTIVE: the circumstances in which it acts. Other states: the reason."""
    default: object = None
    minimum: int = 0
    maximum: int = 0
    """The limit of a number, or of a string's bytes in UTF-8; 0: no limit of a string."""
    choices: tuple[str, ...] = ()
    duration_prefix: str = ""
    """An enum also accepts this prefix with an ISO-8601 duration behind it."""
    synonyms: tuple[tuple[str, object], ...] = ()
    """Pairs of a value and its meaning, for instance ``all`` and -1."""
    harmless: tuple[object, ...] = ()
    """Values of an INERT property that describe the actual behaviour, so they log no warning."""
    alias_of: str = ""
    deprecated: bool = False
    sensitive: bool = False
    """Logs, reprs and errors never show its value."""
    takes_bytes: bool = False
    """A string property that also accepts bytes: a certificate or a key in any form."""
    python_only: bool = False
    """confluent_kafka or this package has it, and librdkafka's own list doesn't."""

    def shown(self, value: object) -> object:
        """Return the form of the value for logs, reprs and errors."""
        if self.sensitive:
            return REDACTED
        if isinstance(value, str):
            return without_secrets(value)
        if isinstance(value, tuple):
            return tuple(map(self.shown, value))
        if self.kind in ("callable", "object") or not isinstance(value, (int, float, type(None))):
            return None if value is None else _named(value)
        return value


def _named(value: object) -> str:
    """Return a name for a function or an object. Its repr could show secrets, such as arguments."""
    name = getattr(value, "__qualname__", None)
    return name if isinstance(name, str) else type(value).__qualname__


def without_secrets(text: str) -> str:
    """Return the text without its secrets: the login and query of a URL, or a private key.

    The property itself may be public.
    """
    if "PRIVATE KEY-----" in text:
        return REDACTED
    if "@" in text:
        text = re.sub(_LOGIN, f"{REDACTED}@", text)
    return re.sub(_QUERY, rf"\1{REDACTED}", text) if "?" in text else text
