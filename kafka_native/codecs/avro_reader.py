"""Avro records as Python objects: plans compiled to programs for _native/avro_objects."""

from __future__ import annotations

import datetime
import decimal
import enum
import itertools
import uuid
from collections.abc import Iterable
from typing import Any, Generic, TypeVar, overload

from kafka_native._native.avro_objects import OBJECT_CODES, Malformed, Missing, ObjectProgram
from kafka_native.codecs.avro_decoder import Schema
from kafka_native.codecs.avro_resolution import (
    Plan,
    ReadDefault,
    ReadItems,
    ReadLeaf,
    ReadNull,
    ReadRecord,
    ReadUnion,
    Skip,
    Step,
    ToBranch,
    resolve,
    short_name,
)
from kafka_native.codecs.avro_schema import AvroType, parse_schema
from kafka_native.codecs.errors import DecodeError, SchemaError
from kafka_native.codecs.paths import below
from kafka_native.codecs.record_types import (
    RecordType,
    alternatives,
    check_allowed,
    collection_of,
    is_any,
    item_of,
    record_type_for,
    symbols_of,
)

__all__ = ["AvroReader"]

T = TypeVar("T")

# Promotions that make no difference between Python objects.
SAME_OBJECTS = {
    "INT_AS_LONG": "INT",
    "INT_AS_DOUBLE": "INT_AS_FLOAT",
    "LONG_AS_DOUBLE": "LONG_AS_FLOAT",
    "FLOAT_AS_DOUBLE": "FLOAT",
    "NONE": "CONSTANT",
    "DURATION": "FIXED",
}
# The readings of logical types, for a number that the reader has. Others stay numbers.
LOGICAL_CODES = {
    "date": "DATE",
    "time-millis": "TIME_MILLIS",
    "time-micros": "TIME_MICROS",
    "timestamp-millis": "TIMESTAMP_MILLIS",
    "timestamp-micros": "TIMESTAMP_MICROS",
    "local-timestamp-millis": "LOCAL_TIMESTAMP_MILLIS",
    "local-timestamp-micros": "LOCAL_TIMESTAMP_MICROS",
}
PYTHON_TYPES: dict[str, type] = {
    "CONSTANT": type(None),
    "BOOLEAN": bool,
    "INT": int,
    "LONG": int,
    "INT_AS_FLOAT": float,
    "LONG_AS_FLOAT": float,
    "FLOAT": float,
    "DOUBLE": float,
    "BYTES": bytes,
    "FIXED": bytes,
    "TEXT": str,
    "DATE": datetime.date,
    "TIME_MILLIS": datetime.time,
    "TIME_MICROS": datetime.time,
    "DECIMAL_BYTES": decimal.Decimal,
    "DECIMAL_FIXED": decimal.Decimal,
    "UUID_TEXT": uuid.UUID,
}
SKIPPED_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
DECIMAL_DIGITS_MAX = 1000


class _Node:
    """A node of the program. Its fields are explained in avro_objects.pyx."""

    __slots__ = ("code", "free_values", "min_bytes", "names", "object", "parts", "size")

    def __init__(self, code: str, size: int = 0, target: Any = None) -> None:
        self.code = code
        self.size = size
        self.free_values = 0
        self.parts: list[tuple[int, str, str | None, int]] = []
        self.object = target
        self.names: tuple[str, ...] | None = None
        self.min_bytes: int | None = None


