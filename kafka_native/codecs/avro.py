"""Avro records as Arrow columns: schemas compiled to programs for csrc/codecs/avro_decode.

The compiler resolves the writer's schema against the reader's by Avro's specification, once. The
reader's schema gives the columns, the writer's schema the order of the instructions.
"""

from __future__ import annotations

import struct as packing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafka_native._native.codec_core import AVRO_CODES, AvroProgram
from kafka_native.codecs import layout
from kafka_native.codecs._avro_schema import (
    NO_DEFAULT,
    AvroField,
    AvroType,
    parse_schema,
)
from kafka_native.codecs._paths import below, by_first_name
from kafka_native.codecs.columns import ColumnDecoder
from kafka_native.codecs.errors import SchemaError

__all__ = ["AvroDecoder"]

Schema = str | Mapping[str, Any] | list[Any]

FIXED_TYPES = {"int": ("i", 4), "long": ("l", 8), "float": ("f", 4), "double": ("g", 8)}
LOGICAL_FORMATS = {
    "date": "tdD",
    "time-millis": "ttm",
    "time-micros": "ttu",
    "timestamp-millis": "tsm:UTC",
    "timestamp-micros": "tsu:UTC",
    "timestamp-nanos": "tsn:UTC",
    "local-timestamp-millis": "tsm:",
    "local-timestamp-micros": "tsu:",
    "local-timestamp-nanos": "tsn:",
}
# The instruction for a writer's and a reader's type.
READS = {
    ("null", "null"): "NONE",
    ("boolean", "boolean"): "BOOLEAN",
    ("int", "int"): "INT",
    ("int", "long"): "INT_AS_LONG",
    ("int", "float"): "INT_AS_FLOAT",
    ("int", "double"): "INT_AS_DOUBLE",
    ("long", "long"): "LONG",
    ("long", "float"): "LONG_AS_FLOAT",
    ("long", "double"): "LONG_AS_DOUBLE",
    ("float", "float"): "FLOAT",
    ("float", "double"): "FLOAT_AS_DOUBLE",
    ("double", "double"): "DOUBLE",
    ("bytes", "bytes"): "BYTES",
    ("string", "bytes"): "BYTES",
    ("string", "string"): "TEXT",
    ("bytes", "string"): "TEXT",
}
SKIPPED_BYTES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
UNIONS_BRANCHES_MAX = 127


# --- columns ---


def nullable_of(kind: AvroType) -> AvroType | None:
    """Return the other type of a union with null, or None if it isn't one of these two types."""
    if kind.kind != "union" or len(kind.branches) != 2:
        return None
    first, second = kind.branches
    if first.kind == "null":
        return second
    return first if second.kind == "null" else None


def node_of(kind: AvroType, name: str, path: str, nullable: bool = False) -> layout.Node:
    """Return the column of a reader's type."""
    inner = nullable_of(kind)
    if inner is not None:
        return node_of(inner, name, path, True)
    if kind.kind == "union":
        if len(kind.branches) == 1:
            return node_of(kind.branches[0], name, path)
        if len(kind.branches) > UNIONS_BRANCHES_MAX:
            raise SchemaError(f"a union has more than {UNIONS_BRANCHES_MAX} branches", path)
        return layout.dense_union(
            name, tuple(node_of(each, each.label, path) for each in kind.branches)
        )
    if kind.kind == "record":
        children = tuple(
            node_of(each.type, each.name, below(path, each.name)) for each in kind.fields
        )
        return layout.struct(name, nullable, children)
    if kind.kind == "array":
        return layout.list_of(name, nullable, node_of(kind.below_item, "item", below(path, "[]")))
    if kind.kind == "map":
        return layout.map_of(name, nullable, node_of(kind.below_item, "value", below(path, "[]")))
    return _leaf_of(kind, name, nullable)


def _leaf_of(kind: AvroType, name: str, nullable: bool) -> layout.Node:
    if kind.logical == "decimal":
        is_wide = kind.precision > 38
        format = f"d:{kind.precision},{kind.scale}" + (",256" if is_wide else "")
        return layout.fixed(name, nullable, format, 32 if is_wide else 16)
    if kind.logical == "uuid":
        return layout.fixed(name, nullable, "w:16", 16)
    if kind.logical == "duration":
        return layout.fixed(name, nullable, "tin", 16)
    if kind.kind in FIXED_TYPES:
        format, width = FIXED_TYPES[kind.kind]
        return layout.fixed(name, nullable, LOGICAL_FORMATS.get(kind.logical or "", format), width)
    if kind.kind == "fixed":
        return layout.fixed(name, nullable, f"w:{kind.size}", kind.size)
    if kind.kind == "enum":
        return layout.dictionary(name, nullable, kind.symbols)
    if kind.kind == "null":
        return layout.nulls(name)
    if kind.kind == "boolean":
        return layout.bits(name, nullable)
    return layout.varying(name, nullable, is_text=kind.kind == "string")


