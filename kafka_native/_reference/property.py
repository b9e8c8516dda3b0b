"""How a configuration property is declared; the declarations are in the modules beside this one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

BOTH: Final = "*"
PRODUCER: Final = "P"
CONSUMER: Final = "C"

HIGH: Final = "high"
MEDIUM: Final = "medium"
LOW: Final = "low"

REDACTED: Final = "[redacted]"
_LOGIN: Final = re.compile(r"(?<=://).*@|[^\s,@/]+:(?!//)[^\s,@]*@", re.DOTALL)
_QUERY: Final = re.compile(r"(://[^?]*\?).+", re.DOTALL)


class State(Enum):
    """What setting a property does in this version."""

    EFFECTIVE = "effective"
    """It acts."""
    INERT = "accepted, without effect"
    """It is accepted and does nothing; setting it to something else than its default logs a
    warning.
    """
    REFUSED = "refused"
    """Going on without it would be wrong or dangerous: setting it to something else than its
    default is an error.
    """
    INTERNAL = "not settable"
    """It belongs to librdkafka's C interface and can't be set from Python."""


@dataclass(frozen=True)
class Property:
    """A configuration property: its name, its values, and what becomes of them."""

    name: str
    kind: str
    """What it takes: ``integer``, ``float``, ``boolean``, ``enum``, ``string``, ``flags``,
    ``patterns``, ``callable``, ``object``, or ``internal`` for nothing at all.
    """
    scope: str
    """Whose it is: :data:`BOTH`, :data:`PRODUCER` or :data:`CONSUMER`."""
    importance: str
    doc: str
    state: State
    note: str = ""
    """EFFECTIVE: under which circumstances; otherwise why it doesn't act."""
    default: object = None
    minimum: int = 0
    maximum: int = 0
    """Of a number: its range. Of a string: its greatest length in bytes of UTF-8, 0 for any."""
    choices: tuple[str, ...] = ()
    duration_prefix: str = ""
    """Of an enum: this and an ISO-8601 duration behind it are a value, too."""
    synonyms: tuple[tuple[str, object], ...] = ()
    """Values that stand for another one, for instance ``all`` for -1."""
    harmless: tuple[object, ...] = ()
    """Values of an INERT property that ask for nothing that isn't so already."""
    alias_of: str = ""
    deprecated: bool = False
    sensitive: bool = False
    """Its value is never shown."""
    python_only: bool = False
    """confluent_kafka or this package has it, librdkafka's own list doesn't."""

    def shown(self, value: object) -> object:
        """The value as it may be shown: logs, reprs and errors have no other form of it."""
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
    """A function or an object, without what its repr might say: a partial's has its arguments."""
    name = getattr(value, "__qualname__", None)
    return name if isinstance(name, str) else type(value).__qualname__


def without_secrets(text: str) -> str:
    """Return the text without its secrets: the login and query of a URL, or a private key.

    The property itself may be public.
    """
    if "PRIVATE KEY-----" in text:
        return REDACTED
    return _QUERY.sub(rf"\1{REDACTED}", _LOGIN.sub(f"{REDACTED}@", text))