class _Compiler:
    """Compiles a plan to nodes. An annotation says which objects a value becomes."""

    def __init__(self) -> None:
        self.nodes: list[_Node] = []
        self._records: dict[Any, int] = {}

    def compile(self, plan: Plan, annotation: Any) -> ObjectProgram:
        """Return the program of a whole plan."""
        self._read(plan, annotation, "")
        for node in self.nodes:
            if node.code in ("DICT", "INSTANCE", "SKIP_RECORD"):
                node.free_values = sum(self._free_values(part[0]) for part in node.parts)
            elif node.code in ("ARRAY", "SKIP_ARRAY"):
                node.size = self._min_bytes(node.parts[0][0])
            elif node.code in ("MAP", "SKIP_MAP"):
                node.size = 1 + self._min_bytes(node.parts[0][0])
        return ObjectProgram(
            (
                OBJECT_CODES[each.code],
                each.size,
                each.free_values,
                each.parts,
                each.object,
                each.names,
            )
            for each in self.nodes
        )

    def _add(self, code: str, size: int = 0, target: Any = None) -> int:
        self.nodes.append(_Node(code, size, target))
        return len(self.nodes) - 1

    def _add_parts(self, index: int, parts: Iterable[int]) -> int:
        self.nodes[index].parts = [(part, "", None, 0) for part in parts]
        return index

    # the sizes on the wire

    def _free_values(self, index: int) -> int:
        """Return how many values of a part may have no bytes."""
        node = self.nodes[index]
        if node.code == "DEFAULT":
            return 1 + len(node.object)
        return 1 if self._min_bytes(index) == 0 else 0

    def _min_bytes(self, index: int) -> int:
        """Return the smallest size of a value, at least of one that isn't endless."""
        node = self.nodes[index]
        if node.min_bytes is None:
            node.min_bytes = 0
            node.min_bytes = self._computed_min_bytes(node)
        return node.min_bytes

    def _computed_min_bytes(self, node: _Node) -> int:
        if node.code in ("CONSTANT", "DEFAULT"):
            return 0
        if node.code in ("FIXED", "DECIMAL_FIXED", "SKIP_FIXED"):
            return node.size
        if node.code in ("FLOAT", "DOUBLE"):
            return 4 if node.code == "FLOAT" else 8
        if node.code in ("DICT", "INSTANCE", "SKIP_RECORD", "CONVERT"):
            return min(sum(self._min_bytes(part[0]) for part in node.parts), 1 << 20)
        return 1

    # reading

    def _read(self, plan: Plan, annotation: Any, path: str) -> int:
        if isinstance(plan, ReadLeaf):
            return self._leaf(plan, annotation, path)
        if isinstance(plan, ReadNull):
            check_allowed(type(None), annotation, path)
            return self._add("CONSTANT")
        if isinstance(plan, ReadRecord):
            return self._record(plan, annotation, path)
        if isinstance(plan, ReadItems):
            return self._items(plan, annotation, path)
        if isinstance(plan, ReadDefault):
            return self._default(plan, annotation, path)
        if isinstance(plan, ReadUnion):
            index = self._add("UNION")
            branches = [
                -1 if each is None else self._read(each, annotation, path) for each in plan.branches
            ]
            return self._add_parts(index, branches)
        if isinstance(plan, ToBranch):
            return self._read(plan.plan, annotation, path)
        return self._skip(plan.writer)

    def _default(self, plan: ReadDefault, annotation: Any, path: str) -> int:
        if not _is_leaf(plan.plan):
            index = self._add("DEFAULT", 0, plan.encoded)
            return self._add_parts(index, [self._read(plan.plan, annotation, path)])
        program = _Compiler().compile(plan.plan, annotation)
        try:
            return self._add("CONSTANT", 0, program.read(plan.encoded))
        except Malformed as error:
            raise SchemaError(f"the default is wrong: {error.args[0]}", path) from None

    def _leaf(self, plan: ReadLeaf, annotation: Any, path: str) -> int:
        reader = plan.reader
        if plan.code == "ENUM":
            return self._add("ENUM", 0, _symbols(plan, annotation, path))
        code = SAME_OBJECTS.get(plan.code, plan.code)
        if code in ("INT", "LONG") and reader.logical in LOGICAL_CODES:
            code = LOGICAL_CODES[reader.logical]
        check_allowed(PYTHON_TYPES.get(code, datetime.datetime), annotation, path)
        target = None
        if reader.logical == "decimal":
            if reader.precision > DECIMAL_DIGITS_MAX:
                raise SchemaError(f"a decimal of {reader.precision} digits is too long", path)
            context = decimal.Context(prec=reader.precision)
            target = 10**reader.precision, context, -reader.scale, decimal.Decimal
        return self._add(code, reader.size, target)

    def _items(self, plan: ReadItems, annotation: Any, path: str) -> int:
        inner, is_map = below(path, "[]"), plan.reader.kind == "map"
        chosen, made = collection_of(dict if is_map else list, annotation, path)
        top = self._add("CONVERT", 0, made) if made not in (dict, list) else -1
        index = self._add("MAP" if is_map else "ARRAY")
        if is_map:
            check_allowed(str, item_of(chosen, 0), inner)
        item = self._read(plan.item, item_of(chosen, 1 if is_map else 0), inner)
        self._add_parts(index, [item])
        return index if top < 0 else self._add_parts(top, [index])

    def _record(self, plan: ReadRecord, annotation: Any, path: str) -> int:
        chosen = record_type_for(short_name(plan.reader.name), annotation, path)
        key = plan, None if chosen is None else chosen.cls
        if key in self._records:
            return self._records[key]
        index = self._records[key] = self._add("DICT", 0)
        wanted = chosen.arguments if chosen is not None else None
        parts: list[tuple[int, str, str | None, int]] = []
        names: dict[str, None] = {}
        for step in _in_order(plan.steps):
            inner = below(path, step.name)
            argument = None if step.reader is None else step.reader.name
            if argument is not None and wanted is not None:
                argument = wanted.get(argument)
            if argument is not None and step.reader is not None:
                of = Any if chosen is None else chosen.annotations.get(step.reader.name, Any)
                parts.append((self._read(step.plan, of, inner), step.name, argument, 0))
                names[argument] = None
            elif step.written is not None:
                parts.append((self._skip(step.written), step.name, None, 0))
        node = self.nodes[index]
        node.parts = parts
        if chosen is not None:
            chosen.check_complete(names, short_name(plan.reader.name), path)
        if chosen is None or chosen.is_dict:
            node.object = names
        else:
            _make_instance(node, chosen, list(names))
        return index

    # skipping

    def _skip(self, writer: AvroType) -> int:
        kind = writer.kind
        if kind in SKIPPED_SIZES or kind == "fixed":
            size = writer.size if kind == "fixed" else SKIPPED_SIZES[kind]
            return self._add("SKIP_FIXED", size)
        if kind in ("int", "long", "enum"):
            return self._add("SKIP_VARINT")
        if kind in ("bytes", "string"):
            return self._add("SKIP_BYTES")
        if kind == "union":
            index = self._add("SKIP_UNION")
            return self._add_parts(index, [self._skip(each) for each in writer.branches])
        if kind in ("array", "map"):
            index = self._add("SKIP_ARRAY" if kind == "array" else "SKIP_MAP")
            return self._add_parts(index, [self._skip(writer.below_item)])
        key = Skip, writer
        if key not in self._records:
            index = self._records[key] = self._add("SKIP_RECORD")
            self.nodes[index].parts = [
                (self._skip(each.type), each.name, None, 0) for each in writer.fields
            ]
        return self._records[key]


