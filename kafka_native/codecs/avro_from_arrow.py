"""Avro schemas for Arrow columns that have none."""

from __future__ import annotations

import re
from typing import Any

from kafka_native.codecs.arrow_types import BINARIES, TEXTS, ArrowType
from kafka_native.codecs.avro_schema import NAME
from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.paths import below

__all__ = ["avro_schema_of"]

PRIMITIVES = {
    "n": "null",
    "b": "boolean",
    **dict.fromkeys("cCsSi", "int"),
    **dict.fromkeys("IlL", "long"),
    "e": "float",
    "f": "float",
    "g": "double",
    **dict.fromkeys(TEXTS, "string"),
    **dict.fromkeys(BINARIES, "bytes"),
}
TIME_TYPES = {
    "tdD": ("int", "date"),
    "tdm": ("int", "date"),
    "tts": ("int", "time-millis"),
    "ttm": ("int", "time-millis"),
    "ttu": ("long", "time-micros"),
}
UNITS = {"s": "millis", "m": "millis", "u": "micros", "n": "nanos"}
DIGITS_MAX = 76


def avro_schema_of(description: tuple[Any, ...], name: str) -> Any:
    """Return the Avro schema of a column's type, as JSON.

    A field that may have nulls becomes a union with null, whose default is null.

    :param description: The type, as `ColumnInput` describes it.
    :param name: The name of the record. Characters that Avro doesn't allow become ``_``.
    :raises SchemaError: The type has no Avro type, or a field's name isn't allowed.
    """
    return _Maker().type_of(ArrowType(description), _allowed(name), "")


def _allowed(name: str) -> str:
    allowed = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    return f"_{allowed}" if allowed[0].isdigit() else allowed


class _Maker:
    """Makes the types of one schema."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def _named(self, name: str) -> str:
        """Return a name that no other type has: columns ``a.b`` and ``a_b`` would have the same."""
        number, free = 1, name
        while free in self._names:
            number += 1
            free = f"{name}_{number}"
        self._names.add(free)
        return free

    def _field_of(self, column: ArrowType, name: str, path: str) -> Any:
        """Return the type of a column, with null if it may have nulls."""
        made = self.type_of(column, name, path)
        is_plain = made != "null" and not isinstance(made, list)
        return ["null", made] if column.is_nullable and is_plain else made

    def type_of(self, column: ArrowType, name: str, path: str) -> Any:
        form = column.format
        if column.values is not None:
            return self.type_of(column.values, name, path)
        if form in PRIMITIVES:
            return PRIMITIVES[form]
        if form == "+s":
            return self._record_of(column, name, path)
        if form == "+m":
            value = column.children[0].children[1]
            return {
                "type": "map",
                "values": self._field_of(value, f"{name}_value", below(path, "[]")),
            }
        if form in ("+l", "+L") or form.startswith("+w:"):
            item = column.children[0]
            return {
                "type": "array",
                "items": self._field_of(item, f"{name}_item", below(path, "[]")),
            }
        if column.is_union:
            return self._union_of(column, name, path)
        if form.startswith("w:"):
            return {"type": "fixed", "name": self._named(name), "size": column.width}
        if form.startswith("d:"):
            return _decimal_of(column, path)
        if form == "tin":
            return {
                "type": "fixed",
                "name": self._named(name),
                "size": 12,
                "logicalType": "duration",
            }
        kind, logical = TIME_TYPES.get(form, ("long", ""))
        if form.startswith("ts") and form[2:3] in UNITS:
            logical = f"{'timestamp' if form[4:] else 'local-timestamp'}-{UNITS[form[2]]}"
        if not logical:
            raise SchemaError(f"a column of {column.label} has no Avro type: pass schema=", path)
        return {"type": kind, "logicalType": logical}

    def _record_of(self, column: ArrowType, name: str, path: str) -> Any:
        name, fields = self._named(name), []
        for child in column.children:
            inner = below(path, child.name)
            if not NAME.match(child.name):
                raise SchemaError(
                    "Avro doesn't allow this name of a field: rename the column", inner
                )
            kind = self._field_of(child, f"{name}_{child.name}", inner)
            is_nullable = isinstance(kind, list) and kind[0] == "null"
            default = {"default": None} if is_nullable or kind == "null" else {}
            fields.append({"name": child.name, "type": kind, **default})
        return {"type": "record", "name": name, "fields": fields}

    def _union_of(self, column: ArrowType, name: str, path: str) -> Any:
        branches: list[Any] = []
        for child in column.children:
            made = self.type_of(child, f"{name}_{_allowed(child.name)}", path)
            if isinstance(made, list):
                raise SchemaError("Avro has no union in a union", path)
            if child.is_nullable and "null" not in branches:
                branches.insert(0, "null")
            if made not in branches:
                branches.append(made)
        return branches


def _decimal_of(column: ArrowType, path: str) -> Any:
    precision, scale = (int(each) for each in column.format[2:].split(",")[:2])
    if scale < 0:
        precision, scale = precision - scale, 0
    if precision > DIGITS_MAX or scale > precision:
        raise SchemaError(f"a column of {column.label} has no Avro type: pass schema=", path)
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
