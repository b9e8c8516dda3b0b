"""Arrow columns as JSON records: columns' types and schemas compiled to programs for C.

The schema says how each value is written. Without one, the column's own type says it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from kafka_native._native.codec_core import HAS_JSON, NO_JSON
from kafka_native._native.encode_core import ENCODE_DECIMALS, ENCODE_NUMBERS, EncodeProgram
from kafka_native.codecs import json_columns as columns
from kafka_native.codecs.arrow_types import BINARIES, INTEGERS, REALS, TEXTS, TICKS, ArrowType
from kafka_native.codecs.column_encoder import ColumnEncoder
from kafka_native.codecs.encode_compiler import EncodeCompiler
from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.json_columns import JsonColumn
from kafka_native.codecs.json_schema import column_of_schema
from kafka_native.codecs.paths import below

__all__ = ["JsonEncoder"]

DAY_MS = 86_400_000
SCALE_MAX = 76
PRECISION_MAX = 76
SIGNED, SIGNED_BY_SCHEMA = 1, 2
NAMES = {
    "NONE": "null",
    "INT": "an integer",
    "UINT": "an integer",
    "FLOAT": "a number",
    "DOUBLE": "a number",
    "TEXT": "a string",
    "BINARY": "base64",
    "FIXED": "base64",
    "UUID": "a UUID",
    "DECIMAL": "a decimal",
    "DECIMAL_BYTES": "a decimal in base64",
    "ENUM": "a string of an enum",
    "STRUCT": "an object",
    "LIST": "an array",
    "MAP": "an object",
}


class Compiler(EncodeCompiler):
    """Compiles the column of a schema and the type of a column to instructions."""

    def compile(self, wanted: JsonColumn | None, column: ArrowType) -> EncodeProgram:
        """Compile a whole program. Without a schema, values have the form of the column's type."""
        if _is_null(column):
            column.mark()  # every row is a null
        else:
            self._write(wanted, column, "")
        return self.finish(column)

    # values

    def _value(self, wanted: JsonColumn | None, column: ArrowType, path: str) -> None:
        """Write the items of a column, with null for those that may be null."""
        is_nullable = column.is_nullable if wanted is None else wanted.nullable
        if column.is_union or not is_nullable:
            self._write(wanted, column, path)
            return
        if _is_null(column):
            column.mark()
            self.add_constant(b"null", path)
            return
        op = self.add("NULLABLE", column, path, *self.place(b"null"))
        self._write(wanted, column, path)
        op.end = len(self.ops)

    def _write(self, wanted: JsonColumn | None, column: ArrowType, path: str) -> None:
        """Write the items of a column that aren't null."""
        if column.kind is None:
            raise SchemaError(f"a column of {column.label} can't be encoded", path)
        is_text = column.values is None and column.format in TEXTS
        if wanted is not None and wanted.code == "RAW" and not is_text:
            wanted = None  # any value is allowed
        if column.is_union:
            self._union(wanted, column, path)
        elif column.values is not None:
            values = column.values
            self.add_dictionary(column, path, lambda: self._write(wanted, values, path))
        elif column.format == "+s":
            self._struct(wanted, column, path)
        elif column.format in ("+l", "+L", "+m") or column.format.startswith("+w:"):
            self._list_or_map(wanted, column, path)
        elif wanted is None:
            self._leaf(_natural(column, path), column, path)
        else:
            self._leaf(wanted, column, path)

    def _union(self, wanted: JsonColumn | None, column: ArrowType, path: str) -> None:
        """Write a union: each of its children as the schema's type."""

        def write(child: ArrowType) -> None:
            if _is_null(child) and wanted is not None and not wanted.nullable:
                raise SchemaError("the schema doesn't allow null here", path)
            self._value(wanted, child, path)

        self.add_union(column, path, write)

    # nested values

    def _struct(self, wanted: JsonColumn | None, column: ArrowType, path: str) -> None:
        fields = self._fields(wanted, column, path)
        children = self.columns_of(column, fields, path)
        self.add("RECORD", column, path)
        before = "{"
        for name, field in fields.items():
            inner, key = below(path, name), f"{json.dumps(name, ensure_ascii=False)}:"
            child = children.get(name)
            is_optional = field.is_optional if field is not None else children[name].is_nullable
            if child is None or (is_optional and _is_null(child)):
                if is_optional:
                    continue
                if field is None or not field.nullable:
                    raise SchemaError("there is no such column, and the field is required", inner)
                before += f"{key}null,"
            elif is_optional and not child.is_union:
                self._constant(before, path)
                op = self.add("NULLABLE", child, inner)
                self._constant(key, inner)
                self._write(field, child, inner)
                self._constant(",", inner)
                op.end = len(self.ops)
                before = ""
            else:
                self._constant(before + key, inner)
                self._value(field, child, inner)
                before = ","
        if before:
            self._constant(before.removesuffix(",") + "}", path)
        else:
            self.add("JSON_END", None, path, ord("}"))

    def _fields(
        self, wanted: JsonColumn | None, column: ArrowType, path: str
    ) -> dict[str, JsonColumn | None]:
        """Return the fields of an object; None: the column's type says how they are written."""
        if wanted is None:
            return dict.fromkeys(each.name for each in column.children)
        if wanted.code != "STRUCT":
            raise _unfit(wanted, column, path)
        fields: dict[str, JsonColumn | None] = {}
        for each in wanted.children:
            assert isinstance(each, JsonColumn)
            fields[each.name] = each
        return fields

    def _list_or_map(self, wanted: JsonColumn | None, column: ArrowType, path: str) -> None:
        is_map = column.format == "+m" if wanted is None else wanted.code == "MAP"
        if not is_map:
            self._list(wanted, column, path)
            return
        entries = column.map_entries
        if entries is None:
            raise _unfit(wanted, column, path)
        key, value = entries.children
        inner = below(path, "[]")

        def write() -> None:
            self.add("RECORD", entries, inner)
            self._key(key, inner)
            self._constant(":", inner)
            self._value(None if wanted is None else wanted.map_value, value, inner)
            self._constant(",", inner)

        self._items("{}", column, path, write)

    def _list(self, wanted: JsonColumn | None, column: ArrowType, path: str) -> None:
        if wanted is not None and wanted.code != "LIST":
            raise _unfit(wanted, column, path)
        item = None if wanted is None else wanted.children[0]
        assert item is None or isinstance(item, JsonColumn)
        inner = below(path, "[]")

        def write() -> None:
            self._value(item, column.children[0], inner)
            self._constant(",", inner)

        self._items("[]", column, path, write)

    def _items(
        self, brackets: str, column: ArrowType, path: str, write: Callable[[], None]
    ) -> None:
        self._constant(brackets[0], path)
        self.add_items("REPEATED", column, path, write)
        self.add("JSON_END", None, path, ord(brackets[1]))

    def _key(self, column: ArrowType, path: str) -> None:
        values = column.values
        if values is not None:
            self.add_dictionary(column, path, lambda: self._key(values, path))
        elif column.format in TEXTS:
            self.add("JSON_TEXT", column, path)
        else:
            raise SchemaError("the keys of a map must be strings", path)

    def _constant(self, text: str, path: str) -> None:
        """Write text, if there is any."""
        if text:
            self.add_constant(text.encode(), path)

    # leaves

    def _leaf(self, wanted: JsonColumn, column: ArrowType, path: str) -> None:
        code, form = wanted.code, column.format
        is_bytes = form in TEXTS or form in BINARIES or form.startswith("w:")
        if code == "BOOLEAN" and form == "b":
            self.add("JSON_BOOLEAN", column, path)
        elif code in ("INT", "UINT") and (form in INTEGERS or form.startswith("tD")):
            self._integer(wanted, column, path)
        elif code in ("FLOAT", "DOUBLE"):
            self._number(wanted, column, path)
        elif code == "RAW":
            self.add("JSON_RAW", column, path)
        elif code in ("BINARY", "FIXED") and is_bytes:
            is_fixed = code == "FIXED"
            if is_fixed and form.startswith("w:") and column.width != wanted.width_bytes:
                raise _unfit(wanted, column, path)
            self.add("JSON_BASE64", column, path, wanted.width_bytes, int(is_fixed))
        elif code == "UUID" and (form == "w:16" or form in TEXTS):
            self.add("JSON_UUID" if form in TEXTS else "JSON_UUID_TEXT", column, path)
        elif code == "ENUM" and form in TEXTS:
            symbols = {value: number for number, value in enumerate(wanted.values)}
            self.add_symbols("JSON_ENUM", column, path, symbols)
        elif code in ("DECIMAL", "DECIMAL_BYTES"):
            written = "base64" if code == "DECIMAL_BYTES" else "number"
            self._decimal(column, written, wanted.arg, wanted.scale, path, wanted)
        elif code in ("DATE", "TIME", "TIMESTAMP"):
            self._moment(wanted, column, path)
        elif code == "TEXT":
            self._text(wanted, column, path)
        else:
            raise _unfit(wanted, column, path)

    def _integer(self, wanted: JsonColumn, column: ArrowType, path: str) -> None:
        is_duration = column.format.startswith("tD")
        if is_duration and wanted.format not in ("l", column.format):
            raise SchemaError("the schema's duration has another unit: cast the column", path)
        flags = SIGNED if is_duration or column.format.islower() else 0
        flags |= SIGNED_BY_SCHEMA if wanted.code == "INT" else 0
        self.add("JSON_INTEGER", column, path, flags, 8 * wanted.width_bytes)

    def _number(self, wanted: JsonColumn, column: ArrowType, path: str) -> None:
        form = column.format
        if form in INTEGERS:
            flags = SIGNED | SIGNED_BY_SCHEMA if form.islower() else 0
            self.add("JSON_INTEGER", column, path, flags, 64)
        elif form == "g" and wanted.code == "FLOAT":
            raise SchemaError("a float32 can't hold a column of float64: cast the column", path)
        elif form in REALS:
            number = {"e": "half", "f": "single", "g": "double"}[form]
            self.add("JSON_REAL", column, path, ENCODE_NUMBERS[number])
        else:
            self._decimal(column, "number", PRECISION_MAX, None, path, wanted)

    def _decimal(
        self,
        column: ArrowType,
        written: str,
        precision: int,
        scale: int | None,
        path: str,
        wanted: JsonColumn,
    ) -> None:
        """Write decimals. ``scale`` has the digits behind the point; None: as in the column."""
        form = column.format
        if form.startswith("d:"):
            present = int(form[2:].split(",")[1])
        elif form in INTEGERS:
            present = 0
        else:
            raise _unfit(wanted, column, path)
        scale = present if scale is None else scale
        if max(abs(present), abs(scale)) > SCALE_MAX:
            raise SchemaError(f"the scale of {column.label} is too large", path)
        limit, _ = self.place((10**precision).to_bytes(32, "little"))
        is_signed = form.startswith("d:") or form.islower()
        number = ENCODE_DECIMALS[written]
        self.add("JSON_DECIMAL", column, path, len(self.table), number)
        self.table += [int(is_signed), scale - present, scale, limit]

    def _moment(self, wanted: JsonColumn, column: ArrowType, path: str) -> None:
        """Write a date or time as the schema has it."""
        code, form = wanted.code, column.format
        prefix = {"DATE": "td", "TIME": "tt", "TIMESTAMP": "ts"}[code]
        if not form.startswith(prefix):
            raise _unfit(wanted, column, path)
        if code == "TIMESTAMP" and bool(form[4:]) != (wanted.scale == 1):
            needs = "can't have a time zone" if form[4:] else "needs a time zone"
            raise SchemaError(f"the column {needs}: cast it", path)
        if wanted.form != "number":
            self._iso(column, path, is_utc=wanted.form == "utc")
        elif code == "DATE":
            self._scaled(column, 1, 1 if form == "tdD" else DAY_MS, path)
        else:
            self._scaled(column, 10**wanted.arg, TICKS[form[2]], path)

    def _scaled(self, column: ArrowType, wanted: int, present: int, path: str) -> None:
        """Write ``present`` ticks as a number of ``wanted`` ticks."""
        if wanted == present:
            self.add("JSON_INTEGER", column, path, SIGNED | SIGNED_BY_SCHEMA, 64)
        elif wanted > present:
            self.add("JSON_MULTIPLY", column, path, wanted // present)
        else:
            self.add("JSON_DIVIDE", column, path, present // wanted)

    def _iso(self, column: ArrowType, path: str, *, is_utc: bool = False) -> None:
        """Write a date or time as text."""
        form = column.format
        if form in ("tdD", "tdm"):
            self.add("JSON_DATE", column, path, 1 if form == "tdD" else DAY_MS)
        elif form[:2] == "tt":
            self.add("JSON_TIME", column, path, columns.UNITS[form[2]], int(is_utc))
        else:
            unit = columns.UNITS[form[2]]
            self.add("JSON_TIMESTAMP", column, path, unit, int(form[4:] != ""))

    def _text(self, wanted: JsonColumn, column: ArrowType, path: str) -> None:
        """Write a string. Dates, times, decimals and UUIDs have one, too."""
        form = column.format
        if form in TEXTS or form in BINARIES:
            self.add("JSON_TEXT", column, path)
        elif form in ("tdD", "tdm") or form[:2] == "tt" or form.startswith("ts"):
            self._iso(column, path)
        elif form.startswith("d:"):
            self._decimal(column, "string", PRECISION_MAX, None, path, wanted)
        elif form == "w:16" and column.extension == "arrow.uuid":
            self.add("JSON_UUID_TEXT", column, path)
        else:
            raise _unfit(wanted, column, path)


def _is_null(column: ArrowType) -> bool:
    """Return whether a column can only have nulls."""
    return column.format == "n" and column.values is None


def _natural(column: ArrowType, path: str) -> JsonColumn:
    """Return what a column without a schema becomes."""
    form = column.format
    if form.startswith("d:"):
        precision, scale = (int(each) for each in form[2:].split(",")[:2])
        return columns.decimal("DECIMAL", column.name, True, precision, scale, 256)
    if form == "e":
        return columns.leaf("FLOAT", "fixed", "f", column.name, True, width_bytes=4)
    if form == "tdm":
        return columns.leaf("DATE", "fixed", "tdD", column.name, True, width_bytes=4)
    found = columns.leaf_of_arrow(form, column.name, True, column.extension)
    if found is None:
        raise SchemaError(f"a column of {column.label} can't be encoded", path)
    return found


def _unfit(wanted: JsonColumn | None, column: ArrowType, path: str) -> SchemaError:
    name = "an object" if wanted is None else NAMES.get(wanted.code, wanted.code.lower())
    return SchemaError(f"a column of {column.label} can't be encoded as {name}", path)


class JsonEncoder(ColumnEncoder):
    """Encodes the rows of an Arrow column as JSON texts, in C and without the interpreter lock.

    Parameters
    ----------
    schema : Arrow schema, str, bytes or dict, optional
        The schema of the records: a JSON Schema, as text or as parsed JSON; or an object with
        ``__arrow_c_schema__``, such as a ``pyarrow.Schema``. Default: the column's own type.
    references : mapping of str to schema, optional
        Other JSON Schemas by the names that ``$ref`` has.
    ignore_extra : bool
        Leave out columns that the schema has no field for. Default: they are an error.
    prefix : bytes
        The bytes before each record, such as the framing of a schema registry.

    Raises
    ------
    SchemaError
        The schema is malformed, or has a type that isn't supported.
    NotImplementedError
        kafka-native was built without simdjson.

    Notes
    -----
    Fields and columns match by name. A field that an object may lack is left out if it is null:
    one that isn't ``required`` in a JSON Schema, or one that may be null in an Arrow schema. A
    JSON Schema says only how values are written. Its limits, such as ``maxLength``, aren't checked.
    docs/guide/produce-json-columns.md has the types.
    """

    __slots__ = ("_column", "_ignore_extra")

    def __init__(
        self,
        schema: Any = None,
        references: Mapping[str, Any] | None = None,
        *,
        ignore_extra: bool = False,
        prefix: bytes = b"",
    ) -> None:
        super().__init__(prefix)
        if not HAS_JSON:
            raise NotImplementedError(NO_JSON)
        self._column: JsonColumn | None = None
        if hasattr(schema, "__arrow_c_schema__"):
            self._column = columns.column_of_arrow(schema)
        elif schema is not None:
            self._column = column_of_schema(schema, references or {}, "n")
        self._ignore_extra = ignore_extra

    def _compile(self, column: ArrowType) -> tuple[EncodeProgram, list[str]]:
        compiler = Compiler(self._ignore_extra)
        return compiler.compile(self._column, column), compiler.paths
