"""Arrow columns as Protobuf messages: descriptors and columns' types compiled to programs for C."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka_native._native.encode_core import ENCODE_NUMBERS, EncodeProgram
from kafka_native._native.primitives import uvarint_encode
from kafka_native.codecs.arrow_types import BINARIES, INTEGERS, REALS, TEXTS, TICKS, ArrowType
from kafka_native.codecs.column_encoder import ColumnEncoder
from kafka_native.codecs.encode_compiler import EncodeCompiler
from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.paths import below
from kafka_native.codecs.protobuf_decoder import JSON_KINDS

__all__ = ["ProtobufEncoder"]

TYPE_BOOL, TYPE_STRING, TYPE_GROUP, TYPE_MESSAGE, TYPE_BYTES, TYPE_ENUM = 8, 9, 10, 11, 12, 14
# FieldDescriptorProto.Type of integers: instruction, whether they are signed, bits, wire type.
INTEGER_TYPES = {
    3: ("VARINT", True, 64, 0),  # int64
    4: ("VARINT", False, 64, 0),  # uint64
    5: ("VARINT", True, 32, 0),  # int32
    6: ("LITTLE", False, 64, 1),  # fixed64
    7: ("LITTLE", False, 32, 5),  # fixed32
    13: ("VARINT", False, 32, 0),  # uint32
    15: ("LITTLE", True, 32, 5),  # sfixed32
    16: ("LITTLE", True, 64, 1),  # sfixed64
    17: ("LONG", True, 32, 0),  # sint32
    18: ("LONG", True, 64, 0),  # sint64
}
REAL_TYPES = {1: ("DOUBLE", 1), 2: ("FLOAT", 5)}
TEXT_WIRE, GROUP_WIRE, GROUP_END_WIRE = 2, 3, 4
NAMES = (
    "",
    "double",
    "float",
    "int64",
    "uint64",
    "int32",
    "fixed64",
    "fixed32",
    "bool",
    "string",
    "group",
    "message",
    "bytes",
    "uint32",
    "enum",
    "sfixed32",
    "sfixed64",
    "sint32",
    "sint64",
)
GOOGLE = "google.protobuf."
WRAPPERS = frozenset(
    f"{GOOGLE}{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


class Compiler(EncodeCompiler):
    """Compiles a message type and the type of a column to instructions."""

    def compile(self, descriptor: Any, column: ArrowType) -> EncodeProgram:
        """Compile a whole program."""
        if _is_null(column):
            column.mark()  # every row is a null
        else:
            self._message(descriptor, column, "")
        return self.finish(column)

    def _message(self, descriptor: Any, column: ArrowType, path: str) -> None:
        if column.values is not None:
            values = column.values
            self.add_dictionary(column, path, lambda: self._message(descriptor, values, path))
            return
        if column.format != "+s":
            text = f"a column of {column.label} can't be encoded as message {descriptor.full_name}"
            raise SchemaError(text, path)
        known = {each.name for each in descriptor.fields}
        children = self.columns_of(column, known, path, "message")
        self.add("RECORD", column, path)
        for oneof in descriptor.oneofs:
            columns = [children[each.name] for each in oneof.fields if each.name in children]
            members = [each for each in columns if not _is_null(each)]
            if len(members) > 1:
                self.add("ONE_OF", None, below(path, oneof.name), len(self.table), len(members))
                self.table += members
        for field in sorted(descriptor.fields, key=lambda each: int(each.number)):
            inner = below(path, field.name)
            child = children.get(field.name)
            if child is None or _is_null(child):
                if field.is_required:
                    raise SchemaError("there is no such column, and the field is required", inner)
                continue
            self._field(field, child, inner)

    def _field(self, field: Any, column: ArrowType, path: str) -> None:
        if column.kind is None or column.is_union:
            raise SchemaError(f"a column of {column.label} can't be encoded", path)
        null = None if field.is_required else self.add("NULLABLE", column, path)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            self._map(field, column, path)
        elif field.is_repeated:
            self._repeated(field, column, path)
        elif field.has_presence or field.is_required or not _can_be_empty(field, column):
            self._tagged(field, column, path)
        else:
            self._unless_empty(column, path, lambda: self._tagged(field, column, path))
        if null is not None:
            null.end = len(self.ops)

    def _unless_empty(self, column: ArrowType, path: str, write: Callable[[], None]) -> None:
        op = self.add("UNLESS_EMPTY", column, path)
        write()
        op.end = len(self.ops)

    def _delimited(self, path: str, write: Callable[[], None]) -> None:
        op = self.add("DELIMITED", None, path)
        write()
        self.add("CLOSE", None, path)
        op.end = len(self.ops)

    def _tag(self, number: int, wire: int, path: str) -> None:
        self.add_constant(uvarint_encode(number << 3 | wire), path)

    def _repeated(self, field: Any, column: ArrowType, path: str) -> None:
        item = self._item_of(field, column, path)
        if not field.is_packed:
            self.add_items("REPEATED", column, path, lambda: self._tagged(field, item, path))
            return

        def write() -> None:
            self._tag(field.number, TEXT_WIRE, path)
            self._delimited(
                path,
                lambda: self.add_items(
                    "REPEATED", column, path, lambda: self._value(field, item, path)
                ),
            )

        self._unless_empty(column, path, write)

    @staticmethod
    def _item_of(field: Any, column: ArrowType, path: str) -> ArrowType:
        if column.format not in ("+l", "+L") and not column.format.startswith("+w:"):
            raise _unfit(field, column, path)
        return column.children[0]

    def _map(self, field: Any, column: ArrowType, path: str) -> None:
        entries = column.map_entries
        if entries is None:
            raise _unfit(field, column, path)
        parts = [field.message_type.fields_by_number[number] for number in (1, 2)]

        def write_entry() -> None:
            self.add("RECORD", entries, path)
            for part, each in zip(parts, entries.children, strict=True):
                self._tagged(part, each, path)

        def write() -> None:
            self._tag(field.number, TEXT_WIRE, path)
            self._delimited(path, write_entry)

        self.add_items("REPEATED", column, path, write)

    # values

    def _tagged(self, field: Any, column: ArrowType, path: str) -> None:
        """Write a field's tag and value."""
        if field.type == TYPE_GROUP:
            self._tag(field.number, GROUP_WIRE, path)
            self._message(field.message_type, column, path)
            self._tag(field.number, GROUP_END_WIRE, path)
            return
        wire = 0
        if field.type in INTEGER_TYPES:
            wire = INTEGER_TYPES[field.type][3]
        elif field.type in REAL_TYPES:
            wire = REAL_TYPES[field.type][1]
        elif field.type in (TYPE_STRING, TYPE_BYTES, TYPE_MESSAGE):
            wire = TEXT_WIRE
        self._tag(field.number, wire, path)
        self._value(field, column, path)

    def _value(self, field: Any, column: ArrowType, path: str) -> None:
        form = column.format
        if column.values is not None and column.kind is not None:
            values = column.values
            self.add_dictionary(column, path, lambda: self._value(field, values, path))
        elif field.type == TYPE_MESSAGE:
            self._message_value(field, column, path)
        elif field.type == TYPE_BOOL and form == "b":
            self.add("BOOLEAN", column, path)
        elif field.type in INTEGER_TYPES and form in INTEGERS:
            code, is_signed, bits, _ = INTEGER_TYPES[field.type]
            arg = int(form.islower()) | (2 * is_signed if code != "LONG" else 0)
            self.add(code, column, path, arg, bits)
        elif field.type in REAL_TYPES and (form in INTEGERS or form in REALS):
            self._real(field, column, path)
        elif field.type == TYPE_STRING and (form in TEXTS or form in BINARIES):
            self.add("TEXT", column, path, 1)
        elif field.type == TYPE_BYTES and (
            form in TEXTS or form in BINARIES or form.startswith("w:")
        ):
            self.add("BYTES", column, path, 1)
        elif field.type == TYPE_ENUM and form in INTEGERS:
            self.add("VARINT", column, path, int(form.islower()) | 2, 32)
        elif field.type == TYPE_ENUM and form in TEXTS:
            numbers = {each.name: each.number for each in field.enum_type.values}
            self.add_symbols("ENUM_NUMBER", column, path, numbers)
        else:
            raise _unfit(field, column, path)

    def _real(self, field: Any, column: ArrowType, path: str) -> None:
        code, _ = REAL_TYPES[field.type]
        if column.format == "g" and code == "FLOAT":
            raise SchemaError("a float can't hold a column of float64: cast the column", path)
        numbers = {"e": "half", "f": "single", "g": "double"}
        number = numbers.get(column.format, "signed" if column.format.islower() else "unsigned")
        self.add(code, column, path, ENCODE_NUMBERS[number])

    def _message_value(self, field: Any, column: ArrowType, path: str) -> None:
        form, kind = column.format, field.message_type
        if kind.full_name == f"{GOOGLE}Timestamp" and form.startswith("ts"):
            if not form[4:]:
                text = "a column for Timestamp needs a time zone: cast the column"
                raise SchemaError(text, path)
            self.add("TIMESTAMP", column, path, TICKS[form[2]])
        elif kind.full_name == f"{GOOGLE}Duration" and form.startswith("tD"):
            self.add("TIME_SPAN", column, path, TICKS[form[2]])
        elif kind.full_name in WRAPPERS and form != "+s":
            inner = kind.fields_by_number[1]
            self._delimited(path, lambda: self._wrapped(inner, column, path))
        elif kind.full_name in JSON_KINDS and form in TEXTS:
            self.add("STRUCT_FROM_JSON", column, path, JSON_KINDS[kind.full_name])
        elif form in BINARIES:
            self.add("BYTES", column, path, 1)  # a message that is encoded already
        else:
            self._delimited(path, lambda: self._message(kind, column, path))

    def _wrapped(self, inner: Any, column: ArrowType, path: str) -> None:
        if _can_be_empty(inner, column):
            self._unless_empty(column, path, lambda: self._tagged(inner, column, path))
        else:
            self._tagged(inner, column, path)


