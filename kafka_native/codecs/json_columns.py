"""The columns of JSON records: nodes with the rule that reads their values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from kafka_native._native.codec_core import read_arrow_schema
from kafka_native.codecs import layout
from kafka_native.codecs.arrow_types import BINARIES, INTEGERS, TEXTS, ArrowType
from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.paths import below, by_first_name

__all__ = [
    "JsonColumn",
    "column_of_arrow",
    "decimal",
    "leaf",
    "list_of",
    "map_of",
    "project",
    "raw",
    "struct",
    "timestamp",
]

UNITS = {"s": 0, "m": 3, "u": 6, "n": 9}
"""The power of ten of the units in a second, by the letter of Arrow's formats."""

CONNECT_DATA = "org.apache.kafka.connect.data."
"""What the titles of Kafka Connect's types begin with."""
DECIMAL_TITLE = f"{CONNECT_DATA}Decimal"
LISTS = {"+l", "+L", "+vl", "+vL"}
DECIMAL_WIDTHS = ("128", "256")


@dataclass(frozen=True)
class JsonColumn(layout.Node):
    """One column, and the rule that reads its values. csrc/codecs/json_program.h has the rules.

    Attributes
    ----------
    code : str
        The name of the rule.
    arg, scale : int
        What the rule needs to know.
    is_optional : bool
        Whether an object may lack the field. Encoders leave it out if it is null.
    form : str
        How encoders write a date or time: ``""`` as text, ``"utc"`` as text with a Z, ``"number"``.
    """

    code: str = ""
    arg: int = 0
    scale: int = 0
    is_optional: bool = False
    form: str = ""

    def paths(self, path: str = "") -> Iterator[str]:
        """Yield the path of each node in preorder."""
        yield path
        children = [child for child in self.children if isinstance(child, JsonColumn)]
        if self.code == "MAP":
            inner = below(path, "[]")
            yield inner
            yield inner
            yield from self.map_value.paths(inner)
        elif self.code == "LIST":
            yield from children[0].paths(below(path, "[]"))
        else:
            for child in children:
                yield from child.paths(below(path, child.name))

    @property
    def map_value(self) -> JsonColumn:
        """The column of a map's values."""
        value = self.children[0].children[1]
        assert isinstance(value, JsonColumn)
        return value


def leaf(
    code: str,
    kind: str,
    format: str,
    name: str,
    nullable: bool,
    *,
    width_bytes: int = 0,
    values: tuple[str, ...] = (),
    arg: int = 0,
    scale: int = 0,
) -> JsonColumn:
    """Return a column without columns below it."""
    return JsonColumn(
        kind, format, name, nullable, width_bytes, (), values, code=code, arg=arg, scale=scale
    )


def raw(name: str) -> JsonColumn:
    """Return a column of JSON text, which takes any value. Null stays null."""
    return leaf("RAW", "bytes", "u", name, True)


def timestamp(name: str, nullable: bool, unit: str, zone: str) -> JsonColumn:
    """Return a column of timestamps. ``unit`` is the letter of Arrow's format."""
    return leaf(
        "TIMESTAMP",
        "fixed",
        f"ts{unit}:{zone}",
        name,
        nullable,
        width_bytes=8,
        arg=UNITS[unit],
        scale=1 if zone else 0,
    )


def decimal(
    code: str, name: str, nullable: bool, precision: int, scale: int, bits: int
) -> JsonColumn:
    """Return a column of decimals. ``bits`` is 128 or 256."""
    format = f"d:{precision},{scale}" + ("" if bits == 128 else ",256")
    width = bits // 8
    return leaf(
        code, "fixed", format, name, nullable, width_bytes=width, arg=precision, scale=scale
    )


def struct(
    name: str,
    nullable: bool,
    children: Iterable[JsonColumn],
    path: str,
    required: Collection[str] | None = None,
) -> JsonColumn:
    """Return a column of structs.

    :param required: The fields that an object must have. Default: those that can't be null.
    :raises SchemaError: Two children have one name.
    """
    fields = tuple(
        replace(each, is_optional=each.nullable if required is None else each.name not in required)
        for each in children
    )
    names: set[str] = set()
    for each in fields:
        if each.name in names:
            raise SchemaError("the schema has this field twice", below(path, each.name))
        names.add(each.name)
    return JsonColumn("struct", "+s", name, nullable, 0, fields, code="STRUCT")


def list_of(name: str, nullable: bool, item: JsonColumn) -> JsonColumn:
    """Return a column of lists."""
    return JsonColumn("list", "+l", name, nullable, 0, (item,), code="LIST")


def map_of(name: str, nullable: bool, value: JsonColumn) -> JsonColumn:
    """Return a column of maps from strings."""
    key = leaf("TEXT", "bytes", "u", "key", False)
    entries = JsonColumn("struct", "+s", "entries", False, 0, (key, value), code="STRUCT")
    return JsonColumn("list", "+m", name, nullable, 0, (entries,), code="MAP")