def project(kind: AvroType, fields: Iterable[str]) -> AvroType:
    """Return the type with only these fields. A dot leads into a nested record.

    :raises SchemaError: There is no such field.
    """
    return _projected(kind, by_first_name(fields), "")


def _projected(kind: AvroType, wanted: dict[str, list[str]], path: str) -> AvroType:
    inner = nullable_of(kind)
    if inner is not None:
        branches = (AvroType("null"), _projected(inner, wanted, path))
        return AvroType("union", branches=branches)
    if kind.kind in ("array", "map"):
        return AvroType(kind.kind, item=_projected(kind.below_item, wanted, below(path, "[]")))
    if kind.kind != "record":
        raise SchemaError("only records have fields", path)
    missing = [name for name in wanted if name not in {each.name for each in kind.fields}]
    if missing:
        raise SchemaError("there is no such field", below(path, missing[0]))
    fields = []
    for each in kind.fields:
        rests = wanted.get(each.name)
        if rests is None:
            continue
        if "" in rests:
            fields.append(each)
            continue
        pruned = _projected(each.type, by_first_name(rests), below(path, each.name))
        # Its default may have more fields than the pruned type: they are left out.
        fields.append(AvroField(each.name, pruned, each.aliases, each.default))
    return AvroType("record", kind.name, kind.aliases, fields=tuple(fields))


# --- default values ---


def encode_default(kind: AvroType, value: Any, path: str) -> bytes:
    """Return the Avro encoding of a default value, which is JSON.

    :raises SchemaError: The value isn't one of this type.
    """
    if kind.kind == "union":
        for index, branch in enumerate(kind.branches):
            try:
                return varint(index) + encode_default(branch, value, path)
            except SchemaError:
                continue
    elif kind.kind == "record" and isinstance(value, Mapping):
        return b"".join(_encode_field(each, value, path) for each in kind.fields)
    elif kind.kind == "array" and isinstance(value, list):
        items = [encode_default(kind.below_item, each, below(path, "[]")) for each in value]
        return (varint(len(items)) + b"".join(items) if items else b"") + b"\0"
    elif kind.kind == "map" and isinstance(value, Mapping):
        entries = [
            varint(len(key.encode()))
            + key.encode()
            + encode_default(kind.below_item, each, below(path, "[]"))
            for key, each in value.items()
        ]
        return (varint(len(entries)) + b"".join(entries) if entries else b"") + b"\0"
    else:
        encoded = _encode_leaf(kind, value)
        if encoded is not None:
            return encoded
    raise SchemaError(f"the default {value!r:.100} isn't a {kind.label}", path)


def _encode_field(each: AvroField, value: Mapping[str, Any], path: str) -> bytes:
    chosen = value.get(each.name, each.default)
    if chosen is NO_DEFAULT:
        raise SchemaError("the default of a record lacks this field", below(path, each.name))
    return encode_default(each.type, chosen, below(path, each.name))


def _encode_leaf(kind: AvroType, value: Any) -> bytes | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind.kind == "null":
        return b"" if value is None else None
    if kind.kind == "boolean":
        return bytes([value]) if isinstance(value, bool) else None
    if kind.kind in ("int", "long"):
        width = 31 if kind.kind == "int" else 63
        is_good = type(value) is int and -(1 << width) <= value < 1 << width
        return varint(value) if is_good else None
    if kind.kind in ("float", "double"):
        return packing.pack("<f" if kind.kind == "float" else "<d", value) if is_number else None
    if not isinstance(value, str):
        return None
    if kind.kind == "enum":
        return varint(kind.symbols.index(value)) if value in kind.symbols else None
    if kind.kind == "string":
        return varint(len(value.encode())) + value.encode()
    if kind.kind not in ("bytes", "fixed") or any(ord(each) > 255 for each in value):
        return None
    data = value.encode("latin-1")
    if kind.kind == "bytes":
        return varint(len(data)) + data
    return data if len(data) == kind.size else None


def varint(value: int) -> bytes:
    """Return a number in Avro's encoding."""
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


