"""Arrow columns as Avro records: schemas and columns' types compiled to programs for C.

The schema gives the order of the instructions, the column's type says how each value is read.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_native._native.encode_core import ENCODE_NUMBERS, EncodeProgram
from kafka_native._native.primitives import varint_encode
from kafka_native.codecs.arrow_types import BINARIES, INTEGERS, REALS, TEXTS, TICKS, ArrowType
from kafka_native.codecs.avro_decoder import DECIMAL_DIGITS_MAX, Schema
from kafka_native.codecs.avro_resolution import encode_default
from kafka_native.codecs.avro_schema import NO_DEFAULT, AvroField, AvroType, parse_schema
from kafka_native.codecs.column_encoder import ColumnEncoder
from kafka_native.codecs.encode_compiler import EncodeCompiler, EncodeOp
from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.paths import below

__all__ = ["AvroEncoder"]

UNITS = {"millis": "m", "micros": "u", "nanos": "n"}
DAY_MS = 86_400_000
POWER_MAX = 152  # KN_ENCODE_DECIMAL_POWER_MAX, csrc/codecs/encode_program.h
NATURAL_KINDS = {
    "n": "null",
    "b": "boolean",
    "c": "int",
    "C": "int",
    "s": "int",
    "S": "int",
    "i": "int",
    "I": "long",
    "l": "long",
    "L": "long",
    "e": "float",
    "f": "float",
    "g": "double",
    "z": "bytes",
    "Z": "bytes",
    "vz": "bytes",
    "u": "string",
    "U": "string",
    "vu": "string",
    "+s": "record",
    "+l": "array",
    "+L": "array",
    "+m": "map",
}
"""The Avro type that a union's branch should have for an Arrow type."""