def _is_null(column: ArrowType) -> bool:
    """Return whether every item is null by its type."""
    return column.format == "n" and column.values is None


def _can_be_empty(field: Any, column: ArrowType) -> bool:
    """Return whether an empty item of the column is the field's default, which isn't written."""
    form = column.format
    if column.values is not None:
        return False
    if field.type == TYPE_ENUM:
        return form in INTEGERS
    return form in INTEGERS or form in REALS or form == "b" or form in TEXTS or form in BINARIES


def _unfit(field: Any, column: ArrowType, path: str) -> SchemaError:
    kind = field.message_type or field.enum_type
    wanted = NAMES[field.type] if kind is None else f"{NAMES[field.type]} {kind.full_name}"
    if field.is_repeated:
        wanted = f"repeated {wanted}"
    return SchemaError(f"a column of {column.label} can't be encoded as {wanted}", path)


class ProtobufEncoder(ColumnEncoder):
    """Encodes the rows of an Arrow column as Protobuf messages, in C.

    Parameters
    ----------
    schema : message class, descriptor, bytes or str
        As of `ProtobufDecoder`: a class that protoc has generated, the descriptor of a message, a
        serialized ``FileDescriptorSet``, or the text of a registry's schema.
    message : str or sequence of int, optional
        The message of a descriptor set or text, as of `ProtobufDecoder`.
    references : dict of str, optional
        The texts of the files that a schema's text imports, by name.
    ignore_extra : bool
        Leave out columns that the message has no field for. Default: they are an error.
    prefix : bytes
        The bytes before each record, such as the framing of a schema registry.

    Raises
    ------
    ImportError
        The package protobuf isn't installed.
    SchemaError
        The schema is malformed, or has no such message.
    TypeError
        ``schema`` is something else.

    Notes
    -----
    Fields and columns match by name. A null, or a field without a column, isn't written.
    docs/guide/produce-typed-columns.md has the types.
    """

    __slots__ = ("_descriptor", "_ignore_extra")

    def __init__(
        self,
        schema: Any,
        message: str | Sequence[int] | None = None,
        *,
        references: Mapping[str, str] | None = None,
        ignore_extra: bool = False,
        prefix: bytes = b"",
    ) -> None:
        from kafka_native.codecs.protobuf_descriptors import message_of

        super().__init__(prefix)
        self._descriptor = message_of(schema, message, references)
        self._ignore_extra = ignore_extra

    @property
    def message_indexes(self) -> list[int]:
        """The position of the message in its file, for the framing of a registry."""
        from kafka_native.codecs.protobuf_descriptors import indexes_of

        return indexes_of(self._descriptor)

    def _compile(self, column: ArrowType) -> tuple[EncodeProgram, list[str]]:
        compiler = Compiler(self._ignore_extra)
        return compiler.compile(self._descriptor, column), compiler.paths
