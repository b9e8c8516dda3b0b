"""Paths of fields, as in ``customer.address.city``. ``[]`` is an item of an array or map."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["below", "by_first_name"]


def below(path: str, name: str) -> str:
    """Return the path of a field, or with ``[]`` of an item."""
    return f"{path}{name}" if name == "[]" or not path else f"{path}.{name}"


def by_first_name(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return the rests of paths by their first name. A path of one name has an empty rest."""
    rests: dict[str, list[str]] = {}
    for path in paths:
        first, _, rest = path.partition(".")
        rests.setdefault(first, []).append(rest)
    return rests