class Compiler(EncodeCompiler):
    """Compiles an Avro type and the type of a column to instructions."""

    def compile(self, kind: AvroType, column: ArrowType) -> EncodeProgram:
        """Compile a whole program."""
        if column.format == "n" and column.values is None:
            column.mark()  # every row is a null
        else:
            self._write(kind, column, "")
        return self.finish(column)

    # values

    def _write(self, kind: AvroType, column: ArrowType, path: str) -> None:
        """Write the items of a column as values of a type."""
        if column.kind is None:
            raise SchemaError(f"a column of {column.label} can't be encoded", path)
        if column.is_union:
            self._from_union(kind, column, path)
        elif kind.kind == "union":
            self._into_union(kind, column, "", path)
        elif column.values is not None:
            values = column.values
            self.add_dictionary(column, path, lambda: self._write(kind, values, path))
        elif kind.kind == "record":
            self._record(kind, column, path)
        elif kind.kind == "array":
            self._array(kind, column, path)
        elif kind.kind == "map":
            self._map(kind, column, path)
        else:
            self._leaf(kind, column, path)

    def _from_union(self, kind: AvroType, column: ArrowType, path: str) -> None:
        """Write a union: each of its children as the type, or as a branch of it."""

        def write(child: ArrowType) -> None:
            if kind.kind == "union":
                self._into_union(kind, child, child.name, path)
            else:
                self._write(kind, child, path)

        self.add_union(column, path, write)

    def _into_union(self, kind: AvroType, column: ArrowType, name: str, path: str) -> None:
        """Write a column as the branch of its name or type, else as the first one that takes it."""
        if column.is_union:
            self._from_union(kind, column, path)
            return
        if _is_choice(kind, column):
            self._from_choice(kind, column, path)
            return
        branches = list(enumerate(kind.branches))
        null = next((number for number, each in branches if each.kind == "null"), None)
        others = [(number, each) for number, each in branches if each.kind != "null"]
        if column.format == "n" and column.values is None and null is not None:
            self.add("NONE", column, path)
            self.add_constant(varint_encode(null), path)
            return
        others.sort(key=lambda pair: (pair[1].label != name, not _is_natural(pair[1], column)))
        problem: SchemaError | None = None
        for number, branch in others:
            mark = self.mark()
            try:
                self._branch(branch, number, null, column, path)
            except SchemaError as error:
                self.reset(mark)
                problem = problem or error
            else:
                return
        if problem is None or len(others) > 1:
            problem = SchemaError(f"no branch of the union takes a column of {column.label}", path)
        raise problem

    def _from_choice(self, kind: AvroType, column: ArrowType, path: str) -> None:
        """Write a struct with a field for each branch, of which one isn't null."""
        numbers = {each.label: number for number, each in enumerate(kind.branches)}
        children = [each for each in column.children if each.format != "n" or each.values]
        choices = [(child, numbers[child.name]) for child in children]
        if "null" in numbers:
            choices.append((column, numbers["null"]))  # where no child has a value
        if not choices:
            raise SchemaError("no field of the union's struct can have a value", path)
        op = self.add("CHOICE", column, path, len(self.table), len(choices))
        self.table += [-1, -1] * op.count
        leaves: list[EncodeOp] = [op]
        for place, (child, number) in enumerate(choices):
            self.table[op.arg + 2 * place : op.arg + 2 * place + 2] = [len(self.ops), child]
            self.add_constant(varint_encode(number), path)
            if child is not column:
                self._write(kind.branches[number], child, path)
            leaves.append(self.add("LEAVE", None, path))
        for each in leaves:
            each.end = len(self.ops)

    def _branch(
        self, branch: AvroType, number: int, null: int | None, column: ArrowType, path: str
    ) -> None:
        if null is None:
            self.add_constant(varint_encode(number), path)
            self._write(branch, column, path)
            return
        op = self.add("NULLABLE", column, path, *self.place(varint_encode(null)))
        self.add_constant(varint_encode(number), path)
        self._write(branch, column, path)
        op.end = len(self.ops)

    def _record(self, kind: AvroType, column: ArrowType, path: str) -> None:
        if column.format != "+s":
            raise _unfit(kind, column, path)
        children = self.columns_of(column, {each.name for each in kind.fields}, path)
        self.add("RECORD", column, path)
        for field in kind.fields:
            inner = below(path, field.name)
            if field.name in children:
                self._write(field.type, children[field.name], inner)
            else:
                self.add_constant(_missing(field, inner), inner)

    def _array(self, kind: AvroType, column: ArrowType, path: str) -> None:
        if column.format not in ("+l", "+L") and not column.format.startswith("+w:"):
            raise _unfit(kind, column, path)
        inner = below(path, "[]")
        self.add_items(
            "ARRAY", column, path, lambda: self._write(kind.below_item, column.children[0], inner)
        )

    def _map(self, kind: AvroType, column: ArrowType, path: str) -> None:
        entries = column.map_entries
        if entries is None:
            raise _unfit(kind, column, path)
        key, value = entries.children
        inner = below(path, "[]")

        def write() -> None:
            self.add("RECORD", entries, inner)
            self._write(AvroType("string"), key, inner)
            self._write(kind.below_item, value, inner)

        self.add_items("ARRAY", column, path, write)

    # leaves

    def _leaf(self, kind: AvroType, column: ArrowType, path: str) -> None:
        form = column.format
        if kind.logical is not None and kind.kind in ("int", "long"):
            self._time(kind, column, path)
        elif kind.logical == "decimal":
            self._decimal(kind, column, path)
        elif kind.logical == "duration" and form == "tin":
            self.add("DURATION", column, path)
        elif kind.kind == "null" and form == "n":
            self.add("NONE", column, path)
        elif kind.kind == "boolean" and form == "b":
            self.add("BOOLEAN", column, path)
        elif kind.kind in ("int", "long") and form in INTEGERS:
            self.add("LONG", column, path, form.islower(), _bits(kind))
        elif kind.kind in ("float", "double") and (form in INTEGERS or form in REALS):
            self._real(kind, column, path)
        elif kind.kind == "enum" and form in TEXTS:
            self._enum(kind, column, path)
        elif kind.kind in ("string", "bytes", "fixed"):
            self._bytes(kind, column, path)
        else:
            raise _unfit(kind, column, path)

    def _real(self, kind: AvroType, column: ArrowType, path: str) -> None:
        if column.format == "g" and kind.kind == "float":
            raise SchemaError("a float can't hold a column of float64: cast the column", path)
        numbers = {"e": "half", "f": "single", "g": "double"}
        number = numbers.get(column.format, "signed" if column.format.islower() else "unsigned")
        self.add(kind.kind.upper(), column, path, ENCODE_NUMBERS[number])

    def _bytes(self, kind: AvroType, column: ArrowType, path: str) -> None:
        form = column.format
        is_fixed = form.startswith("w:")
        if kind.logical == "uuid" and kind.kind == "string":
            if form != "w:16" and form not in TEXTS:
                raise _unfit(kind, column, path)
            self.add("UUID_TEXT" if is_fixed else "UUID", column, path)
        elif kind.kind == "string" and (form in TEXTS or form in BINARIES):
            self.add("TEXT", column, path)
        elif kind.kind == "bytes" and (form in TEXTS or form in BINARIES or is_fixed):
            self.add("BYTES", column, path)
        elif kind.kind == "fixed" and (form == f"w:{kind.size}" or form in BINARIES):
            if kind.logical == "duration":
                raise _unfit(kind, column, path)
            self.add("FIXED", column, path, kind.size)
        else:
            raise _unfit(kind, column, path)

    def _enum(self, kind: AvroType, column: ArrowType, path: str) -> None:
        numbers = {symbol: number for number, symbol in enumerate(kind.symbols)}
        self.add_symbols("ENUM", column, path, numbers)

    def _decimal(self, kind: AvroType, column: ArrowType, path: str) -> None:
        if column.format.startswith("d:"):
            scale = int(column.format[2:].split(",")[1])
        elif column.format in INTEGERS:
            scale = 0
        else:
            raise _unfit(kind, column, path)
        is_signed = column.format.islower()
        power = kind.scale - scale
        if power > POWER_MAX:
            raise SchemaError(f"the decimal's scale of {kind.scale} is too large", path)
        # A schema may allow more digits, but no column has them.
        limit, _ = self.place(
            (10 ** min(kind.precision, DECIMAL_DIGITS_MAX)).to_bytes(32, "little")
        )
        size = kind.size if kind.kind == "fixed" else -1
        self.add("DECIMAL", column, path, len(self.table), 4)
        self.table += [int(is_signed), power, size, limit]

    def _time(self, kind: AvroType, column: ArrowType, path: str) -> None:
        form, logical = column.format, kind.logical or ""
        if logical == "date":
            if form not in ("tdD", "tdm"):
                raise _unfit(kind, column, path)
            self._scaled(column, 1, 1 if form == "tdD" else DAY_MS, kind, path)
            return
        name, _, unit = logical.rpartition("-")
        if not form.startswith("tt" if name == "time" else "ts") or form == "ts":
            raise _unfit(kind, column, path)
        if name != "time":
            has_zone = form[4:] != ""
            if has_zone != (name == "timestamp"):
                needs = "needs a time zone" if name == "timestamp" else "can't have a time zone"
                raise SchemaError(f"a column for {logical} {needs}: cast the column", path)
        else:
            self.add("TIME_OF_DAY", column, path, TICKS[form[2]])
        self._scaled(column, TICKS[UNITS[unit]], TICKS[form[2]], kind, path)

    def _scaled(
        self, column: ArrowType, wanted: int, present: int, kind: AvroType, path: str
    ) -> None:
        """Convert ``present`` ticks to ``wanted`` ticks."""
        if wanted == present:
            self.add("LONG", column, path, 1, _bits(kind))
        elif wanted > present:
            self.add("MULTIPLY", column, path, wanted // present, _bits(kind))
        else:
            self.add("DIVIDE", column, path, present // wanted, _bits(kind))


def _bits(kind: AvroType) -> int:
    return 32 if kind.kind == "int" else 64


def _is_natural(kind: AvroType, column: ArrowType) -> bool:
    """Return whether a branch of a union is the usual one for a column."""
    if column.values is not None:
        return kind.kind == "enum" or _is_natural(kind, column.values)
    return NATURAL_KINDS.get(column.format) == kind.kind and kind.logical is None


def _is_choice(kind: AvroType, column: ArrowType) -> bool:
    """Return whether a struct has a field for each branch of a union, as a decoder makes it.

    A record is a struct, too. So if a branch is a record, the struct must have all branches.
    """
    names = {each.name for each in column.children}
    labels = {each.label for each in kind.branches if each.kind != "null"}
    if column.format != "+s" or len(labels) < 2 or len(names) < len(column.children):
        return False
    has_record = any(each.kind == "record" for each in kind.branches)
    return names == labels or (bool(names) and names < labels and not has_record)


def _missing(field: AvroField, path: str) -> bytes:
    """Return the bytes of a field that the columns don't have."""
    if field.default is not NO_DEFAULT:
        return encode_default(field.type, field.default, path)
    if field.type.kind == "null":
        return b""
    for number, branch in enumerate(field.type.branches):
        if branch.kind == "null":
            return varint_encode(number)
    raise SchemaError("there is no such column, and the field has no default", path)


def _unfit(kind: AvroType, column: ArrowType, path: str) -> SchemaError:
    wanted = kind.logical or kind.kind
    text = f"{wanted} {kind.name}".strip()
    return SchemaError(f"a column of {column.label} can't be encoded as {text}", path)


class AvroEncoder(ColumnEncoder):
    """Encodes the rows of an Arrow column as Avro records, in C and without the interpreter lock.

    Parameters
    ----------
    schema : str, dict or list
        The schema of the records: JSON text, or the parsed JSON.
    references : sequence, optional
        Schemas that define named types for ``schema``, each after those that it uses.
    ignore_extra : bool
        Leave out columns that the schema has no field for. Default: they are an error.
    prefix : bytes
        The bytes before each record, such as the framing of a schema registry.

    Raises
    ------
    SchemaError
        The schema is malformed or recursive.

    Notes
    -----
    Fields and columns match by name. A field without a column has its default value; without a
    default it is null if its type allows null. docs/guide/produce-typed-columns.md has the types.
    """

    __slots__ = ("_ignore_extra", "_kind")

    def __init__(
        self,
        schema: Schema,
        references: Iterable[Schema] = (),
        *,
        ignore_extra: bool = False,
        prefix: bytes = b"",
    ) -> None:
        super().__init__(prefix)
        self._kind = parse_schema(schema, references)
        self._ignore_extra = ignore_extra

    def _compile(self, column: ArrowType) -> tuple[EncodeProgram, list[str]]:
        compiler = Compiler(self._ignore_extra)
        return compiler.compile(self._kind, column), compiler.paths