# --- the compiler ---


class _Op:
    """An instruction. ``end``, ``arg`` and ``count`` may be set later."""

    __slots__ = ("arg", "code", "count", "end", "node", "path")

    def __init__(self, code: str, node: int, arg: int, count: int, path: str) -> None:
        self.code = code
        self.node = node
        self.arg = arg
        self.count = count
        self.path = path
        self.end = 0


def short_name(name: str) -> str:
    """Return a name without its namespace."""
    return name.rpartition(".")[2]


def names_match(writer: AvroType, reader: AvroType) -> bool:
    """Return whether a reader's named type may read the writer's."""
    return short_name(writer.name) == short_name(reader.name) or writer.name in reader.aliases


class Compiler:
    """Compiles a writer's and a reader's type to instructions."""

    def __init__(self) -> None:
        self.ops: list[_Op] = []
        self.table: list[int] = []
        self.constants = bytearray()

    def compile(self, writer: AvroType, reader: AvroType) -> layout.Node:
        """Compile a whole program. Return the column."""
        if reader.kind == "union" and len(reader.branches) > 1 and nullable_of(reader) is None:
            # Arrow's unions have no validity. A missing record is a null of the first child.
            others = (each for each in reader.branches if each.kind != "null")
            reader = AvroType("union", branches=(AvroType("null"), *others))
        node = node_of(reader, "", "")
        self._read(writer, reader, 0, node, "")
        self._drop_last_skips()
        self._add("DONE", -1, "")
        return node

    def _add(self, code: str, node: int, path: str, arg: int = 0, count: int = 0) -> _Op:
        op = _Op(code, node, arg, count, path)
        self.ops.append(op)
        return op

    def _drop_last_skips(self) -> None:
        """Leave out what is skipped after the last wanted field: nothing needs its end."""
        at = needed = 0
        while at < len(self.ops):
            op = self.ops[at]
            at = op.end or at + 1
            is_skipped = op.code.startswith("SKIP_") or (
                op.code in ("ARRAY", "UNION") and op.node < 0
            )
            needed = needed if is_skipped else at
        del self.ops[needed:]

    # reading

    def _read(
        self, writer: AvroType, reader: AvroType, at: int, node: layout.Node, path: str
    ) -> None:
        """Read a value of the writer's type into the node with index ``at``."""
        inner = nullable_of(reader)
        if writer.kind == "union":
            self._read_union(writer, reader, at, node, path)
        elif inner is not None:
            if writer.kind == "null":
                self._add("SET_NULL", at, path)
            else:
                self._read(writer, inner, at, node, path)
        elif reader.kind == "union" and len(reader.branches) == 1:
            self._read(writer, reader.branches[0], at, node, path)
        elif reader.kind == "union":
            self._read_into_union(writer, reader, at, node, path)
        elif reader.kind == "record" and writer.kind == "record":
            self._read_record(writer, reader, at, node, path)
        elif reader.kind in ("array", "map") and writer.kind == reader.kind:
            self._read_items(writer, reader, at, node, path)
        else:
            self._read_leaf(writer, reader, at, path)

    def _read_union(
        self, writer: AvroType, reader: AvroType, at: int, node: layout.Node, path: str
    ) -> None:
        inner, wanted = nullable_of(writer), nullable_of(reader)
        if inner is not None and wanted is not None:
            mark = self._mark()
            null_branch = 0 if writer.branches[0].kind == "null" else 1
            op = self._add("NULLABLE", at, path, null_branch)
            try:
                self._read(inner, wanted, at, node, path)
            except SchemaError:
                self._reset(mark)
            else:
                op.end = len(self.ops)
                return
        self._branches(writer, at, path, lambda branch: self._read(branch, reader, at, node, path))

    def _branches(
        self, writer: AvroType, at: int, path: str, read: Callable[[AvroType], None]
    ) -> None:
        """Read a union. Branches that don't resolve fail when a record has them."""
        op = self._add("UNION", at, path, len(self.table), len(writer.branches))
        self.table += [-1] * op.count
        jumps: list[_Op] = []
        problem: SchemaError | None = None
        for index, branch in enumerate(writer.branches):
            mark = self._mark()
            try:
                read(branch)
            except SchemaError as error:
                self._reset(mark)
                problem = problem or error
                continue
            self.table[op.arg + index] = mark[0]
            jumps.append(self._add("JUMP", -1, path))
        if not jumps:
            assert problem is not None
            raise problem
        op.end = len(self.ops)
        for jump in jumps:
            jump.end = op.end

    def _mark(self) -> tuple[int, int, int]:
        return len(self.ops), len(self.table), len(self.constants)

    def _reset(self, mark: tuple[int, int, int]) -> None:
        del self.ops[mark[0] :], self.table[mark[1] :], self.constants[mark[2] :]

    def _read_into_union(
        self, writer: AvroType, reader: AvroType, at: int, node: layout.Node, path: str
    ) -> None:
        """Read into the branch of the same type, else into the first one that resolves."""
        same = [i for i, each in enumerate(reader.branches) if is_same(writer, each)]
        for index in dict.fromkeys([*same, *range(len(reader.branches))]):
            mark = self._mark()
            child = at + 1 + sum(each.size for each in node.children[:index])
            op = self._add("TYPE", at, path, index, child)
            try:
                self._read(writer, reader.branches[index], child, node.children[index], path)
            except SchemaError:
                self._reset(mark)
                continue
            op.end = len(self.ops)
            return
        raise SchemaError(f"no branch of the reader's union reads {writer.label}", path)

    def _read_record(
        self, writer: AvroType, reader: AvroType, at: int, node: layout.Node, path: str
    ) -> None:
        if not names_match(writer, reader):
            raise SchemaError(f"the writer's {writer.name} isn't the reader's {reader.name}", path)
        places: dict[str, tuple[AvroField, int, layout.Node]] = {}
        index = at + 1
        written = {each.name for each in writer.fields}
        missing = []
        for each, child in zip(reader.fields, node.children, strict=True):
            name = next((name for name in (each.name, *each.aliases) if name in written), None)
            if name is None or name in places:
                missing.append((each, index, child))
            else:
                places[name] = each, index, child
            index += child.size
        self._add("RECORD", at, path)
        for each, index, child in missing:
            self._read_default(each, index, child, below(path, each.name))
        for field in writer.fields:
            inner = below(path, field.name)
            if field.name in places:
                each, index, child = places[field.name]
                self._read(field.type, each.type, index, child, inner)
            else:
                self._skip(field.type, inner)

    def _read_default(self, each: AvroField, at: int, node: layout.Node, path: str) -> None:
        if each.default is NO_DEFAULT:
            raise SchemaError("the writer's schema lacks this field, and it has no default", path)
        if each.default is None and nullable_of(each.type) is not None:
            self._add("SET_NULL", at, path)
            return
        encoded = encode_default(each.type, each.default, path)
        op = self._add("DEFAULT", at, path, len(self.constants), len(encoded))
        self.constants += encoded
        self._read(each.type, each.type, at, node, path)
        self._add("RESTORE", -1, path)
        op.end = len(self.ops)

    def _read_items(
        self, writer: AvroType, reader: AvroType, at: int, node: layout.Node, path: str
    ) -> None:
        inner = below(path, "[]")
        start = len(self.ops)
        op = self._add("ARRAY", at, path)
        child, place = node.children[0], at + 1
        if reader.kind == "map":
            self._add("RECORD", place, path)
            self._add("TEXT", place + 1, inner)
            child, place = child.children[1], place + 2
        self._read(writer.below_item, reader.below_item, place, child, inner)
        self._add("NEXT", -1, path, start)
        op.end = len(self.ops)

    def _read_leaf(self, writer: AvroType, reader: AvroType, at: int, path: str) -> None:
        self._check_logical(writer, reader, path)
        pair = writer.kind, reader.kind
        if pair == ("enum", "enum") and names_match(writer, reader):
            self._read_enum(writer, reader, at, path)
        elif pair == ("fixed", "fixed") and names_match(writer, reader):
            if writer.size != reader.size:
                raise SchemaError(
                    f"the writer has {writer.size} bytes, the reader {reader.size}", path
                )
            code = {"decimal": "DECIMAL_FIXED", "duration": "DURATION"}.get(
                reader.logical or "", "FIXED"
            )
            self._add(code, at, path, reader.size, self._limit_of(reader))
        elif pair not in READS:
            raise SchemaError(
                f"the reader's {reader.label} can't read the writer's {writer.label}", path
            )
        elif reader.logical == "decimal" and writer.kind == "bytes":
            self._add("DECIMAL_BYTES", at, path, 0, self._limit_of(reader))
        elif reader.logical == "decimal":
            raise SchemaError("a decimal can't read a string", path)
        else:
            self._add("UUID_TEXT" if reader.logical == "uuid" else READS[pair], at, path)

    def _limit_of(self, reader: AvroType) -> int:
        """Return the place of the constant that a decimal must stay below, or 0 for other types."""
        if reader.logical != "decimal":
            return 0
        place = len(self.constants)
        self.constants += (10**reader.precision).to_bytes(
            32 if reader.precision > 38 else 16, "little"
        )
        return place

    @staticmethod
    def _check_logical(writer: AvroType, reader: AvroType, path: str) -> None:
        """Different units or scales would change the value without notice."""
        if writer.logical is None or reader.logical is None:
            return
        if (writer.logical, writer.precision, writer.scale) != (
            reader.logical,
            reader.precision,
            reader.scale,
        ):
            raise SchemaError(
                f"the writer's {_logical_text(writer)} isn't the reader's {_logical_text(reader)}",
                path,
            )

    def _read_enum(self, writer: AvroType, reader: AvroType, at: int, path: str) -> None:
        index = {symbol: number for number, symbol in enumerate(reader.symbols)}
        default = -1 if reader.default_symbol is None else index[reader.default_symbol]
        self._add("ENUM", at, path, len(self.table), len(writer.symbols))
        self.table += [index.get(symbol, default) for symbol in writer.symbols]

    # skipping

    def _skip(self, writer: AvroType, path: str) -> None:
        kind = writer.kind
        if kind in SKIPPED_BYTES or kind == "fixed":
            size = writer.size if kind == "fixed" else SKIPPED_BYTES[kind]
            if size:
                self._add("SKIP_FIXED", -1, path, size)
        elif kind in ("int", "long", "enum"):
            self._add("SKIP_VARINT", -1, path)
        elif kind in ("bytes", "string"):
            self._add("SKIP_BYTES", -1, path)
        elif kind == "record":
            for each in writer.fields:
                self._skip(each.type, below(path, each.name))
        elif kind == "union":
            self._branches(writer, -1, path, lambda branch: self._skip(branch, path))
        else:
            start = len(self.ops)
            op = self._add("ARRAY", -1, path)
            if kind == "map":
                self._add("SKIP_BYTES", -1, path)
            self._skip(writer.below_item, below(path, "[]"))
            self._add("NEXT", -1, path, start)
            op.end = len(self.ops)