def _make_instance(node: _Node, chosen: RecordType, names: list[str]) -> None:
    """Let a node of a dict make objects of a class. Positional arguments are faster."""
    positional = list(itertools.takewhile(names.__contains__, chosen.positional))
    keywords = [each for each in names if each not in positional]
    places = {name: place for place, name in enumerate([*positional, *keywords])}
    node.code, node.object = "INSTANCE", chosen.cls
    node.size, node.names = len(positional), tuple(keywords)
    node.parts = [
        (part, label, key, 0 if key is None else places[key]) for part, label, key, _ in node.parts
    ]


def _in_order(steps: list[Step]) -> list[Step]:
    """Return the fields in the order of dicts: as they are written, then the defaults."""
    return sorted(steps, key=lambda step: step.written is None)


def _is_leaf(plan: Plan | None) -> bool:
    """Return whether a plan makes objects that can't be changed, so that records may share one."""
    if isinstance(plan, ReadUnion):
        return all(map(_is_leaf, plan.branches))
    if isinstance(plan, ToBranch):
        return _is_leaf(plan.plan)
    return plan is None or isinstance(plan, (ReadLeaf, ReadNull))


def _symbols(plan: ReadLeaf, annotation: Any, path: str) -> tuple[Any, ...]:
    """Return what each symbol of the writer becomes: a str, or a member of an Enum."""
    symbols: tuple[Any, ...] = plan.reader.symbols
    arms = alternatives(annotation)
    found = [each for each in arms if isinstance(each, type) and issubclass(each, enum.Enum)]
    if found and not any(is_any(each) or each is str for each in arms):
        symbols = tuple(symbols_of(found[0], plan.reader.symbols, path))
    else:
        check_allowed(str, annotation, path)
    return tuple(Missing if number < 0 else symbols[number] for number in plan.symbols)


