"""The classes that records become: dataclasses, msgspec structs, NamedTuples and TypedDicts."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import itertools
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka_native.codecs.errors import SchemaError

__all__ = ["RecordType", "alternatives", "item_of", "record_type_of", "symbols_of"]

UNIONS = (typing.Union, types.UnionType)
WRAPPERS = [
    getattr(typing, name)
    for name in ("Annotated", "Required", "NotRequired", "ReadOnly")
    if hasattr(typing, name)
]


@dataclass(frozen=True)
class RecordType:
    """A class whose objects are made from records.

    Attributes
    ----------
    arguments : dict
        For each field of the record, the name of the keyword argument.
    annotations : dict
        The annotation of each field.
    required : frozenset of str
        The fields without a default.
    """

    cls: Any
    arguments: Mapping[str, str]
    annotations: Mapping[str, Any]
    required: frozenset[str]

    @property
    def positional(self) -> list[str]:
        """The names of the arguments that may be positional, in their order."""
        try:
            parameters = inspect.signature(self.cls).parameters.values()
        except (TypeError, ValueError):
            return []
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return [each.name for each in itertools.takewhile(lambda it: it.kind is kind, parameters)]

    @property
    def is_dict(self) -> bool:
        """Whether the class is a TypedDict, whose objects are dicts."""
        return typing.is_typeddict(self.cls)


def alternatives(annotation: Any) -> list[Any]:
    """Return the types that an annotation allows. None stands for itself, Any for all types."""
    origin = typing.get_origin(annotation)
    if origin in UNIONS:
        return [each for arm in typing.get_args(annotation) for each in alternatives(arm)]
    if origin in WRAPPERS:
        return alternatives(typing.get_args(annotation)[0])
    if annotation is None or annotation is type(None):
        return [None]
    if hasattr(annotation, "__supertype__"):  # NewType
        return alternatives(annotation.__supertype__)
    if isinstance(annotation, typing.TypeVar) or origin is typing.Literal:
        return [Any]
    if type(annotation).__name__ == "TypeAliasType":  # Python 3.12
        return alternatives(annotation.__value__)
    return [annotation]


def item_of(annotation: Any, position: int) -> Any:
    """Return the annotation of the items of a list, or of the values of a dict."""
    arguments = typing.get_args(annotation)
    return arguments[position] if len(arguments) > position else Any


def symbols_of(cls: type[enum.Enum], symbols: tuple[str, ...], path: str) -> list[enum.Enum]:
    """Return the member for each symbol: the one of this value, or else of this name."""
    by_value = {each.value: each for each in cls}
    members = []
    for symbol in symbols:
        member = by_value.get(symbol, cls.__members__.get(symbol))
        if member is None:
            raise SchemaError(f"{cls.__name__} has no member for the symbol {symbol!r}", path)
        members.append(member)
    return members


def record_type_of(cls: Any) -> RecordType | None:
    """Return how objects of a class are made, or None if it is of no known kind.

    :raises TypeError: The annotations of the class can't be resolved.
    """
    cls = typing.get_origin(cls) or cls
    if not isinstance(cls, type):
        return None
    if dataclasses.is_dataclass(cls):
        return _of_dataclass(cls)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        names = {name: name for name in cls._fields}
        defaults = getattr(cls, "_field_defaults", {})
        return RecordType(cls, names, _hints(cls), frozenset(names.keys() - defaults.keys()))
    if hasattr(cls, "__struct_fields__"):
        return _of_struct(cls)
    if typing.is_typeddict(cls):
        hints = _hints(cls)
        names = {name: name for name in hints}
        required: frozenset[str] = cls.__required_keys__  # type: ignore[attr-defined]
        return RecordType(cls, names, hints, required)
    return None


def _hints(cls: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except (NameError, TypeError) as error:
        raise TypeError(
            f"the annotations of {cls.__name__} can't be resolved: {error}. Define the types that "
            "they name at the level of the module"
        ) from None


def _of_dataclass(cls: Any) -> RecordType:
    fields = [each for each in dataclasses.fields(cls) if each.init]
    missing = dataclasses.MISSING
    required = frozenset(
        each.name for each in fields if each.default is missing and each.default_factory is missing
    )
    return RecordType(cls, {each.name: each.name for each in fields}, _hints(cls), required)


def _of_struct(cls: Any) -> RecordType:
    """Return a msgspec.Struct. Its fields have the names that msgspec encodes."""
    import msgspec

    fields = msgspec.structs.fields(cls)
    hints = _hints(cls)
    return RecordType(
        cls,
        {each.encode_name: each.name for each in fields},
        {each.encode_name: hints.get(each.name, Any) for each in fields},
        frozenset(each.encode_name for each in fields if each.required),
    )