def is_same(writer: AvroType, reader: AvroType) -> bool:
    """Return whether a branch of a reader's union has the writer's type, without promotion."""
    if writer.kind != reader.kind:
        return False
    return not writer.name or writer.name == reader.name or writer.name in reader.aliases


def _logical_text(kind: AvroType) -> str:
    if kind.logical == "decimal":
        return f"decimal({kind.precision}, {kind.scale})"
    return str(kind.logical)


# --- the decoder ---


class AvroDecoder(ColumnDecoder):
    """Decodes Avro records into an Arrow column, in C and without the interpreter lock.

    Parameters
    ----------
    writer : str, dict or list
        The schema of the records: JSON text, or the parsed JSON.
    reader : str, dict or list, optional
        The schema of the result. The writer's schema is resolved against it by Avro's
        specification. Default: the writer's schema.
    fields : sequence of str, optional
        Only these fields of the reader's schema, as in ``["id", "customer.city"]``. Other fields
        are skipped, not built. Fields after the last one aren't even read.
    references : sequence, optional
        Schemas that define named types for ``writer`` and ``reader``, each after those that it
        uses.

    Raises
    ------
    SchemaError
        A schema is malformed or recursive, or the reader's schema can't read the writer's records.

    Notes
    -----
    A union of null and one other type becomes a nullable column. Other unions become dense unions.
    Enums become dictionaries.
    """

    __slots__ = ()

    def __init__(
        self,
        writer: Schema,
        reader: Schema | None = None,
        *,
        fields: Iterable[str] | None = None,
        references: Iterable[Schema] = (),
    ) -> None:
        if isinstance(fields, str):
            raise TypeError("fields must be a sequence of names, not one str")
        references = list(references)
        written = parse_schema(writer, references)
        read = written if reader is None else parse_schema(reader, references)
        if fields is not None:
            read = project(read, fields)
        compiler = Compiler()
        node = compiler.compile(written, read)
        try:
            columns = layout.layout_of(node)
        except ValueError as error:
            raise SchemaError(str(error)) from None
        program = AvroProgram(
            columns,
            [(AVRO_CODES[op.code], op.node, op.end, op.arg, op.count) for op in compiler.ops],
            compiler.table,
            bytes(compiler.constants),
        )
        super().__init__(program, [op.path for op in compiler.ops])
