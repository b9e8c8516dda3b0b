"""Avro schemas: parsed from JSON, with named types, namespaces, aliases and logical types."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_native.cleaning import is_utf8
from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.paths import below

__all__ = ["AvroField", "AvroType", "parse_schema"]

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# Logical types and the types that they annotate. Any other annotation is ignored, as the
# specification says.
LOGICAL_TYPES = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
    "duration": ("fixed",),
}
NO_DEFAULT = object()
DEPTH_MAX = 48


@dataclass(eq=False)
class AvroField:
    """A field of a record. ``default`` is JSON, or NO_DEFAULT."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    default: Any = NO_DEFAULT


@dataclass(eq=False)
class AvroType:
    """A type. ``kind`` is a primitive, record, enum, array, map, fixed or union.

    Attributes
    ----------
    name : str
        The full name of a named type.
    aliases : tuple of str
        Full names.
    """

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    logical: str | None = None
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    fields: tuple[AvroField, ...] = ()
    branches: tuple[AvroType, ...] = ()
    item: AvroType | None = field(default=None, repr=False)

    @property
    def label(self) -> str:
        """The name for texts and for the columns of unions."""
        return self.name or self.kind

    @property
    def below_item(self) -> AvroType:
        """The type of the items of an array, or of the values of a map."""
        assert self.item is not None
        return self.item


def parse_schema(
    schema: str | Mapping[str, Any] | list[Any],
    references: Iterable[Any] = (),
    *,
    may_recurse: bool = False,
) -> AvroType:
    """Return the parsed schema.

    :param schema: JSON text, or the parsed JSON.
    :param references: Schemas whose named types the schema uses, each after those that it uses.
    :param may_recurse: Whether records may contain themselves.
    :raises SchemaError: It is malformed, or recursive.
    """
    parser = _Parser(may_recurse)
    for reference in references:
        parser.parse(_loaded(reference), "", "")
    return parser.parse(_loaded(schema), "", "")


def _loaded(schema: Any) -> Any:
    if not isinstance(schema, str):
        return schema
    text = schema.strip()
    if text in PRIMITIVES:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"the schema isn't JSON: {error}") from None


