"""Conversion of arguments into members of enums."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

E = TypeVar("E", bound=Enum)

__all__ = ["ConversionUtil"]


class ConversionUtil:
    """Functions that convert arguments."""

    @staticmethod
    def convert_to_enum(val: str | int | Enum, enum_clazz: type[E]) -> E:
        """Return the member with this name (in any case) or number, or the member itself.

        :raises ValueError: There is no such name or number.
        :raises TypeError: ``val`` has another type, or ``enum_clazz`` is no enum.
        """
        if type(enum_clazz) is not type(Enum):
            raise TypeError("'enum_clazz' must be of type Enum")
        unknown = f'Unknown value "{val}": should be a {enum_clazz.__name__}'
        if isinstance(val, str):
            try:
                return enum_clazz[val.upper()]
            except KeyError:
                raise ValueError(unknown) from None
        if isinstance(val, int):
            return enum_clazz(val)
        if not isinstance(val, enum_clazz):
            raise TypeError(unknown)
        return val
