"""Avro records as Arrow columns: schemas compiled to programs for csrc/codecs/avro_decode.

avro_resolution.py resolves the writer's schema against the reader's, once. The reader's schema
gives the columns, the writer's schema the order of the instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

from kafka_native._native.codec_core import AVRO_CODES, AvroProgram
from kafka_native.codecs import layout
from kafka_native.codecs.avro_resolution import (
    Plan,
    ReadDefault,
    ReadItems,
    ReadLeaf,
    ReadNull,
    ReadRecord,
    ReadUnion,
    ToBranch,
    nullable_of,
    resolve,
)
from kafka_native.codecs.avro_schema import AvroField, AvroType, parse_schema
from kafka_native.codecs.column_decoder import ColumnDecoder, field_names
from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.paths import below, by_first_name

__all__ = ["AvroDecoder"]

Schema = str | Mapping[str, Any] | list[Any]
Enums = Literal["dictionary", "string"]
Unions = Literal["dense", "struct"]
Uuids = Literal["binary", "extension"]
OPTIONS = {"enums": get_args(Enums), "unions": get_args(Unions), "uuids": get_args(Uuids)}

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
# These are read as times, because Arrow has no time outside of the day.
TIME_CODES = {"time-millis": "TIME_MILLIS", "time-micros": "TIME_MICROS"}
SKIPPED_BYTES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
UNIONS_BRANCHES_MAX = 127
DECIMAL_DIGITS_MAX = 76


TYPES_MAX = 65536
"""How many types a schema may have, if each named type is written out where it is used."""
NESTING_MAX = 128
"""How deep these types may be nested. Columns have 64 levels, each perhaps a union with null."""


# --- columns ---


def check_size(schema: AvroType) -> None:
    """Raise SchemaError if a schema has more than TYPES_MAX types, or is nested too deep.

    A few records that each use the one before twice have a billion.
    """
    size, _ = _size_of(schema, {}, 0)
    if size > TYPES_MAX:
        raise SchemaError(f"the schema has more than {TYPES_MAX} types")


def _size_of(kind: AvroType, known: dict[AvroType, tuple[int, int]], above: int) -> tuple[int, int]:
    """Return the number of types and of levels of a type, which has so many levels above it."""
    if above < NESTING_MAX and kind not in known:
        inner = (*kind.branches, *(each.type for each in kind.fields))
        inner += () if kind.item is None else (kind.item,)
        sizes = [_size_of(each, known, above + 1) for each in inner]
        levels = max((each[1] for each in sizes), default=0)
        known[kind] = 1 + sum(each[0] for each in sizes), 1 + levels
    size, levels = known.get(kind, (1, 1))
    if above + levels > NESTING_MAX:
        raise SchemaError(f"types are nested too deep: they have more than {NESTING_MAX} levels")
    return size, levels


@dataclass(frozen=True)
class ColumnTypes:
    """The columns of a reader's types. The attributes are the options of `AvroDecoder`."""

    enums: Enums = "dictionary"
    unions: Unions = "dense"
    uuids: Uuids = "binary"

    def __post_init__(self) -> None:
        for name, values in OPTIONS.items():
            if getattr(self, name) not in values:
                wanted = " or ".join(f'"{each}"' for each in values)
                raise ValueError(f"{name} must be {wanted}, not {getattr(self, name)!r}")

    def node_of(self, kind: AvroType, name: str, path: str, nullable: bool = False) -> layout.Node:
        """Return the column of a type."""
        inner = nullable_of(kind)
        if inner is not None:
            return self.node_of(inner, name, path, True)
        if kind.kind == "union" and len(kind.branches) == 1:
            return self.node_of(kind.branches[0], name, path)
        if kind.kind == "union":
            return self._union_of(kind, name, path)
        if kind.kind == "record":
            children = tuple(
                self.node_of(each.type, each.name, below(path, each.name)) for each in kind.fields
            )
            return layout.struct(name, nullable, children)
        if kind.kind in ("array", "map"):
            make, item = (
                (layout.list_of, "item") if kind.kind == "array" else (layout.map_of, "value")
            )
            return make(name, nullable, self.node_of(kind.below_item, item, below(path, "[]")))
        return self._leaf_of(kind, name, path, nullable)

    def _union_of(self, kind: AvroType, name: str, path: str) -> layout.Node:
        if self.unions == "struct":
            others = [each for each in kind.branches if each.kind != "null"]
            children = tuple(self.node_of(each, each.label, path, True) for each in others)
            return layout.struct(name, len(others) < len(kind.branches), children)
        if len(kind.branches) > UNIONS_BRANCHES_MAX:
            raise SchemaError(f"a union has more than {UNIONS_BRANCHES_MAX} branches", path)
        return layout.dense_union(
            name, tuple(self.node_of(each, each.label, path) for each in kind.branches)
        )

    def _leaf_of(self, kind: AvroType, name: str, path: str, nullable: bool) -> layout.Node:
        if kind.logical == "decimal":
            return _decimal_of(kind, name, path, nullable)
        if kind.logical == "uuid":
            extension = "arrow.uuid" if self.uuids == "extension" else ""
            return layout.fixed(name, nullable, "w:16", 16, extension)
        if kind.logical == "duration":
            return layout.fixed(name, nullable, "tin", 16)
        if kind.kind in FIXED_TYPES:
            format, width = FIXED_TYPES[kind.kind]
            format = LOGICAL_FORMATS.get(kind.logical or "", format)
            return layout.fixed(name, nullable, format, width)
        if kind.kind == "fixed":
            return layout.fixed(name, nullable, f"w:{kind.size}", kind.size)
        if kind.kind == "enum" and self.enums == "dictionary":
            return layout.dictionary(name, nullable, kind.symbols)
        if kind.kind == "null":
            return layout.nulls(name)
        if kind.kind == "boolean":
            return layout.bits(name, nullable)
        return layout.varying(name, nullable, is_text=kind.kind != "bytes")