class _Parser:
    def __init__(self, may_recurse: bool) -> None:
        self._named: dict[str, AvroType] = {}
        self._open: dict[str, AvroType] = {}
        self._may_recurse = may_recurse
        self._depth = 0

    def parse(self, schema: Any, namespace: str, path: str) -> AvroType:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise SchemaError(f"types are nested deeper than {DEPTH_MAX}", path)
        try:
            if isinstance(schema, str):
                return self._by_name(schema, namespace, path)
            if isinstance(schema, list):
                return self._union(schema, namespace, path)
            if isinstance(schema, Mapping):
                return self._complex(schema, namespace, path)
        finally:
            self._depth -= 1
        raise SchemaError(f"a type can't be {schema!r}", path)

    def _by_name(self, name: str, namespace: str, path: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full in self._open and self._may_recurse:
            return self._open[full]
        if full in self._open:
            raise SchemaError(
                f"the type {full} contains itself; recursive types have no columns", path
            )
        found = self._named.get(full) or self._named.get(name)
        if found is None:
            raise SchemaError(f"there is no type {full!r}", path)
        return found

    def _union(self, schema: list[Any], namespace: str, path: str) -> AvroType:
        branches = tuple(self.parse(each, namespace, path) for each in schema)
        labels = [each.label for each in branches]
        if not branches:
            raise SchemaError("a union has no branch", path)
        if any(each.kind == "union" for each in branches):
            raise SchemaError("a union is directly in a union", path)
        if len(set(labels)) < len(labels):
            raise SchemaError(f"a union has a type twice: {', '.join(labels)}", path)
        return AvroType("union", branches=branches)

    def _complex(self, schema: Mapping[str, Any], namespace: str, path: str) -> AvroType:
        kind = schema.get("type")
        if isinstance(kind, (list, Mapping)):
            return self.parse(kind, namespace, path)  # {"type": {"type": ...}}
        if not isinstance(kind, str):
            raise SchemaError("a type is missing", path)
        if kind in PRIMITIVES:
            return _with_logical(AvroType(kind), schema, path)
        if kind == "array":
            item = self.parse(_member(schema, "items", path), namespace, below(path, "[]"))
            return AvroType("array", item=item)
        if kind == "map":
            item = self.parse(_member(schema, "values", path), namespace, below(path, "[]"))
            return AvroType("map", item=item)
        if kind in ("record", "error", "enum", "fixed"):
            return self._named_type(schema, kind, namespace, path)
        return self._by_name(kind, namespace, path)

    def _named_type(
        self, schema: Mapping[str, Any], kind: str, namespace: str, path: str
    ) -> AvroType:
        full = _full_name(_member(schema, "name", path), schema.get("namespace", namespace), path)
        inner = full.rpartition(".")[0]
        if full in self._named or full in self._open:
            raise SchemaError(f"the type {full} is defined twice", path)
        aliases = tuple(_full_name(each, inner, path) for each in _aliases(schema, path))
        made = AvroType("record" if kind == "error" else kind, full, aliases)
        if kind == "enum":
            _fill_enum(made, schema, path)
        elif kind == "fixed":
            made.size = _member(schema, "size", path)
            if type(made.size) is not int or not 0 <= made.size <= 1 << 20:
                raise SchemaError(f"a fixed can't have {made.size!r} bytes", path)
            _with_logical(made, schema, path)
        else:
            self._open[full] = made
            made.fields = self._fields(schema, inner, path)
            del self._open[full]
        self._named[full] = made
        return made

    def _fields(
        self, schema: Mapping[str, Any], namespace: str, path: str
    ) -> tuple[AvroField, ...]:
        fields = []
        members = _member(schema, "fields", path)
        if not isinstance(members, list) or not all(isinstance(each, Mapping) for each in members):
            raise SchemaError("the fields of a record must be a list of objects", path)
        for member in members:
            name = _member(member, "name", path)
            if not isinstance(name, str) or not NAME.match(name):
                raise SchemaError(f"a field can't be named {name!r}", path)
            kind = self.parse(
                _member(member, "type", below(path, name)), namespace, below(path, name)
            )
            aliases = _aliases(member, below(path, name))
            fields.append(AvroField(name, kind, aliases, member.get("default", NO_DEFAULT)))
        names = [each.name for each in fields]
        if len(set(names)) < len(names):
            raise SchemaError(f"a field occurs twice: {', '.join(names)}", path)
        return tuple(fields)


def _member(schema: Mapping[str, Any], name: str, path: str) -> Any:
    if name not in schema:
        raise SchemaError(f"{name!r} is missing in {schema!r:.200}", path)
    return schema[name]


def _aliases(schema: Mapping[str, Any], path: str) -> tuple[str, ...]:
    aliases = schema.get("aliases") or ()
    if not isinstance(aliases, (list, tuple)) or not all(isinstance(each, str) for each in aliases):
        raise SchemaError("aliases are a list of names", path)
    return tuple(aliases)


def _full_name(name: Any, namespace: Any, path: str) -> str:
    if not isinstance(name, str) or not all(NAME.match(part) for part in name.split(".")):
        raise SchemaError(f"a type can't be named {name!r}", path)
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _fill_enum(made: AvroType, schema: Mapping[str, Any], path: str) -> None:
    symbols = _member(schema, "symbols", path)
    if not isinstance(symbols, list) or not symbols:
        raise SchemaError("an enum has no symbols", path)
    is_text = all(isinstance(each, str) and is_utf8(each) for each in symbols)
    if not is_text or len(set(symbols)) < len(symbols):
        raise SchemaError("the symbols of an enum must be different names", path)
    made.symbols = tuple(symbols)
    default = schema.get("default")
    if default is not None and default not in symbols:
        raise SchemaError(f"the enum's default {default!r} isn't one of its symbols", path)
    made.default_symbol = default


def _with_logical(made: AvroType, schema: Mapping[str, Any], path: str) -> AvroType:
    """Set the logical type if it is valid. The specification ignores it otherwise."""
    logical = schema.get("logicalType")
    if not isinstance(logical, str) or made.kind not in LOGICAL_TYPES.get(logical, ()):
        return made
    if logical == "decimal":
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if type(precision) is not int or type(scale) is not int:
            return made
        if not precision > 0 or not 0 <= scale <= precision:
            return made
        if made.kind == "fixed" and precision > _digits_max(made.size):
            return made
        made.precision, made.scale = precision, scale
    if logical == "uuid" and made.kind == "fixed" and made.size != 16:
        return made
    if logical == "duration" and made.size != 12:
        return made
    made.logical = logical
    return made


def _digits_max(size_bytes: int) -> int:
    return math.floor(math.log10(2) * (8 * size_bytes - 1)) if size_bytes else 0
