"""Protobuf messages as Arrow columns: descriptors compiled to programs for C.

csrc/codecs/protobuf_program.h has the instructions.
"""

from __future__ import annotations

import struct as packing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kafka_native._native.codec_core import (
    PROTOBUF_CODES,
    PROTOBUF_MISSING,
    PROTOBUF_SHAPES,
    ProtobufProgram,
)
from kafka_native.codecs import layout
from kafka_native.codecs.column_decoder import ColumnDecoder, field_names
from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.paths import below

__all__ = ["ProtobufDecoder"]

Names = Literal["names", "numbers"]
Recursive = Literal["raise", "bytes"]
TimeUnit = Literal["s", "ms", "us", "ns"]
Wanted = dict[str, "Wanted | None"]
"""The chosen fields of a message. None: the whole field."""

Op = tuple[int, int, int, int, int, int, int, int, int, int]

# FieldDescriptorProto.Type: instruction, format and width of the column. 9 and 12 are texts and
# bytes, 8 is bool, 10 and 11 are messages, 14 is an enum.
NUMBERS = {
    1: ("FIXED64", "g", 8),  # double
    2: ("FIXED32", "f", 4),  # float
    3: ("INT64", "l", 8),  # int64
    4: ("INT64", "L", 8),  # uint64
    5: ("INT32", "i", 4),  # int32
    6: ("FIXED64", "L", 8),  # fixed64
    7: ("FIXED32", "I", 4),  # fixed32
    13: ("INT32", "I", 4),  # uint32
    15: ("FIXED32", "i", 4),  # sfixed32
    16: ("FIXED64", "l", 8),  # sfixed64
    17: ("SINT32", "i", 4),  # sint32
    18: ("SINT64", "l", 8),  # sint64
}
TYPE_BOOL, TYPE_STRING, TYPE_GROUP, TYPE_MESSAGE, TYPE_BYTES, TYPE_ENUM = 8, 9, 10, 11, 12, 14
WIRE_TYPES = {1: 1, 2: 5, 6: 1, 7: 5, 9: 2, 10: 3, 11: 2, 12: 2, 15: 5, 16: 1}
"""The wire types of fields that aren't varints."""
COLUMNS_MAX = 65536
PACKING = {"i": "=i", "I": "=I", "l": "=q", "L": "=Q", "f": "=f", "g": "=d"}
UNITS = {"s": ("s", 10**9), "ms": ("m", 10**6), "us": ("u", 10**3), "ns": ("n", 1)}
"""The letter of a time unit in Arrow's formats, and its nanoseconds."""
GOOGLE = "google.protobuf."
JSON_KINDS = {f"{GOOGLE}Struct": 0, f"{GOOGLE}Value": 1, f"{GOOGLE}ListValue": 2}
"""enum kn_protobuf_json_kind."""
JSON_DEFAULTS = (b"{}", b"null", b"[]")
WRAPPERS = frozenset(
    f"{GOOGLE}{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


# --- fields to instructions ---


@dataclass
class _Field:
    """A field, its column, and its instruction."""

    number: int
    path: str
    node: layout.Node | None
    code: str
    shape: str = "singular"
    missing: str = "null"
    arg: int = 0
    count: int = 0
    oneof: int = -1
    constant: bytes = b""
    message: _Message | None = None


@dataclass
class _Message:
    """A message, its column, and its fields. A wrapper has the column of its field."""

    path: str
    node: layout.Node
    fields: list[_Field] = field(default_factory=list)
    is_wrapper: bool = False

    def columns(self, at: int) -> Iterator[tuple[_Field, int]]:
        """Yield each field with the index of its column, by number; -1: it has no column."""
        places = {}
        index = at if self.is_wrapper else at + 1
        for each in self.fields:
            if each.node is not None:
                places[each.number] = index
                index += each.node.size
        for each in sorted(self.fields, key=lambda each: each.number):
            yield each, places.get(each.number, -1)


class Compiler:
    """Compiles a message type to columns and instructions."""

    def __init__(self, enums: Names, time_unit: TimeUnit, recursive: Recursive = "raise") -> None:
        self._has_names = enums == "names"
        self._keeps_bytes = recursive == "bytes"
        self._unit, self._unit_ns = UNITS[time_unit]
        self._oneof_count = 0
        self._column_count = 0
        self._open: list[str] = []
        self.table: list[int] = []
        self.constants = bytearray()
        self.ops: list[Op] = []
        self.messages: list[tuple[int, int, int]] = []
        self.paths: list[str] = []

    def compile(self, descriptor: Any, wanted: Wanted | None) -> layout.Node:
        """Compile a whole program. Return the column."""
        root = self._message(descriptor, "", "", True, wanted)
        queue = [(root, 0)]
        for message, at in queue:
            first = len(self.ops)
            for each, index in message.columns(at):
                arg = each.arg
                if each.message is not None:
                    arg = len(queue)
                    queue.append((each.message, index + (each.shape != "singular")))
                self._add(each, index, arg)
            self.messages.append((at, first, len(self.ops) - first))
        self.paths += [message.path for message, _ in queue]
        return root.node

    def _add(self, each: _Field, index: int, arg: int) -> None:
        constant = len(self.constants)
        self.constants += each.constant
        self.paths.append(each.path)
        self.ops.append(
            (
                PROTOBUF_CODES[each.code],
                index,
                each.number,
                PROTOBUF_SHAPES[each.shape],
                PROTOBUF_MISSING[each.missing],
                arg,
                each.count,
                each.oneof,
                constant,
                len(each.constant),
            )
        )

    # messages

    def _count(self, path: str) -> None:
        """Refuse messages in messages that would become endless columns."""
        self._column_count += 1
        if self._column_count > COLUMNS_MAX:
            raise SchemaError(f"the message has more than {COLUMNS_MAX} columns", path)

    def _message(
        self, descriptor: Any, name: str, path: str, nullable: bool, wanted: Wanted | None
    ) -> _Message:
        if descriptor.full_name in self._open:
            raise SchemaError(
                f"the message {descriptor.full_name} contains itself: leave it out with "
                'fields=, or keep it encoded with recursive="bytes"',
                path,
            )
        self._count(path)
        self._open.append(descriptor.full_name)
        known = {each.name for each in descriptor.fields}
        for each in wanted or ():
            if each not in known:
                raise SchemaError("there is no such field", below(path, each))
        fields = []
        oneofs: dict[str, int] = {}
        for each in descriptor.fields:
            is_wanted = wanted is None or each.name in wanted
            oneof = self._oneof_of(each, wanted, oneofs)
            if is_wanted:
                inner = None if wanted is None else wanted[each.name]
                made = self._field(each, below(path, each.name), inner)
                made.oneof = oneof
                fields.append(made)
            elif oneof >= 0:
                wire = WIRE_TYPES.get(each.type, 0)
                clear = _Field(each.number, below(path, each.name), None, "CLEAR", arg=wire)
                clear.oneof = oneof
                fields.append(clear)
        self._open.pop()
        children = tuple(each.node for each in fields if each.node is not None)
        return _Message(path, layout.struct(name, nullable, children), fields)

    def _oneof_of(self, each: Any, wanted: Wanted | None, oneofs: dict[str, int]) -> int:
        """Return the number of a field's oneof, or -1 without a oneof that has chosen fields."""
        oneof = each.containing_oneof
        if oneof is None or len(oneof.fields) < 2:
            return -1
        if wanted is not None and not any(member.name in wanted for member in oneof.fields):
            return -1
        if oneof.name not in oneofs:
            oneofs[oneof.name] = self._oneof_count
            self._oneof_count += 1
        return oneofs[oneof.name]

    def _field(self, each: Any, path: str, wanted: Wanted | None) -> _Field:
        if each.message_type is not None and each.message_type.GetOptions().map_entry:
            return self._map(each, path, wanted)
        if each.is_repeated:
            made = self._value(each, "item", path, False, wanted)
            assert made.node is not None
            made.node = layout.list_of(each.name, False, made.node)
            can_be_packed = each.type not in (TYPE_STRING, TYPE_BYTES, TYPE_GROUP, TYPE_MESSAGE)
            made.shape = "packed" if can_be_packed else "repeated"
            return made
        missing = self._missing_of(each)
        made = self._value(each, each.name, path, missing == "null", wanted)
        made.missing = missing
        if missing == "constant":
            made.constant = self._constant_of(each, each.default_value)
        elif missing == "zero" and each.type == TYPE_ENUM:
            made.missing, made.constant = "constant", self._constant_of(each, each.default_value)
        return made

    @staticmethod
    def _missing_of(each: Any) -> str:
        if each.is_required:
            return "required"
        oneof = each.containing_oneof
        if oneof is not None and len(oneof.fields) > 1:
            return "null"
        if each.has_default_value:
            return "constant"
        return "null" if each.has_presence else "zero"

    def _map(self, each: Any, path: str, wanted: Wanted | None) -> _Field:
        key, value = (each.message_type.fields_by_number[number] for number in (1, 2))
        first = self._value(key, "key", path, False, None)
        second = self._value(value, "value", path, False, wanted)
        first.missing = second.missing = "zero"
        if value.type == TYPE_ENUM:
            second.missing = "constant"
            second.constant = self._constant_of(value, value.enum_type.values[0].number)
        elif second.code == "JSON":
            second.missing, second.constant = "constant", JSON_DEFAULTS[second.arg]
        elif second.code in ("MESSAGE", "GROUP"):
            second.missing = "empty"
        assert first.node is not None
        assert second.node is not None
        entry = layout.struct("entries", False, (first.node, second.node))
        node = layout.Node("list", "+m", each.name, children=(entry,))
        message = _Message(path, entry, [first, second])
        return _Field(each.number, path, node, "MESSAGE", "map", message=message)

    # values

    def _value(
        self, each: Any, name: str, path: str, nullable: bool, wanted: Wanted | None
    ) -> _Field:
        """Return a field for one value. Its column may become the item of a list."""
        if each.type in (TYPE_GROUP, TYPE_MESSAGE):
            return self._message_value(each, name, path, nullable, wanted)
        if wanted is not None:
            raise SchemaError("only messages have fields", path)
        self._count(path)
        if each.type == TYPE_ENUM:
            return self._enum(each, name, path, nullable)
        if each.type == TYPE_BOOL:
            return _Field(each.number, path, layout.bits(name, nullable), "BOOL")
        if each.type in (TYPE_STRING, TYPE_BYTES):
            is_text = each.type == TYPE_STRING
            node = layout.varying(name, nullable, is_text=is_text)
            return _Field(each.number, path, node, "TEXT" if is_text else "BYTES")
        code, format, width = NUMBERS[each.type]
        return _Field(each.number, path, layout.fixed(name, nullable, format, width), code)

    def _message_value(
        self, each: Any, name: str, path: str, nullable: bool, wanted: Wanted | None
    ) -> _Field:
        full_name = each.message_type.full_name
        if full_name in JSON_KINDS and each.type == TYPE_MESSAGE:
            if wanted is not None:
                raise SchemaError("JSON text has no fields to choose", path)
            node = layout.varying(name, nullable, is_text=True)
            return _Field(each.number, path, node, "JSON", arg=JSON_KINDS[full_name])
        if wanted is None and each.type == TYPE_MESSAGE:
            if full_name in (f"{GOOGLE}Timestamp", f"{GOOGLE}Duration"):
                is_timestamp = full_name.endswith("Timestamp")
                format = f"ts{self._unit}:UTC" if is_timestamp else f"tD{self._unit}"
                node = layout.fixed(name, nullable, format, 8)
                code = "TIMESTAMP" if is_timestamp else "DURATION"
                return _Field(each.number, path, node, code, arg=self._unit_ns)
            if full_name in WRAPPERS:
                inner = each.message_type.fields_by_number[1]
                value = self._value(inner, name, path, nullable, None)
                assert value.node is not None
                message = _Message(path, value.node, [value], is_wrapper=True)
                return _Field(each.number, path, value.node, "WRAPPER", message=message)
        if self._keeps_bytes and full_name in self._open and each.type == TYPE_MESSAGE:
            if wanted is not None:
                raise SchemaError("a message in itself has no fields to choose", path)
            node = layout.varying(name, nullable, is_text=False)
            return _Field(each.number, path, node, "ENCODED")
        message = self._message(each.message_type, name, path, nullable, wanted)
        code = "GROUP" if each.type == TYPE_GROUP else "MESSAGE"
        return _Field(each.number, path, message.node, code, message=message)

    def _enum(self, each: Any, name: str, path: str, nullable: bool) -> _Field:
        names = names_of(each.enum_type)
        is_closed = each.enum_type.is_closed
        if not self._has_names and not is_closed:
            return _Field(each.number, path, layout.fixed(name, nullable, "i", 4), "INT32")
        place = len(self.table)
        numbers = sorted(names)
        self.table += numbers
        if self._has_names:
            indices = {number: index for index, number in enumerate(names)}
            self.table += [indices[number] for number in numbers]
            # An open enum may have a number without a name, which is null.
            node = layout.dictionary(name, nullable or not is_closed, tuple(names.values()))
            code = "CLOSED_ENUM" if is_closed else "ENUM"
        else:
            node = layout.fixed(name, nullable, "i", 4)
            code = "CLOSED_NUMBER"
        return _Field(each.number, path, node, code, arg=place, count=len(numbers))

    def _constant_of(self, each: Any, value: Any) -> bytes:
        """Return a default value as an item of its column."""
        if each.type == TYPE_BOOL:
            return bytes([value])
        if each.type == TYPE_STRING:
            return bytes(value.encode())
        if each.type == TYPE_BYTES:
            return bytes(value)
        if each.type == TYPE_ENUM:
            if self._has_names:
                value = list(names_of(each.enum_type)).index(value)
            return packing.pack("=i", value)
        return packing.pack(PACKING[NUMBERS[each.type][1]], value)


def names_of(enum: Any) -> dict[int, str]:
    """Return the names of an enum by number, as declared. The first name of a number counts."""
    names: dict[int, str] = {}
    for value in enum.values:
        names.setdefault(value.number, value.name)
    return names


def wanted_of(fields: Iterable[str]) -> Wanted:
    """Return chosen fields as a tree. A dot leads into a message."""
    wanted: Wanted = {}
    for name in fields:
        level, parts = wanted, name.split(".")
        for part in parts[:-1]:
            inner = level.setdefault(part, {})
            if inner is None:  # the whole field is chosen already
                break
            level = inner
        else:
            level[parts[-1]] = None
    return wanted


# --- the decoder ---


class ProtobufDecoder(ColumnDecoder):
    """Decodes Protobuf messages into an Arrow column, in C and without the interpreter lock.

    Parameters
    ----------
    schema : message class, descriptor, bytes or str
        A class that protoc has generated, the descriptor of a message, a serialized
        ``google.protobuf.FileDescriptorSet``, as ``protoc --descriptor_set_out`` writes it, or the
        text of a schema registry's schema: a .proto file, or with ``?format=serialized`` a
        descriptor in base64.
    message : str or sequence of int, optional
        The message of a descriptor set or text: its full name, or the message indexes of the
        registry's framing. Default: the first message of the set's last file, or of the text.
    fields : sequence of str, optional
        Only these fields, as in ``["id", "customer.city"]``. Other fields are skipped, not built.
    references : dict, optional
        The texts of the files that a text imports, by the name that it imports. Files of Protobuf
        and of the registry (``google/protobuf``, ``google/type``, ``confluent``) are known.
    enums : str
        ``"names"``: columns of enums are dictionaries of their names. A number without a name is
        null. ``"numbers"``: they are int32.
    time_unit : str
        The unit of timestamps and durations: ``"ns"`` (default), ``"us"``, ``"ms"`` or ``"s"``.
        Smaller parts are cut off. A time out of the range of the unit is an error of the record.
    recursive : str
        A message that contains itself: ``"raise"`` refuses it. ``"bytes"``: the inner message is a
        binary column of its encoded bytes, for another decoder.

    Raises
    ------
    ImportError
        The package protobuf isn't installed.
    SchemaError
        The descriptors are malformed, have no such message or field, or a message contains itself.

    Notes
    -----
    Fields without presence are never null. Fields with presence are null if they aren't set, except
    those with a default of their own.
    """

    __slots__ = ()

    def __init__(
        self,
        schema: Any,
        message: str | Sequence[int] | None = None,
        *,
        fields: Iterable[str] | None = None,
        references: Mapping[str, str] | None = None,
        enums: Names = "names",
        time_unit: TimeUnit = "ns",
        recursive: Recursive = "raise",
    ) -> None:
        fields = field_names(fields)
        if enums not in ("names", "numbers"):
            raise ValueError(f'enums must be "names" or "numbers", not {enums!r}')
        if time_unit not in UNITS:
            raise ValueError(f"time_unit must be one of {', '.join(UNITS)}, not {time_unit!r}")
        if recursive not in ("raise", "bytes"):
            raise ValueError(f'recursive must be "raise" or "bytes", not {recursive!r}')
        from kafka_native.codecs import protobuf_descriptors

        descriptor = protobuf_descriptors.message_of(schema, message, references)
        compiler = Compiler(enums, time_unit, recursive)
        node = compiler.compile(descriptor, None if fields is None else wanted_of(fields))
        try:
            columns = layout.layout_of(node)
        except ValueError as error:
            raise SchemaError(str(error)) from None
        program = ProtobufProgram(
            columns, compiler.ops, compiler.messages, compiler.table, bytes(compiler.constants)
        )
        super().__init__(program, compiler.paths)
