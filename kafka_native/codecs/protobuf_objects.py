"""Protobuf messages as Python objects: descriptors and annotations compiled to functions.

google.protobuf has parsed the messages. Reading all their fields in one call of an ``attrgetter``
takes a fraction of the time of a loop.
"""

from __future__ import annotations

import datetime
import enum
import itertools
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, TypeAlias

from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.paths import below
from kafka_native.codecs.protobuf_decoder import (
    GOOGLE,
    JSON_KINDS,
    NUMBERS,
    TYPE_BOOL,
    TYPE_BYTES,
    TYPE_ENUM,
    TYPE_STRING,
    WRAPPERS,
    names_of,
)
from kafka_native.codecs.record_types import (
    RecordType,
    alternatives,
    check_allowed,
    collection_of,
    is_any,
    item_of,
    record_type_for,
)

try:
    from google.protobuf import json_format
    from google.protobuf.message_factory import GetMessageClass
except ImportError as error:
    raise ImportError(
        "Protobuf objects need protobuf: pip install 'kafka-native[protobuf]'"
    ) from error

__all__ = ["UnfitValueError", "converter_of"]

Convert: TypeAlias = Callable[[Any], Any]
"""Makes an object from a message, or from a value of a field."""

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
FLOATS = ("f", "g")
JSON_TYPES: tuple[type | None, ...] = (dict, None, list)
"""The types of Struct, Value and ListValue. A Value has any type."""


class UnfitValueError(ValueError):
    """A message has a value that no object stands for. The argument is the problem."""


def converter_of(descriptor: Any, type: Any = dict) -> Convert:
    """Return a function that makes objects of a class from messages.

    :param descriptor: The descriptor of the messages.
    :param type: dict, a dataclass, a ``msgspec.Struct``, a NamedTuple or a TypedDict. Fields match
        by name, and annotations choose the classes of inner messages.
    :raises SchemaError: The messages don't fit the annotations.
    :raises TypeError: The annotations of a class can't be resolved.
    """
    return _Compiler().message(descriptor, Any if type is dict else type, "")


class _Compiler:
    def __init__(self) -> None:
        self._converters: dict[tuple[str, Any], list[Convert]] = {}

    def message(self, descriptor: Any, annotation: Any, path: str) -> Convert:
        """Return the converter of a message."""
        chosen = record_type_for(descriptor.name, annotation, path)
        key = descriptor.full_name, None if chosen is None else chosen.cls
        if key not in self._converters:
            self._converters[key] = []
            self._converters[key].append(self._fields(descriptor, chosen, path))
        found = self._converters[key]
        if found:
            return found[0]
        return lambda message: found[0](message)  # the message contains itself

    def _fields(self, descriptor: Any, chosen: RecordType | None, path: str) -> Convert:
        fields = {each.name: each for each in descriptor.fields}
        names = {name: name for name in fields}
        if chosen is not None:
            names = {name: own for name, own in chosen.arguments.items() if name in fields}
            chosen.check_complete(names.values(), descriptor.name, path)
        keywords = list(names.values())
        make: Convert = lambda values: dict(zip(keywords, values, strict=True))  # noqa: E731
        if chosen is not None and not chosen.is_dict:
            names, make = _maker(chosen, names)
        fixes = []
        for place, name in enumerate(names):
            of = Any if chosen is None else chosen.annotations.get(name, Any)
            fix = self._fix(fields[name], of, below(path, name))
            if fix is not None:
                fixes.append((place, fix))
        return _converter(list(names), fixes, make)

    # fields

    def _fix(self, each: Any, annotation: Any, path: str) -> Callable[[Any, Any], Any] | None:
        """Return what a field's value becomes, as a function of the message and the value.

        None: the value stays as it is.
        """
        if each.message_type is not None and each.message_type.GetOptions().map_entry:
            return self._map(each, annotation, path)
        if each.is_repeated:
            return self._list(each, annotation, path)
        convert = self._value(each, _without_none(annotation), path)
        has_none = any(arm is None or is_any(arm) for arm in alternatives(annotation))
        if not each.has_presence or not has_none:
            return None if convert is None else lambda message, value: convert(value)
        name, has_field = each.name, GetMessageClass(each.containing_type).HasField
        if convert is None:
            return lambda message, value: value if has_field(message, name) else None
        return lambda message, value: convert(value) if has_field(message, name) else None

    def _list(self, each: Any, annotation: Any, path: str) -> Callable[[Any, Any], Any]:
        chosen, made = collection_of(list, annotation, path)
        convert = self._value(each, item_of(chosen, 0), below(path, "[]"))
        if convert is None:
            return lambda message, value: made(value)
        if made is list:
            return lambda message, value: [convert(item) for item in value]
        return lambda message, value: made(map(convert, value))

    def _map(self, each: Any, annotation: Any, path: str) -> Callable[[Any, Any], Any]:
        chosen, _ = collection_of(dict, annotation, path)
        key, value = (each.message_type.fields_by_number[number] for number in (1, 2))
        inner = below(path, "[]")
        self._value(key, item_of(chosen, 0), inner)  # checks the annotation
        convert = self._value(value, item_of(chosen, 1), inner)
        if convert is None:
            return lambda message, found: dict(found)
        return lambda message, found: {name: convert(found[name]) for name in found}

    # values

    def _value(self, each: Any, annotation: Any, path: str) -> Convert | None:
        """Return the converter of one value. None: the value stays as it is."""
        if each.message_type is not None:
            return self._message_value(each.message_type, annotation, path)
        if each.type == TYPE_ENUM:
            return _enum(each.enum_type, annotation, path)
        kinds: dict[int, type] = {TYPE_BOOL: bool, TYPE_STRING: str, TYPE_BYTES: bytes}
        made = kinds.get(each.type)
        if made is None:
            made = float if NUMBERS[each.type][1] in FLOATS else int
        check_allowed(made, annotation, path)
        return None

    def _message_value(self, descriptor: Any, annotation: Any, path: str) -> Convert:
        name = descriptor.full_name
        if name == f"{GOOGLE}Timestamp":
            check_allowed(datetime.datetime, annotation, path)
            return _datetime
        if name == f"{GOOGLE}Duration":
            check_allowed(datetime.timedelta, annotation, path)
            return _timedelta
        if name in JSON_KINDS:
            made = JSON_TYPES[JSON_KINDS[name]]
            if made is not None:
                collection_of(made, annotation, path)
            elif not any(map(is_any, alternatives(annotation))):
                raise SchemaError("a google.protobuf.Value needs the annotation Any", path)
            return _json
        if name in WRAPPERS:
            convert = self._value(descriptor.fields_by_number[1], annotation, path)
            assert convert is None, "a wrapper has a number or a text"
            return _wrapped
        return self.message(descriptor, annotation, path)


