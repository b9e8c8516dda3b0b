"""Names of subjects: ``orders-value`` in the default context, ``:.ctx:orders-value`` in another."""

from __future__ import annotations

from typing import Final, NamedTuple

from kafka_native.mock.schema_registry.errors import INVALID_SUBJECT, RegistryError

DEFAULT_CONTEXT: Final = "."


class Subject(NamedTuple):
    """A subject in its context. An empty name stands for the context itself."""

    context: str
    name: str

    def __str__(self) -> str:
        if self.context == DEFAULT_CONTEXT and self.name:
            return self.name
        return f":{self.context}:{self.name}"

    @property
    def context_name(self) -> str:
        """The name under which settings of the whole context are stored."""
        return f":{self.context}:"


def subject_of(text: str, context: str = DEFAULT_CONTEXT) -> Subject:
    """Read the name of a subject. ``context`` is that of a name without one.

    Raises ``RegistryError``.
    """
    if text.startswith(":."):
        own, found, name = text[1:].partition(":")
        subject = Subject(own if found else text[1:], name)
    else:
        subject = Subject(context, text)
    if not text or any(ord(letter) < 32 for letter in text) or subject.name == "__GLOBAL":
        raise RegistryError(INVALID_SUBJECT, f"The specified subject '{text}' is not a valid.")
    return subject


def context_of(text: str) -> str:
    """Return a context from its name in a path or in a query, with or without colons."""
    name = text.strip(":")
    return name if name.startswith(".") else f".{name}"
