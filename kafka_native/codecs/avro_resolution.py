"""Avro's schema resolution: how a reader's type reads the values that a writer's type has written.

`resolve()` returns a plan. Columns and Python objects are two ways to carry out the same plan.
"""

from __future__ import annotations

import itertools
import struct as packing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kafka_native._native.primitives import varint_encode
from kafka_native.cleaning import is_utf8
from kafka_native.codecs.avro_schema import NO_DEFAULT, AvroField, AvroType
from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.paths import below

__all__ = [
    "Plan",
    "ReadDefault",
    "ReadItems",
    "ReadLeaf",
    "ReadNull",
    "ReadRecord",
    "ReadUnion",
    "Resolution",
    "Skip",
    "Step",
    "ToBranch",
    "encode_default",
    "nullable_of",
    "resolve",
]

# The reading of a leaf, for a writer's and a reader's type.
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


# --- plans ---


@dataclass(eq=False)
class ReadLeaf:
    """Read a value without parts.

    ``code`` is an instruction of csrc/codecs/avro_program.h. ``symbols`` has the index of the
    reader's symbol for each one of the writer's enum, or -1.
    """

    code: str
    reader: AvroType
    symbols: tuple[int, ...] = ()


@dataclass(eq=False)
class ReadNull:
    """Read a null, which has no bytes, into a nullable type."""


@dataclass(eq=False)
class ReadRecord:
    """Read a record, by the steps in their order. A plan may contain itself."""

    reader: AvroType
    steps: list[Step] = field(default_factory=list)


@dataclass(eq=False)
class Step:
    """A field of a record. ``name`` is that of the writer, or of the reader if it is a default."""

    name: str
    plan: Plan
    reader: AvroField | None
    """None: the value is skipped."""
    written: AvroType | None
    """None: the value is a default."""


@dataclass(eq=False)
class ReadDefault:
    """Read the default value of a field from constant bytes."""

    encoded: bytes
    plan: Plan


@dataclass(eq=False)
class ReadItems:
    """Read an array, or a map if the reader's type is one."""

    reader: AvroType
    item: Plan


@dataclass(eq=False)
class ReadUnion:
    """Read one of the writer's branches. None: the branch doesn't resolve, a record has an error.

    ``is_nullable``: both types are a union of null and one other type, and that one resolves.
    """

    branches: list[Plan | None]
    is_nullable: bool


@dataclass(eq=False)
class ToBranch:
    """Read a value into a branch of the reader's union."""

    index: int
    reader: AvroType
    plan: Plan


@dataclass(eq=False)
class Skip:
    """Pass over a value."""

    writer: AvroType


Plan: TypeAlias = (
    ReadLeaf | ReadNull | ReadRecord | ReadDefault | ReadItems | ReadUnion | ToBranch | Skip
)


@dataclass(frozen=True)
class Resolution:
    """The plan for a pair of schemas.

    ``is_disputed``: fastavro reads a part as another Python type. It takes the first matching
    branch of a reader's union, the writer's logical types, and defaults as they are in JSON.
    """

    plan: Plan
    is_disputed: bool


def resolve(writer: AvroType, reader: AvroType) -> Resolution:
    """Return how the reader's type reads the writer's.

    :raises SchemaError: It can't.
    """
    resolver = _Resolver()
    try:
        plan = resolver.read(writer, reader, "")
    except RecursionError:
        raise SchemaError("a default value contains itself, or types are nested too deep") from None
    return Resolution(plan, resolver.is_disputed)


def nullable_of(kind: AvroType) -> AvroType | None:
    """Return the other type of a union with null, or None if it isn't one of these two types."""
    if kind.kind != "union" or len(kind.branches) != 2:
        return None
    first, second = kind.branches
    if first.kind == "null":
        return second
    return first if second.kind == "null" else None


# --- default values ---


def encode_default(
    kind: AvroType, value: Any, path: str, failed: set[tuple[AvroType, int]] | None = None
) -> bytes:
    """Return the Avro encoding of a default value, which is JSON.

    :param failed: The branches of unions that parts of the value (by ``id()``) don't fit.
    :raises SchemaError: The value isn't one of this type.
    """
    failed = set() if failed is None else failed
    if kind.kind == "union":
        for index, branch in enumerate(kind.branches):
            if (branch, id(value)) in failed:
                continue
            try:
                return varint_encode(index) + encode_default(branch, value, path, failed)
            except SchemaError:
                failed.add((branch, id(value)))
    elif kind.kind == "record" and isinstance(value, Mapping):
        return b"".join(_encode_field(each, value, path, failed) for each in kind.fields)
    elif kind.kind == "array" and isinstance(value, list):
        inner = below(path, "[]")
        items = [encode_default(kind.below_item, each, inner, failed) for each in value]
        return (varint_encode(len(items)) + b"".join(items) if items else b"") + b"\0"
    elif kind.kind == "map" and isinstance(value, Mapping) and all(map(is_utf8, value)):
        entries = [
            varint_encode(len(key.encode()))
            + key.encode()
            + encode_default(kind.below_item, each, below(path, "[]"), failed)
            for key, each in value.items()
        ]
        return (varint_encode(len(entries)) + b"".join(entries) if entries else b"") + b"\0"
    else:
        encoded = _encode_leaf(kind, value)
        if encoded is not None:
            return encoded
    raise SchemaError(f"the default {value!r:.100} isn't a {kind.label}", path)