def _without_none(annotation: Any) -> Any:
    """Return an annotation without None."""
    arms = alternatives(annotation)
    if None not in arms:
        return annotation
    left = [each for each in arms if each is not None]
    union: Any = left[0] if left else annotation
    for each in left[1:]:
        union = union | each
    return union


def _maker(chosen: RecordType, names: Mapping[str, str]) -> tuple[dict[str, str], Convert]:
    """Return the fields in the order of a class's arguments, and a function that calls it."""
    cls, arguments = chosen.cls, set(names.values())
    positional = list(itertools.takewhile(arguments.__contains__, chosen.positional))
    by_argument = {argument: name for name, argument in names.items()}
    keywords = [each for each in names.values() if each not in positional]
    order = {by_argument[each]: each for each in [*positional, *keywords]}
    if not keywords:
        return order, lambda values: cls(*values)
    count = len(positional)

    def make(values: Any) -> Any:
        return cls(*values[:count], **dict(zip(keywords, values[count:], strict=True)))

    return order, make


def _converter(
    names: list[str], fixes: list[tuple[int, Callable[[Any, Any], Any]]], make: Convert
) -> Convert:
    if not names:
        return lambda message: make(())
    if len(names) == 1:
        name = names[0]
        if not fixes:
            return lambda message: make((getattr(message, name),))
        fix = fixes[0][1]
        return lambda message: make((fix(message, getattr(message, name)),))
    values_of = attrgetter(*names)
    if not fixes:
        return lambda message: make(values_of(message))

    def convert(message: Any) -> Any:
        values = list(values_of(message))
        for place, fix in fixes:
            values[place] = fix(message, values[place])
        return make(values)

    return convert


# --- values ---


def _enum(descriptor: Any, annotation: Any, path: str) -> Convert | None:
    """Return what makes the name, the number or a member of an Enum from a number."""
    names, arms = names_of(descriptor), alternatives(annotation)
    classes = [each for each in arms if isinstance(each, type) and issubclass(each, enum.Enum)]
    if any(is_any(each) or each is str for each in arms):
        if not any(map(is_any, arms)):
            return _lookup(names, descriptor.name)
        return lambda number: names.get(number, number)
    if not classes:
        check_allowed(int, annotation, path)
        return None
    by_value = {each.value: each for each in classes[0]}
    members = {}
    for number, name in names.items():
        member = by_value.get(number, by_value.get(name, classes[0].__members__.get(name)))
        if member is None:
            raise SchemaError(f"{classes[0].__name__} has no member for {name} = {number}", path)
        members[number] = member
    return _lookup(members, descriptor.name)


def _lookup(objects: Mapping[int, Any], name: str) -> Convert:
    def found(number: int) -> Any:
        try:
            return objects[number]
        except KeyError:
            raise UnfitValueError(f"the enum {name} has no name for the number {number}") from None

    return found


def _wrapped(value: Any) -> Any:
    return value.value


def _datetime(value: Any) -> datetime.datetime:
    try:
        return EPOCH + datetime.timedelta(0, value.seconds, value.nanos // 1000)
    except OverflowError:
        raise UnfitValueError("a timestamp is outside of the years 1 to 9999") from None


def _timedelta(value: Any) -> datetime.timedelta:
    nanos = value.nanos
    micros = nanos // 1000 if nanos >= 0 else -(-nanos // 1000)
    try:
        return datetime.timedelta(0, value.seconds, micros)
    except OverflowError:
        raise UnfitValueError("a duration is too long") from None


def _json(value: Any) -> Any:
    """Return the Python object of a Struct, Value or ListValue."""
    try:
        return json_format.MessageToDict(value)
    except (json_format.Error, ValueError) as error:
        raise UnfitValueError(f"a value has no form in JSON: {error}") from error
