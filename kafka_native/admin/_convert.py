"""Enum members from what programs give in their place: a name in any case, a number."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, TypeVar

E = TypeVar("E", bound=Enum)


def member_of(value: Any, kind: type[E], what: str | None = None) -> E:
    """The member that ``value`` (a member, its name in any case, its number) means.

    :raises ValueError: There is none; the text names ``what`` or the enum.
    :raises TypeError: It is of another type.
    """
    if isinstance(value, kind):
        return value
    if isinstance(value, str):
        found = kind.__members__.get(value.upper())
        if found is None:
            raise ValueError(f'Unknown {what or "value"} "{value}": should be a {kind.__name__}')
        return found
    if isinstance(value, int) and not isinstance(value, bool):
        return kind(value)
    raise TypeError(f"expected a {kind.__name__}, its name or its number, not {type(value).__name__}")


def members_of(values: Iterable[Any] | None, kind: type[E]) -> list[E] | None:
    """As `member_of()`, for each; None stays None."""
    return None if values is None else [member_of(each, kind) for each in values]
