"""Protobuf messages as Python objects: descriptors and annotations compiled to functions.

_native/protobuf_objects reads nearly all messages by a program. google.protobuf parses the others:
those with unusual fields, and malformed ones. Then functions make the objects, which are equal.
"""

from __future__ import annotations

import datetime
import enum
import itertools
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeAlias

from kafka_native._native.protobuf_objects import (
    WIRE_CODES,
    WIRE_ONEOFS_MAX,
    WIRE_SHAPES,
    MessageProgram,
    Unplain,
)
from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.paths import below
from kafka_native.codecs.protobuf_decoder import (
    GOOGLE,
    JSON_KINDS,
    NUMBERS,
    TYPE_BOOL,
    TYPE_BYTES,
    TYPE_ENUM,
    TYPE_GROUP,
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

__all__ = ["MessageReader", "UnfitValueError"]

Convert: TypeAlias = Callable[[Any], Any]
"""Makes an object from a message, or from a value of a field."""

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
FLOATS = ("f", "g")
JSON_TYPES: tuple[type | None, ...] = (dict, None, list)
"""The types of Struct, Value and ListValue. A Value has any type."""


class UnfitValueError(ValueError):
    """A message has a value that no object stands for. The argument is the problem."""


class MessageReader:
    """Makes objects of a class from messages.

    :param message_class: The class of the messages.
    :param type: dict, a dataclass, a ``msgspec.Struct``, a NamedTuple or a TypedDict. Fields match
        by name, and annotations choose the classes of inner messages.
    :raises SchemaError: The messages don't fit the annotations.
    :raises TypeError: The annotations of a class can't be resolved.
    """

    def __init__(self, message_class: Any, type: Any = dict) -> None:
        root = _Compiler().message(message_class.DESCRIPTOR, Any if type is dict else type, "")
        self._parse = message_class.FromString
        self._program = _program_of(root)
        self._convert = root.convert

    def convert(self, message: Any) -> Any:
        """Make an object from a message. It raises UnfitValueError."""
        try:
            return self._convert(message)
        except UnicodeDecodeError as error:  # google.protobuf looks at texts of proto2 only now
            raise UnfitValueError(f"a text isn't UTF-8: {error}") from error

    def read(self, record: bytes) -> Any:
        """Make an object from an encoded message.

        It raises the errors of google.protobuf, and UnfitValueError.
        """
        if self._program is not None:
            value = self._program.read(record)
            if value is not Unplain:
                return value
        return self.convert(self._parse(record))


@dataclass
class _Value:
    """How one value becomes an object. Without a function it stays as it is."""

    descriptor: Any
    convert: Convert | None = None
    message: _Message | None = None
    """The type of a message that isn't a well-known one."""


@dataclass
class _Field:
    """A field, and its place among the arguments of the class."""

    descriptor: Any
    slot: int
    value: _Value
    shape: str = "single"
    made: type | None = None
    """The collection that a list becomes."""
    key: _Value | None = None
    is_nullable: bool = False
    """Whether a field that isn't set becomes None."""

    def fix(self) -> Callable[[Any, Any], Any] | None:
        """Return what the value becomes, as a function of the message and the value.

        None: the value stays as it is.
        """
        convert, made, name = self.value.convert, self.made, self.descriptor.name
        if self.shape == "map":
            if convert is None:
                return lambda message, value: dict(value)
            return lambda message, value: {key: convert(value[key]) for key in value}
        if self.shape == "list":
            assert made is not None
            if convert is None:
                return lambda message, value: made(value)
            if made is list:
                return lambda message, value: [convert(item) for item in value]
            return lambda message, value: made(map(convert, value))
        if not self.is_nullable:
            return None if convert is None else lambda message, value: convert(value)
        has_field = GetMessageClass(self.descriptor.containing_type).HasField
        if convert is None:
            return lambda message, value: value if has_field(message, name) else None
        return lambda message, value: convert(value) if has_field(message, name) else None


class _Message:
    """A message type, and the class of its objects."""

    def __init__(self, descriptor: Any, chosen: RecordType | None) -> None:
        self.descriptor = descriptor
        self.chosen = chosen
        self.fields: list[_Field] = []
        self.cls = None if chosen is None or chosen.is_dict else chosen.cls
        self.positional = 0
        self.keywords: tuple[str, ...] = ()
        self._convert: Convert | None = None

    def convert(self, message: Any) -> Any:
        """Make an object from a message."""
        assert self._convert is not None, "the compiler is done"
        return self._convert(message)

    def complete(self) -> None:
        """Compile the function for messages. The fields are there."""
        fixes = [(each.slot, fix) for each in self.fields if (fix := each.fix()) is not None]
        names = [each.descriptor.name for each in self.fields]
        self._convert = _converter(names, fixes, self._make())

    def _make(self) -> Convert:
        cls, count, keywords = self.cls, self.positional, self.keywords
        if cls is None:
            return lambda values: dict(zip(keywords, values, strict=True))
        if not keywords:
            return lambda values: cls(*values)

        def make(values: Any) -> Any:
            return cls(*values[:count], **dict(zip(keywords, values[count:], strict=True)))

        return make


class _Compiler:
    def __init__(self) -> None:
        self._messages: dict[tuple[str, Any], _Message] = {}

    def message(self, descriptor: Any, annotation: Any, path: str) -> _Message:
        """Compile a message type. It may contain itself."""
        chosen = record_type_for(descriptor.name, annotation, path)
        key = descriptor.full_name, None if chosen is None else chosen.cls
        found = self._messages.get(key)
        if found is None:
            found = self._messages[key] = _Message(descriptor, chosen)
            self._add_fields(found, path)
            found.complete()
        return found

    def _add_fields(self, message: _Message, path: str) -> None:
        chosen = message.chosen
        known = {each.name: each for each in message.descriptor.fields}
        names = {name: name for name in known}
        if chosen is not None:
            names = {name: own for name, own in chosen.arguments.items() if name in known}
            chosen.check_complete(names.values(), message.descriptor.name, path)
        message.keywords = tuple(names.values())
        if chosen is not None and message.cls is not None:
            positional = list(itertools.takewhile(message.keywords.__contains__, chosen.positional))
            message.positional = len(positional)
            message.keywords = tuple(each for each in names.values() if each not in positional)
            by_argument = {argument: name for name, argument in names.items()}
            names = {by_argument[each]: each for each in [*positional, *message.keywords]}
        for slot, name in enumerate(names):
            of = Any if chosen is None else chosen.annotations.get(name, Any)
            message.fields.append(self._field(known[name], slot, of, below(path, name)))

    # fields

    def _field(self, each: Any, slot: int, annotation: Any, path: str) -> _Field:
        inner = below(path, "[]")
        if each.message_type is not None and each.message_type.GetOptions().map_entry:
            chosen, _ = collection_of(dict, annotation, path)
            key, value = (each.message_type.fields_by_number[number] for number in (1, 2))
            first = self._value(key, item_of(chosen, 0), inner)
            second = self._value(value, item_of(chosen, 1), inner)
            return _Field(each, slot, second, "map", key=first)
        if each.is_repeated:
            chosen, made = collection_of(list, annotation, path)
            return _Field(each, slot, self._value(each, item_of(chosen, 0), inner), "list", made)
        has_none = any(arm is None or is_any(arm) for arm in alternatives(annotation))
        value = self._value(each, _without_none(annotation), path)
        return _Field(each, slot, value, is_nullable=each.has_presence and has_none)

    # values

    def _value(self, each: Any, annotation: Any, path: str) -> _Value:
        if each.message_type is not None:
            return self._message_value(each, annotation, path)
        if each.type == TYPE_ENUM:
            return _Value(each, _enum(each.enum_type, annotation, path))
        kinds: dict[int, type] = {TYPE_BOOL: bool, TYPE_STRING: str, TYPE_BYTES: bytes}
        made = kinds.get(each.type)
        if made is None:
            made = float if NUMBERS[each.type][1] in FLOATS else int
        check_allowed(made, annotation, path)
        return _Value(each)

    def _message_value(self, each: Any, annotation: Any, path: str) -> _Value:
        name = each.message_type.full_name
        if name == f"{GOOGLE}Timestamp":
            check_allowed(datetime.datetime, annotation, path)
            return _Value(each, _datetime)
        if name == f"{GOOGLE}Duration":
            check_allowed(datetime.timedelta, annotation, path)
            return _Value(each, _timedelta)
        if name in JSON_KINDS:
            made = JSON_TYPES[JSON_KINDS[name]]
            if made is not None:
                collection_of(made, annotation, path)
            elif not any(map(is_any, alternatives(annotation))):
                raise SchemaError("a google.protobuf.Value needs the annotation Any", path)
            return _Value(each, _json)
        if name in WRAPPERS:
            self._value(each.message_type.fields_by_number[1], annotation, path)
            return _Value(each, _wrapped)
        message = self.message(each.message_type, annotation, path)
        return _Value(each, message.convert, message)


def _without_none(annotation: Any) -> Any:
    """Return an annotation without None."""
    arms = alternatives(annotation)
    if None not in arms:
        return annotation
    left = tuple(each for each in arms if each is not None)
    union: Any = typing.Union[left] if left else annotation  # noqa: UP007
    return union


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


# --- programs ---

CODES = {
    1: "DOUBLE",
    2: "FLOAT",
    3: "INT64",
    4: "UINT64",
    5: "INT32",
    6: "FIXED64",
    7: "FIXED32",
    8: "BOOL",
    9: "TEXT",
    12: "BYTES",
    13: "UINT32",
    15: "SFIXED32",
    16: "SFIXED64",
    17: "SINT32",
    18: "SINT64",
}
"""The instructions of FieldDescriptorProto.Type. Messages, groups and enums have no single one."""


class _UnplainTypeError(Exception):
    """Only google.protobuf reads the messages of a type."""


def _program_of(root: _Message) -> MessageProgram | None:
    """Compile a program. None: only google.protobuf reads the messages."""
    try:
        return _ProgramCompiler(root).compile()
    except _UnplainTypeError:
        return None


class _ProgramCompiler:
    def __init__(self, root: _Message) -> None:
        self._types: list[_Message | _Field] = [root]
        """The types of messages, and of the entries of maps."""

    def compile(self) -> MessageProgram:
        return MessageProgram(
            self._entry(each) if isinstance(each, _Field) else self._message(each)
            for each in self._types  # which grows meanwhile
        )

    def _message(self, message: _Message) -> Any:
        if message.descriptor.GetOptions().message_set_wire_format:
            raise _UnplainTypeError
        wanted = {each.descriptor.name for each in message.fields}
        oneofs: dict[str, int] = {}
        rows = []
        for each in message.fields:
            oneof, index = each.descriptor.containing_oneof, -1
            if oneof is not None and len(oneof.fields) > 1:
                if not {member.name for member in oneof.fields} <= wanted:
                    raise _UnplainTypeError  # a skipped field may unset another one
                index = oneofs.setdefault(oneof.name, len(oneofs))
            rows.append(self._field(each, index))
        if len(oneofs) > WIRE_ONEOFS_MAX:
            raise _UnplainTypeError
        return sorted(rows), message.cls, message.keywords, message.positional

    def _entry(self, field: _Field) -> Any:
        assert field.key is not None, "it is a map"
        parts = [
            _Field(each.descriptor, i, each) for i, each in enumerate((field.key, field.value))
        ]
        return [self._field(each, -1) for each in parts], None, ("key", "value"), 0

    def _field(self, field: _Field, oneof: int) -> Any:
        value, index = field.value, -1
        target: Any = None
        if field.shape == "map":
            code, index = "MESSAGE", self._index_of(field)
        elif value.descriptor.type == TYPE_GROUP:
            raise _UnplainTypeError
        elif value.message is not None:
            code, index = "MESSAGE", self._index_of(value.message)
        elif value.descriptor.message_type is not None:
            code, target = "CALL", _call(value)
        elif value.descriptor.type == TYPE_ENUM and _has_table(value):
            code, target = "ENUM", _table(value)
        else:
            code = "INT32" if value.descriptor.type == TYPE_ENUM else CODES[value.descriptor.type]
        made = None if field.made is list else field.made
        return (
            field.descriptor.number,
            WIRE_CODES[code],
            WIRE_SHAPES[field.shape],
            field.slot,
            oneof,
            index,
            target,
            made,
            _default(field),
        )

    def _index_of(self, type: _Message | _Field) -> int:
        for index, each in enumerate(self._types):
            if each is type:
                return index
        self._types.append(type)
        return len(self._types) - 1


def _call(value: _Value) -> Convert:
    parse, convert = GetMessageClass(value.descriptor.message_type).FromString, value.convert
    assert convert is not None, "a well-known type has a function"
    return lambda encoded: convert(parse(encoded))


def _has_table(value: _Value) -> bool:
    return value.convert is not None or value.descriptor.enum_type.is_closed


def _table(value: _Value) -> dict[int, Any]:
    """Return what each number of an enum becomes."""
    convert = value.convert
    numbers = names_of(value.descriptor.enum_type)
    return {number: number if convert is None else convert(number) for number in numbers}


def _default(field: _Field) -> tuple[Any] | None:
    """Return what a field becomes that isn't set. None: only google.protobuf makes it."""
    if field.is_nullable:
        return (None,)
    descriptor = field.descriptor
    if field.shape != "single" or descriptor.message_type is not None:
        return None
    value = getattr(GetMessageClass(descriptor.containing_type)(), descriptor.name)
    try:
        return (value if field.value.convert is None else field.value.convert(value),)
    except UnfitValueError:
        return None
