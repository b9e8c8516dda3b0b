"""JSON Schemas for Arrow columns that have none."""

from __future__ import annotations

from typing import Any

from kafka_native.codecs.arrow_types import BINARIES, INTEGERS, TEXTS, ArrowType
from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.json_columns import DECIMAL_TITLE
from kafka_native.codecs.paths import below

__all__ = ["json_schema_of"]

DRAFT = "http://json-schema.org/draft-07/schema#"
UINT64_MAX = 2**64 - 1
CONNECT_TYPES = {"c": "int8", "s": "int16", "i": "int32", "l": "int64"}
BASE64 = {"type": "string", "contentEncoding": "base64", "connect.type": "bytes"}
SIMPLE: dict[str, dict[str, Any]] = {
    "n": {"type": "null"},
    "b": {"type": "boolean"},
    **{each: {"type": "integer", "connect.type": name} for each, name in CONNECT_TYPES.items()},
    **{each: {"type": "integer", "minimum": 0} for each in INTEGERS if each.isupper()},
    "L": {"type": "integer", "minimum": 0, "maximum": UINT64_MAX},
    "e": {"type": "number", "connect.type": "float32"},
    "f": {"type": "number", "connect.type": "float32"},
    "g": {"type": "number", "connect.type": "float64"},
    **{each: {"type": "string"} for each in TEXTS},
    **dict.fromkeys(BINARIES, BASE64),
    "tdD": {"type": "string", "format": "date"},
    "tdm": {"type": "string", "format": "date"},
}


def json_schema_of(description: tuple[Any, ...], title: str = "") -> dict[str, Any]:
    """Return the JSON Schema of a column's type.

    A field that may have nulls isn't required, because `JsonEncoder` leaves nulls out.

    :param description: The type, as `ColumnInput` describes it.
    :param title: The schema's title; empty: none.
    :raises SchemaError: The type can't be written as JSON.
    """
    head = {"$schema": DRAFT, "title": title} if title else {"$schema": DRAFT}
    return {**head, **_schema_of(ArrowType(description), "")}


def _schema_of(column: ArrowType, path: str) -> dict[str, Any]:
    form, extension = column.format, column.extension
    if column.values is not None:
        return _schema_of(column.values, path)
    if extension == "arrow.json" and form in TEXTS:
        return {}
    if form in SIMPLE:
        return dict(SIMPLE[form])
    if form == "+s":
        return _object_of(column, path)
    if form == "+m":
        value = column.children[0].children[1]
        return {"type": "object", "additionalProperties": _or_null(value, below(path, "[]"))}
    if form in ("+l", "+L") or form.startswith("+w:"):
        return {"type": "array", "items": _or_null(column.children[0], below(path, "[]"))}
    if column.is_union:
        return {"anyOf": [_or_null(each, path) for each in column.children]}
    if form.startswith("w:"):
        is_uuid = extension == "arrow.uuid"
        return {"type": "string", "format": "uuid"} if is_uuid else dict(BASE64)
    if form.startswith("d:"):
        return _decimal_of(form)
    if form.startswith("tt"):
        return {"type": "string", "format": "time"}
    if form.startswith("ts"):
        return {"type": "string", **({"format": "date-time"} if form[4:] else {})}
    if form.startswith("tD"):
        return {"type": "integer", "connect.type": "int64"}
    raise SchemaError(f"a column of {column.label} can't be encoded", path)


def _or_null(column: ArrowType, path: str) -> dict[str, Any]:
    """Return the schema of an item, with null if it may be null."""
    made = _schema_of(column, path)
    kind = made.get("type")
    if not column.is_nullable or not made or kind == "null":
        return made
    if isinstance(kind, str):
        return {**made, "type": [kind, "null"]}
    return {"anyOf": [*made["anyOf"], {"type": "null"}]}


def _object_of(column: ArrowType, path: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for child in column.children:
        inner = below(path, child.name)
        if child.name in properties:
            raise SchemaError("two columns of the struct have one name", inner)
        properties[child.name] = _schema_of(child, inner)
    required = [each.name for each in column.children if not each.is_nullable]
    made = {"type": "object", "properties": properties}
    return made | {"required": required} if required else made


def _decimal_of(form: str) -> dict[str, Any]:
    precision, scale = form[2:].split(",")[:2]
    parameters = {"scale": scale, "connect.decimal.precision": precision}
    return {"type": "number", "title": DECIMAL_TITLE, "connect.parameters": parameters}