def _decimal_of(kind: AvroType, name: str, path: str, nullable: bool) -> layout.Node:
    if kind.precision > DECIMAL_DIGITS_MAX:
        raise SchemaError(
            f"a decimal of {kind.precision} digits is too long: Arrow has {DECIMAL_DIGITS_MAX}",
            path,
        )
    is_wide = kind.precision > 38
    format = f"d:{kind.precision},{kind.scale}" + (",256" if is_wide else "")
    return layout.fixed(name, nullable, format, 32 if is_wide else 16)


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


class Compiler:
    """Compiles a writer's and a reader's type to instructions."""

    def __init__(self, types: ColumnTypes | None = None) -> None:
        self._types = types or ColumnTypes()
        self.ops: list[_Op] = []
        self.table: list[int] = []
        self.constants = bytearray()

    def compile(self, writer: AvroType, reader: AvroType) -> layout.Node:
        """Compile a whole program. Return the column."""
        check_size(writer)
        check_size(reader)
        is_union = reader.kind == "union" and len(reader.branches) > 1
        if is_union and nullable_of(reader) is None and self._types.unions == "dense":
            # Arrow's unions have no validity. A missing record is a null of the first child.
            others = (each for each in reader.branches if each.kind != "null")
            reader = AvroType("union", branches=(AvroType("null"), *others))
        node = self._types.node_of(reader, "", "")
        self._read(resolve(writer, reader).plan, 0, node, "")
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

    def _read(self, plan: Plan, at: int, node: layout.Node, path: str) -> None:
        """Read a value into the node with index ``at``."""
        if isinstance(plan, ReadLeaf):
            self._read_leaf(plan, at, path)
        elif isinstance(plan, ReadNull):
            self._add("SET_NULL", at, path)
        elif isinstance(plan, ReadRecord):
            self._read_record(plan, at, node, path)
        elif isinstance(plan, ReadItems):
            self._read_items(plan, at, node, path)
        elif isinstance(plan, ReadDefault):
            op = self._add("DEFAULT", at, path, len(self.constants), len(plan.encoded))
            self.constants += plan.encoded
            self._read(plan.plan, at, node, path)
            self._add("RESTORE", -1, path)
            op.end = len(self.ops)
        elif isinstance(plan, ToBranch):
            self._read_branch(plan, at, node, path)
        elif isinstance(plan, ReadUnion) and plan.is_nullable:
            null_branch = 0 if isinstance(plan.branches[0], ReadNull) else 1
            other = plan.branches[1 - null_branch]
            assert other is not None
            op = self._add("NULLABLE", at, path, null_branch)
            self._read(other, at, node, path)
            op.end = len(self.ops)
        elif isinstance(plan, ReadUnion):
            reads = [
                None if each is None else partial(self._read, each, at, node, path)
                for each in plan.branches
            ]
            self._branches(reads, at, path)
        else:
            self._skip(plan.writer, path)

    def _read_branch(self, plan: ToBranch, at: int, node: layout.Node, path: str) -> None:
        """Read into a branch of a dense union, or into a field of the struct in its place."""
        if node.kind == "union":
            child = at + 1 + sum(each.size for each in node.children[: plan.index])
            op = self._add("TYPE", at, path, plan.index, child)
            self._read(plan.plan, child, node.children[plan.index], path)
            op.end = len(self.ops)
            return
        if plan.reader.kind == "null":
            self._add("SET_NULL", at, path)
            return
        self._add("RECORD", at, path)
        index = at + 1
        for each in node.children:
            if each.name == plan.reader.label:
                self._read(plan.plan, index, each, path)
            else:
                self._add("SET_NULL", index, path)
            index += each.size

    def _branches(self, reads: Sequence[Callable[[], None] | None], at: int, path: str) -> None:
        """Read a union. Branches that don't resolve fail when a record has them."""
        op = self._add("UNION", at, path, len(self.table), len(reads))
        self.table += [-1] * op.count
        jumps = []
        for index, read in enumerate(reads):
            if read is not None:
                self.table[op.arg + index] = len(self.ops)
                read()
                jumps.append(self._add("JUMP", -1, path))
        op.end = len(self.ops)
        for jump in jumps:
            jump.end = op.end

    def _read_record(self, plan: ReadRecord, at: int, node: layout.Node, path: str) -> None:
        places = {}
        index = at + 1
        for each, child in zip(plan.reader.fields, node.children, strict=True):
            places[each.name] = index, child
            index += child.size
        self._add("RECORD", at, path)
        for step in plan.steps:
            index, child = (-1, node) if step.reader is None else places[step.reader.name]
            self._read(step.plan, index, child, below(path, step.name))

    def _read_items(self, plan: ReadItems, at: int, node: layout.Node, path: str) -> None:
        inner = below(path, "[]")
        start = len(self.ops)
        op = self._add("ARRAY", at, path)
        child, place = node.children[0], at + 1
        if plan.reader.kind == "map":
            self._add("RECORD", place, path)
            self._add("TEXT", place + 1, inner)
            child, place = child.children[1], place + 2
        self._read(plan.item, place, child, inner)
        self._add("NEXT", -1, path, start)
        op.end = len(self.ops)

    def _read_leaf(self, plan: ReadLeaf, at: int, path: str) -> None:
        reader = plan.reader
        if plan.code == "ENUM" and self._types.enums == "string":
            self._read_symbols(plan, at, path)
        elif plan.code == "ENUM":
            self._add("ENUM", at, path, len(self.table), len(plan.symbols))
            self.table += plan.symbols
        else:
            code = TIME_CODES.get(reader.logical or "", plan.code)
            self._add(code, at, path, reader.size, self._limit_of(reader))

    def _read_symbols(self, plan: ReadLeaf, at: int, path: str) -> None:
        """Read the symbols of an enum as strings: the table has the place and size of each."""
        self._add("ENUM_TEXT", at, path, len(self.table), len(plan.symbols))
        places = []
        for symbol in plan.reader.symbols:
            text = symbol.encode()
            places.append((len(self.constants), len(text)))
            self.constants += text
        for number in plan.symbols:
            self.table += places[number] if number >= 0 else (-1, 0)

    def _limit_of(self, reader: AvroType) -> int:
        """Return the place of the constant that a decimal must stay below, or 0 for other types."""
        if reader.logical != "decimal":
            return 0
        place = len(self.constants)
        self.constants += (10**reader.precision).to_bytes(
            32 if reader.precision > 38 else 16, "little"
        )
        return place

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
            self._branches([partial(self._skip, each, path) for each in writer.branches], -1, path)
        else:
            start = len(self.ops)
            op = self._add("ARRAY", -1, path)
            if kind == "map":
                self._add("SKIP_BYTES", -1, path)
            self._skip(writer.below_item, below(path, "[]"))
            self._add("NEXT", -1, path, start)
            op.end = len(self.ops)