# --- from Arrow's types ---


def column_of_arrow(schema: Any) -> JsonColumn:
    """Return the column for an object with ``__arrow_c_schema__``, such as ``pyarrow.Schema``.

    :raises SchemaError: A type can't be read from JSON.
    """
    try:
        kind = ArrowType(read_arrow_schema(schema))
    except ValueError as error:
        raise SchemaError(str(error)) from None
    return replace(_of_arrow(kind, ""), name="")


def _of_arrow(kind: ArrowType, path: str) -> JsonColumn:
    name, nullable, children = kind.name, kind.is_nullable, kind.children
    if kind.values is not None:
        raise SchemaError("a dictionary's values aren't part of an Arrow schema: use string", path)
    if kind.format == "+s":
        fields = [_of_arrow(each, below(path, each.name)) for each in children]
        return struct(name, nullable, fields, path)
    if kind.format in LISTS and len(children) == 1:
        return list_of(name, nullable, _of_arrow(children[0], below(path, "[]")))
    if kind.format == "+m" and len(children) == 1 and len(children[0].children) == 2:
        key, value = children[0].children
        if key.format not in TEXTS:
            raise SchemaError("the keys of a map must be strings", path)
        return map_of(name, nullable, _of_arrow(value, below(path, "[]")))
    column = leaf_of_arrow(kind.format, name, nullable, kind.extension)
    if column is None:
        raise SchemaError(f"the Arrow type with the format {kind.format!r} isn't supported", path)
    return column


def leaf_of_arrow(format: str, name: str, nullable: bool, extension: str) -> JsonColumn | None:
    start, _, rest = format.partition(":")
    if format in INTEGERS:
        code = "INT" if format.islower() else "UINT"
        return leaf(code, "fixed", format, name, nullable, width_bytes=INTEGERS[format])
    if format in TEXTS:
        if extension == "arrow.json":
            return replace(raw(name), nullable=nullable)
        return leaf("TEXT", "bytes", "u", name, nullable)
    if format in BINARIES:
        return leaf("BINARY", "bytes", "z", name, nullable)
    if start == "w":
        code = "UUID" if extension == "arrow.uuid" else "FIXED"
        return leaf(code, "fixed", format, name, nullable, width_bytes=int(rest))
    if start == "d":
        precision, scale, *width = rest.split(",")
        bits = width[0] if width else "128"
        if bits not in DECIMAL_WIDTHS:
            return None
        return decimal("DECIMAL", name, nullable, int(precision), int(scale), int(bits))
    if start[:2] == "ts" and start[2:] in UNITS:
        return timestamp(name, nullable, start[2:], rest)
    if start[:2] == "tt" and start[2:] in UNITS:
        unit = UNITS[start[2:]]
        return leaf(
            "TIME", "fixed", format, name, nullable, width_bytes=8 if unit > 3 else 4, arg=unit
        )
    if start[:2] == "tD" and start[2:] in UNITS:
        return leaf("INT", "fixed", format, name, nullable, width_bytes=8)
    return {
        "n": leaf("NONE", "none", "n", name, True),
        "b": leaf("BOOLEAN", "bits", "b", name, nullable),
        "f": leaf("FLOAT", "fixed", "f", name, nullable, width_bytes=4),
        "g": leaf("DOUBLE", "fixed", "g", name, nullable, width_bytes=8),
        "tdD": leaf("DATE", "fixed", "tdD", name, nullable, width_bytes=4),
    }.get(format)


# --- fewer fields ---


def project(column: JsonColumn, fields: Iterable[str]) -> JsonColumn:
    """Return the column with only these fields. A dot leads into a nested object.

    :raises SchemaError: There is no such field.
    """
    return _projected(column, by_first_name(fields), "")


def _projected(column: JsonColumn, wanted: dict[str, list[str]], path: str) -> JsonColumn:
    if column.code == "MAP":
        value = _projected(column.map_value, wanted, below(path, "[]"))
        return map_of(column.name, column.nullable, value)
    if column.code == "LIST":
        item = column.children[0]
        assert isinstance(item, JsonColumn)
        return replace(column, children=(_projected(item, wanted, below(path, "[]")),))
    if column.code != "STRUCT":
        raise SchemaError("only objects have fields", path)
    missing = [name for name in wanted if name not in {each.name for each in column.children}]
    if missing:
        raise SchemaError("there is no such field", below(path, missing[0]))
    children = []
    for each in column.children:
        assert isinstance(each, JsonColumn)
        rests = wanted.get(each.name)
        if rests is None:
            continue
        is_whole = "" in rests
        children.append(
            each if is_whole else _projected(each, by_first_name(rests), below(path, each.name))
        )
    return replace(column, children=tuple(children))
