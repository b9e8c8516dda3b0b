"""Values of fields that no constructor has set.

A derived class may have its own ``__init__`` and not call ours. The methods of such an object still
work, as they do in confluent_kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

__all__ = ["unset_fields"]


def unset_fields(**values: Any) -> Callable[[type[T]], type[T]]:
    """Return a class decorator that gives these values to fields that are not set.

    Fields that are set cost nothing more.
    """

    def value_of(self: object, name: str) -> Any:
        try:
            return values[name]
        except KeyError:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(text, name=name, obj=self) from None

    def decorate(kind: type[T]) -> type[T]:
        kind.__getattr__ = value_of  # type: ignore[attr-defined]  # only for a missing attribute
        return kind

    return decorate
