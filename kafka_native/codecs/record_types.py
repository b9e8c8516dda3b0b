"""The classes that records become: dataclasses, msgspec structs, NamedTuples and TypedDicts."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import inspect
import itertools
import types
import typing
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.paths import below

__all__ = [
    "RecordType",
    "alternatives",
    "check_allowed",
    "collection_of",
    "is_any",
    "item_of",
    "record_type_for",
    "record_type_of",
    "symbols_of",
]

COLLECTIONS = (list, tuple, set, frozenset)
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

    def check_complete(self, arguments: Collection[str], record: str, path: str) -> None:
        """Raise SchemaError if an argument without a default isn't among those of a record."""
        for field, argument in self.arguments.items():
            if field in self.required and argument not in arguments:
                raise SchemaError(
                    f"{self.cls.__name__} needs this field, which the schema of {record} lacks",
                    below(path, field),
                )


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


# --- annotations ---


def is_any(annotation: Any) -> bool:
    """Return whether an annotation allows all objects."""
    return annotation is Any or annotation is object


def _text_of(annotation: Any) -> str:
    return annotation.__name__ if type(annotation) is type else str(annotation)


def _refused(what: str, annotation: Any, path: str) -> SchemaError:
    return SchemaError(f"the annotation {_text_of(annotation)} has no room for {what}", path)


def check_allowed(made: type, annotation: Any, path: str) -> None:
    """Raise SchemaError if an annotation doesn't allow objects of a type."""
    for each in alternatives(annotation):
        if is_any(each) or (each is None and made is type(None)):
            return
        if each is float and made is int:
            return  # as type checkers do
        if isinstance(each, type) and issubclass(made, each):
            return
    raise _refused("None" if made is type(None) else made.__name__, annotation, path)


def collection_of(made: type, annotation: Any, path: str) -> tuple[Any, type]:
    """Return the annotation of an array or map, and the class that it becomes.

    :param made: list or dict.
    :raises SchemaError: The annotation doesn't allow it.
    """
    for each in alternatives(annotation):
        origin = typing.get_origin(each) or each
        if is_any(each):
            return Any, made
        if not isinstance(origin, type) or record_type_of(origin) is not None:
            continue
        if origin is tuple and typing.get_args(each) and typing.get_args(each)[1:] != (...,):
            continue  # of a fixed length
        if issubclass(made, origin) and not issubclass(origin, (str, bytes)):
            return each, made
        if made is list and origin in COLLECTIONS:
            return each, origin
        if made is list and origin in (collections.abc.Set, collections.abc.MutableSet):
            return each, set
    raise _refused("an array" if made is list else "a map", annotation, path)


def record_type_for(name: str, annotation: Any, path: str) -> RecordType | None:
    """Return the class of a record. None: a dict with all fields.

    :param name: The record's name, which chooses between several classes.
    :raises SchemaError: The annotation doesn't allow it.
    """
    arms = alternatives(annotation)
    found = [kind for each in arms if (kind := record_type_of(each)) is not None]
    if len(found) > 1:
        named = [each for each in arms if getattr(each, "__name__", None) == name]
        found = [kind for each in named if (kind := record_type_of(each)) is not None]
        if len(found) != 1:
            raise SchemaError(
                f"the record {name} could be several classes of {_text_of(annotation)}: give one "
                "of them its name",
                path,
            )
    if found:
        return found[0]
    for each in arms:
        origin = typing.get_origin(each) or each
        if is_any(each) or (isinstance(origin, type) and issubclass(dict, origin)):
            return None
    raise _refused(f"the record {name}", annotation, path)