# --- the decoder ---


class AvroDecoder(ColumnDecoder):
    """Decodes Avro records into an Arrow column, in C and without the interpreter lock.

    Parameters
    ----------
    writer : str, dict or list
        The writer's schema, which the records have: JSON text, or the parsed JSON.
    reader : str, dict or list, optional
        The reader's schema, which has the fields of the result. The writer's schema is resolved
        against it by Avro's rules. Default: the writer's schema.
    fields : sequence of str, optional
        Only these fields of the reader's schema, as in ``["id", "customer.city"]``. Other fields
        are skipped. Fields after the last one aren't read at all.
    references : sequence, optional
        Schemas that define named types for ``writer`` and ``reader``, each after those that it
        uses.
    reader_references : sequence, optional
        The same for ``reader`` alone. Default: ``references``.
    enums : {"dictionary", "string"}
        Enums become dictionaries of strings, or plain strings.
    unions : {"dense", "struct"}
        Unions of several types become dense unions, or structs with a nullable field for each type.
        Polars and Spark have no dense unions. A union of null and one other type is always a
        nullable column.
    uuids : {"binary", "extension"}
        Values of the logical type uuid become ``fixed_size_binary[16]``, or Arrow's extension type
        ``arrow.uuid``, which pyarrow shows as `uuid.UUID`.

    Raises
    ------
    SchemaError
        A schema is malformed or recursive, or the reader's schema can't read the writer's records.
    ValueError
        An option has another value.
    """

    __slots__ = ()

    def __init__(
        self,
        writer: Schema,
        reader: Schema | None = None,
        *,
        fields: Iterable[str] | None = None,
        references: Iterable[Schema] = (),
        reader_references: Iterable[Schema] | None = None,
        enums: Enums = "dictionary",
        unions: Unions = "dense",
        uuids: Uuids = "binary",
    ) -> None:
        fields = field_names(fields)
        references = list(references)
        written = parse_schema(writer, references)
        if reader_references is None:
            reader_references = references
        read = written if reader is None else parse_schema(reader, reader_references)
        if fields is not None:
            read = project(read, fields)
        compiler = Compiler(ColumnTypes(enums, unions, uuids))
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