def _encode_field(
    each: AvroField, value: Mapping[str, Any], path: str, failed: set[tuple[AvroType, int]]
) -> bytes:
    chosen = value.get(each.name, each.default)
    if chosen is NO_DEFAULT:
        raise SchemaError("the default of a record lacks this field", below(path, each.name))
    return encode_default(each.type, chosen, below(path, each.name), failed)


def _encode_leaf(kind: AvroType, value: Any) -> bytes | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind.kind == "null":
        return b"" if value is None else None
    if kind.kind == "boolean":
        return bytes([value]) if isinstance(value, bool) else None
    if kind.kind in ("int", "long"):
        width = 31 if kind.kind == "int" else 63
        is_good = type(value) is int and -(1 << width) <= value < 1 << width
        return varint_encode(value) if is_good else None
    if kind.kind in ("float", "double"):
        return _encode_real(kind.kind, value) if is_number else None
    if not isinstance(value, str):
        return None
    if kind.kind == "enum":
        return varint_encode(kind.symbols.index(value)) if value in kind.symbols else None
    if kind.kind == "string":
        return varint_encode(len(value.encode())) + value.encode() if is_utf8(value) else None
    if kind.kind not in ("bytes", "fixed") or any(ord(each) > 255 for each in value):
        return None
    data = value.encode("latin-1")
    if kind.kind == "bytes":
        return varint_encode(len(data)) + data
    return data if len(data) == kind.size else None


def _encode_real(kind: str, value: float) -> bytes | None:
    try:
        return packing.pack("<f" if kind == "float" else "<d", value)
    except (OverflowError, packing.error):
        return None  # it is beyond the range


# --- resolution ---