# --- the reader ---


class AvroReader(Generic[T]):
    """Reads Avro records into Python objects, one record at a time.

    Parameters
    ----------
    writer : str, dict or list
        The writer's schema, which the records have: JSON text, or the parsed JSON.
    reader : str, dict or list, optional
        The reader's schema, which has the fields of the result. The writer's schema is resolved
        against it by Avro's rules. Default: the writer's schema.
    type : type, optional
        The class of a record's object: dict, a dataclass, a ``msgspec.Struct``, a NamedTuple or a
        TypedDict. Fields match by name, and annotations choose the classes of inner records.
        Fields of the schema that the class lacks are skipped.
    references : sequence, optional
        Schemas that define named types for ``writer`` and ``reader``, each after those that it
        uses.

    Raises
    ------
    SchemaError
        A schema is malformed, the reader's schema can't read the writer's records, or they don't
        fit the annotations of ``type``.
    TypeError
        The annotations of a class can't be resolved.

    Notes
    -----
    Values are those of fastavro: datetime with UTC, date, time, Decimal, UUID, bytes, and str for
    enums. ``timestamp-nanos`` stays an int, a duration and a uuid on a fixed stay bytes. With
    ``type`` an enum can become an ``enum.Enum``, and an array a tuple or set.

    A type may contain itself. Records may be nested 100 levels deep.
    """

    __slots__ = ("_is_disputed", "_program")

    @overload
    def __init__(
        self: AvroReader[Any],
        writer: Schema,
        reader: Schema | None = None,
        *,
        type: type[dict[Any, Any]] = ...,
        references: Iterable[Schema] = (),
    ) -> None: ...

    @overload
    def __init__(
        self: AvroReader[T],
        writer: Schema,
        reader: Schema | None = None,
        *,
        type: type[T],
        references: Iterable[Schema] = (),
    ) -> None: ...

    def __init__(
        self,
        writer: Schema,
        reader: Schema | None = None,
        *,
        type: Any = dict,
        references: Iterable[Schema] = (),
    ) -> None:
        references = list(references)
        written = parse_schema(writer, references, may_recurse=True)
        read = written
        if reader is not None:
            read = parse_schema(reader, references, may_recurse=True)
        resolution = resolve(written, read)
        # fastavro reads a value with this reader's schema as another Python type: a default of
        # bytes or of a logical type, a logical type that only one schema has, or a promoted number
        # in a union.
        self._is_disputed = reader is not None and resolution.is_disputed
        annotation = Any if type is dict else type
        self._program = _Compiler().compile(resolution.plan, annotation)

    def read(self, record: bytes, start: int = 0) -> T:
        """Return the object of one record.

        Parameters
        ----------
        record : bytes
            The record, without a framing. Bytes after it are ignored.
        start : int
            The byte where the record begins, such as 5 after the framing of a schema registry.

        Returns
        -------
        object
            A dict, an object of ``type``, or a value of another type of the schema.

        Raises
        ------
        DecodeError
            The record is malformed, ends too early, or doesn't fit the reader's schema.
        TypeError
            The record isn't bytes.
        ValueError
            ``start`` is outside of the record.
        """
        try:
            value: T = self._program.read(record, start)
        except Malformed as error:
            problem, path, position = error.args
            raise DecodeError(problem, path=path, position=position) from None
        return value