class _Resolver:
    def __init__(self) -> None:
        self.is_disputed = False
        self._records: dict[tuple[AvroType, AvroType], ReadRecord] = {}
        self._failed: dict[tuple[AvroType, AvroType], SchemaError] = {}

    def read(self, writer: AvroType, reader: AvroType, path: str) -> Plan:
        """Return the plan for a value."""
        inner = nullable_of(reader)
        if writer.kind == "union":
            return self._union(writer, reader, path)
        if inner is not None:
            return ReadNull() if writer.kind == "null" else self.read(writer, inner, path)
        if reader.kind == "union" and len(reader.branches) == 1:
            return self.read(writer, reader.branches[0], path)
        if reader.kind == "union":
            return self._into_union(writer, reader, path)
        if reader.kind == "record" and writer.kind == "record":
            return self._record(writer, reader, path)
        if reader.kind in ("array", "map") and writer.kind == reader.kind:
            inner_path = below(path, "[]")
            return ReadItems(reader, self.read(writer.below_item, reader.below_item, inner_path))
        return self._leaf(writer, reader, path)

    def _union(self, writer: AvroType, reader: AvroType, path: str) -> ReadUnion:
        branches: list[Plan | None] = []
        problem: SchemaError | None = None
        for branch in writer.branches:
            try:
                branches.append(self.read(branch, reader, path))
            except SchemaError as error:
                branches.append(None)
                problem = problem or error
        if problem is not None and not any(branches):
            raise problem
        both = nullable_of(writer) is not None and nullable_of(reader) is not None
        return ReadUnion(branches, both and None not in branches)

    def _into_union(self, writer: AvroType, reader: AvroType, path: str) -> ToBranch:
        """Read into the branch of the same type, else into the first one that resolves."""
        same = [i for i, each in enumerate(reader.branches) if is_same(writer, each)]
        for index in dict.fromkeys([*same, *range(len(reader.branches))]):
            branch = reader.branches[index]
            try:
                plan = self.read(writer, branch, path)
            except SchemaError:
                continue
            before = reader.branches[:index]
            if any((writer.kind, each.kind) in READS or is_same(writer, each) for each in before):
                self.is_disputed = True
            return ToBranch(index, branch, plan)
        raise SchemaError(f"no branch of the reader's union reads {writer.label}", path)

    def _record(self, writer: AvroType, reader: AvroType, path: str) -> ReadRecord:
        if not names_match(writer, reader):
            raise SchemaError(f"the writer's {writer.name} isn't the reader's {reader.name}", path)
        pair = writer, reader
        if pair in self._failed:
            raise SchemaError(self._failed[pair].problem, self._failed[pair].path)
        if pair in self._records:
            return self._records[pair]
        plan = self._records[pair] = ReadRecord(reader)
        try:
            self._add_steps(plan, writer, reader, path)
        except SchemaError as error:
            self._failed[pair] = error
            # The plans that were begun after this one may contain it.
            for each in [*itertools.dropwhile(lambda it: it != pair, self._records)]:
                del self._records[each]
            raise
        return plan

    def _add_steps(self, plan: ReadRecord, writer: AvroType, reader: AvroType, path: str) -> None:
        places: dict[str, AvroField] = {}
        written = {each.name for each in writer.fields}
        missing = []
        for each in reader.fields:
            name = next((name for name in (each.name, *each.aliases) if name in written), None)
            if name is None or name in places:
                missing.append(each)
            else:
                places[name] = each
        for each in missing:
            default = self._default(each, below(path, each.name))
            plan.steps.append(Step(each.name, default, each, None))
        for field_ in writer.fields:
            place = places.get(field_.name)
            read: Plan = Skip(field_.type)
            if place is not None:
                read = self.read(field_.type, place.type, below(path, field_.name))
            plan.steps.append(Step(field_.name, read, place, field_.type))

    def _default(self, each: AvroField, path: str) -> Plan:
        if each.default is NO_DEFAULT:
            raise SchemaError("the writer's schema lacks this field, and it has no default", path)
        if each.default is None and nullable_of(each.type) is not None:
            return ReadNull()
        encoded = encode_default(each.type, each.default, path)
        self.is_disputed = self.is_disputed or not is_json(each.type, set())
        return ReadDefault(encoded, self.read(each.type, each.type, path))

    def _leaf(self, writer: AvroType, reader: AvroType, path: str) -> ReadLeaf:
        self._check_logical(writer, reader, path)
        pair = writer.kind, reader.kind
        if pair == ("enum", "enum") and names_match(writer, reader):
            index = {symbol: number for number, symbol in enumerate(reader.symbols)}
            default = -1 if reader.default_symbol is None else index[reader.default_symbol]
            symbols = tuple(index.get(symbol, default) for symbol in writer.symbols)
            return ReadLeaf("ENUM", reader, symbols)
        if pair == ("fixed", "fixed") and names_match(writer, reader):
            if writer.size != reader.size:
                raise SchemaError(
                    f"the writer has {writer.size} bytes, the reader {reader.size}", path
                )
            codes = {"decimal": "DECIMAL_FIXED", "duration": "DURATION"}
            return ReadLeaf(codes.get(reader.logical or "", "FIXED"), reader)
        if pair not in READS:
            raise SchemaError(
                f"the reader's {reader.label} can't read the writer's {writer.label}", path
            )
        if reader.logical == "decimal" and writer.kind == "bytes":
            return ReadLeaf("DECIMAL_BYTES", reader)
        if reader.logical == "decimal":
            raise SchemaError("a decimal can't read a string", path)
        return ReadLeaf("UUID_TEXT" if reader.logical == "uuid" else READS[pair], reader)

    def _check_logical(self, writer: AvroType, reader: AvroType, path: str) -> None:
        """Different units or scales would change the value without notice."""
        if writer.logical is None or reader.logical is None:
            self.is_disputed = self.is_disputed or writer.logical != reader.logical
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


def short_name(name: str) -> str:
    """Return a name without its namespace."""
    return name.rpartition(".")[2]


def names_match(writer: AvroType, reader: AvroType) -> bool:
    """Return whether a reader's named type may read the writer's."""
    return short_name(writer.name) == short_name(reader.name) or writer.name in reader.aliases


def is_same(writer: AvroType, reader: AvroType) -> bool:
    """Return whether a branch of a reader's union has the writer's type, without promotion."""
    if writer.kind != reader.kind:
        return False
    return not writer.name or writer.name == reader.name or writer.name in reader.aliases


def is_json(kind: AvroType, around: set[AvroType]) -> bool:
    """Return whether the Python values of a type are those of its defaults in JSON."""
    if kind in around:
        return True
    around.add(kind)
    inner = (*kind.branches, *(each.type for each in kind.fields))
    inner += () if kind.item is None else (kind.item,)
    is_other = kind.logical is not None or kind.kind in ("bytes", "fixed", "float", "double")
    return not is_other and all(is_json(each, around) for each in inner)


def _logical_text(kind: AvroType) -> str:
    if kind.logical == "decimal":
        return f"decimal({kind.precision}, {kind.scale})"
    return str(kind.logical)
