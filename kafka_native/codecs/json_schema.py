"""Columns from a JSON Schema.

A JSON Schema validates. It doesn't always say which type a value has. Where it doesn't, the column
has the JSON text of the value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from kafka_native.codecs import json_columns as columns
from kafka_native.codecs.errors import SchemaError
from kafka_native.codecs.json_columns import CONNECT_DATA, DECIMAL_TITLE, JsonColumn
from kafka_native.codecs.paths import below

__all__ = ["column_of_schema"]

COLUMNS_MAX = 65536  # KN_LAYOUT_NODES_MAX, csrc/codecs/layout.h
DEPTH_MAX = 64  # KN_LAYOUT_DEPTH_MAX
INT64_MAX = 2**63 - 1
CONNECT_TYPES = {
    "int8": ("INT", "c", 1),
    "int16": ("INT", "s", 2),
    "int32": ("INT", "i", 4),
    "int64": ("INT", "l", 8),
    "float32": ("FLOAT", "f", 4),
    "float64": ("DOUBLE", "g", 8),
}
"""Rule, format and width for the ``connect.type`` of a number, which Kafka Connect writes."""

UINT64_MAX = 2**64 - 1


def column_of_schema(
    schema: str | bytes | Mapping[str, Any] | bool,
    references: Mapping[str, str | bytes | Mapping[str, Any]],
    unit: str,
) -> JsonColumn:
    """Return the column for the values of a JSON Schema.

    :raises SchemaError: The schema is malformed, or has a reference that leads nowhere.
    """
    try:
        return _Reader(parsed(schema), references, unit).root()
    except SchemaError:
        raise
    except ValueError as error:  # of urljoin()
        raise SchemaError(f"an $id or $ref is malformed: {error}") from None


def parsed(schema: Any) -> Any:
    """Return a schema as parsed JSON."""
    if isinstance(schema, (str, bytes)):
        try:
            schema = json.loads(schema)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"the schema isn't JSON: {error}") from None
    if not isinstance(schema, (Mapping, bool)):
        raise SchemaError("a JSON Schema is an object or a boolean")
    return schema


class _Reader:
    """Reads one schema with its references."""

    def __init__(self, schema: Any, references: Mapping[str, Any], unit: str) -> None:
        self._schema = schema
        self._unit = unit
        self._documents: dict[str, Any] = {}
        self._bases: dict[int, str] = {}
        self._count = 0
        for name, reference in references.items():
            self._add(name, parsed(reference))
        self._add("", schema)

    def root(self) -> JsonColumn:
        return self._column(self._schema, "", True, "", ())

    # references

    def _add(self, name: str, document: Any) -> None:
        """Note a document under its name, and the base, ids and anchors of its parts."""
        self._documents[name] = document
        open_values = [(document, name)]
        while open_values:
            value, base = open_values.pop()
            if isinstance(value, list):
                open_values += ((each, base) for each in value)
            if not isinstance(value, Mapping):
                continue
            own, anchor = value.get("$id"), value.get("$anchor")
            if isinstance(own, str):
                base = urldefrag(urljoin(base, own))[0]
                self._documents.setdefault(base, value)
            if isinstance(anchor, str):
                self._documents.setdefault(f"{base}#{anchor}", value)
            self._bases[id(value)] = base
            open_values += ((each, base) for each in value.values())

    def _resolve(self, schema: Mapping[str, Any], path: str) -> Any:
        """Return the schema that a reference leads to."""
        reference = schema["$ref"]
        if not isinstance(reference, str):
            raise SchemaError("a $ref isn't a string", path)
        for whole in (urljoin(self._bases[id(schema)], reference), reference):
            if whole in self._documents:
                return self._documents[whole]
            name, fragment = urldefrag(whole)
            if name not in self._documents or (fragment and not fragment.startswith("/")):
                continue
            value = self._documents[name]
            for step in unquote(fragment).split("/")[1:]:
                key = step.replace("~1", "/").replace("~0", "~")
                if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
                    value = value[int(key)]
                elif isinstance(value, Mapping) and key in value:
                    value = value[key]
                else:
                    raise SchemaError(f"the $ref {reference!r} leads nowhere", path)
            return value
        raise SchemaError(f"the $ref {reference!r} leads nowhere", path)

    # columns

    def _column(
        self, schema: Any, name: str, nullable: bool, path: str, seen: tuple[int, ...]
    ) -> JsonColumn:
        """Return the column of a schema. ``seen`` has the schemas around it."""
        self._note(path)
        if isinstance(schema, bool):
            return columns.raw(name)
        if not isinstance(schema, Mapping):
            raise SchemaError("a schema is an object or a boolean", path)
        if id(schema) in seen or len(seen) >= DEPTH_MAX:
            return columns.raw(name)  # a type that contains itself has no columns
        seen = (*seen, id(schema))
        if "$ref" in schema:
            return self._column(self._resolve(schema, path), name, nullable, path, seen)
        if "allOf" in schema:
            merged = self._merged(schema, path)
            return self._column(merged, name, nullable, path, seen)
        has_type = any(key in schema for key in ("type", "enum", "const", *IMPLIED))
        for choice in ("anyOf", "oneOf"):
            if choice in schema and not has_type:  # else it only constrains the value
                branches = self._branches(schema[choice], path)
                others = [each for each in branches if not _is_null(each)]
                if len(others) != 1:
                    return columns.raw(name)
                nullable = nullable or len(others) < len(branches)
                return self._column(others[0], name, nullable, path, seen)
        return self._typed(schema, name, nullable, path, seen)

    @staticmethod
    def _branches(branches: Any, path: str) -> list[Any]:
        if not isinstance(branches, list) or not branches:
            raise SchemaError("allOf, anyOf and oneOf have a list of schemas", path)
        return branches

    def _merged(self, schema: Mapping[str, Any], path: str, depth: int = 0) -> dict[str, Any]:
        """Return one schema for a schema and all parts of its allOf."""
        self._note(path)
        if depth > DEPTH_MAX:
            raise SchemaError("an allOf contains itself, or is nested too deeply", path)
        merged: dict[str, Any] = {}
        own = {key: value for key, value in schema.items() if key != "allOf"}
        for each in (*self._branches(schema["allOf"], path), own):
            part = self._target(each, path)
            if isinstance(part, bool):
                continue
            if not isinstance(part, Mapping):
                raise SchemaError("a schema is an object or a boolean", path)
            if "allOf" in part:
                part = self._merged(part, path, depth + 1)
            for key, value in part.items():
                before = merged.get(key)
                if before is None or key not in ("properties", "required"):
                    merged[key] = value
                elif isinstance(before, Mapping) and isinstance(value, Mapping):
                    merged[key] = {**before, **value}
                elif isinstance(before, list) and isinstance(value, list):
                    merged[key] = [*before, *value]
                else:
                    raise SchemaError(f"an allOf has a malformed {key}", path)
        return merged

    def _target(self, schema: Any, path: str) -> Any:
        """Return a schema, or what its reference leads to."""
        for _ in range(DEPTH_MAX):
            if not isinstance(schema, Mapping) or "$ref" not in schema:
                return schema
            schema = self._resolve(schema, path)
        raise SchemaError("a $ref leads to itself", path)

    def _note(self, path: str) -> None:
        """Count a step: references can make a small schema large."""
        self._count += 1
        if self._count > COLUMNS_MAX:
            raise SchemaError(f"the schema has more than {COLUMNS_MAX} columns", path)

    def _typed(
        self,
        schema: Mapping[str, Any],
        name: str,
        nullable: bool,
        path: str,
        seen: tuple[int, ...],
    ) -> JsonColumn:
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if isinstance(values, list) and values:
            texts = tuple(dict.fromkeys(each for each in values if isinstance(each, str)))
            if texts and all(each is None or isinstance(each, str) for each in values):
                return columns.leaf(
                    "ENUM", "dictionary", "u", name, nullable or None in values, values=texts
                )
        kind = schema.get("type")
        if kind is None:
            kind = next((kind for key, kind in IMPLIED.items() if key in schema), None)
        kinds = list(kind) if isinstance(kind, list) else [kind]
        if "null" in kinds and len(kinds) > 1:
            nullable = True
            kinds.remove("null")
        if sorted(map(str, kinds)) == ["integer", "number"]:
            kinds = ["number"]
        if len(kinds) != 1 or kinds[0] is None:
            return columns.raw(name)
        if kinds[0] == "object":
            return self._object(schema, name, nullable, path, seen)
        if kinds[0] == "array":
            items = schema.get("items")
            if not isinstance(items, Mapping) or "prefixItems" in schema:
                return self._raw(name, nullable)
            inner = below(path, "[]")
            item = self._column(items, "item", False, inner, seen)
            return columns.list_of(name, nullable, item)
        return self._scalar(schema, kinds[0], name, nullable, path)

    @staticmethod
    def _raw(name: str, nullable: bool) -> JsonColumn:
        return columns.leaf("RAW", "bytes", "u", name, nullable)

    def _object(
        self,
        schema: Mapping[str, Any],
        name: str,
        nullable: bool,
        path: str,
        seen: tuple[int, ...],
    ) -> JsonColumn:
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and properties:
            required = schema.get("required", [])
            if not isinstance(required, list):
                raise SchemaError("required isn't a list", path)
            return columns.struct(
                name,
                nullable,
                (
                    self._column(each, field, field not in required, below(path, field), seen)
                    for field, each in _in_connect_order(properties)
                ),
                path,
                required,
            )
        others = schema.get("additionalProperties")
        if isinstance(others, Mapping) and "patternProperties" not in schema:
            value = self._column(others, "value", False, below(path, "[]"), seen)
            return columns.map_of(name, nullable, value)
        return self._raw(name, nullable)

    def _scalar(
        self, schema: Mapping[str, Any], kind: Any, name: str, nullable: bool, path: str
    ) -> JsonColumn:
        column = _of_connect(schema, kind, name, nullable)
        if column is not None:
            return column
        if kind == "string":
            return self._string(schema, name, nullable)
        if kind == "integer":
            least, largest = _limit(schema, "minimum"), _limit(schema, "maximum")
            if least >= -INT64_MAX - 1 and largest <= INT64_MAX:
                return columns.leaf("INT", "fixed", "l", name, nullable, width_bytes=8)
            if least >= 0 and "minimum" in schema and largest <= UINT64_MAX:
                return columns.leaf("UINT", "fixed", "L", name, nullable, width_bytes=8)
            return self._raw(name, nullable)
        if kind == "number":
            return columns.leaf("DOUBLE", "fixed", "g", name, nullable, width_bytes=8)
        if kind == "boolean":
            return columns.leaf("BOOLEAN", "bits", "b", name, nullable)
        if kind == "null":
            return columns.leaf("NONE", "none", "n", name, True)
        raise SchemaError(f"there is no type {kind!r}", path)

    def _string(self, schema: Mapping[str, Any], name: str, nullable: bool) -> JsonColumn:
        format = schema.get("format")
        if format == "date-time":
            return columns.timestamp(name, nullable, self._unit, "UTC")
        if format == "date":
            return columns.leaf("DATE", "fixed", "tdD", name, nullable, width_bytes=4)
        if format == "time":
            power = columns.UNITS[self._unit]
            time = columns.leaf(
                "TIME",
                "fixed",
                f"tt{self._unit}",
                name,
                nullable,
                width_bytes=8 if power > 3 else 4,
                arg=power,
            )
            return replace(time, form="utc")
        if format == "uuid":
            return columns.leaf("UUID", "fixed", "w:16", name, nullable, width_bytes=16)
        if schema.get("contentEncoding") == "base64" or schema.get("connect.type") == "bytes":
            return columns.leaf("BINARY", "bytes", "z", name, nullable)
        return columns.leaf("TEXT", "bytes", "u", name, nullable)


IMPLIED = {"properties": "object", "additionalProperties": "object", "items": "array"}
"""The types of schemas that don't name one, by a keyword."""


def _in_connect_order(properties: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the properties, by ``connect.index`` if all have one."""
    items = list(properties.items())
    for _, each in items:
        if not isinstance(each, Mapping) or not isinstance(each.get("connect.index"), int):
            return items
    return sorted(items, key=lambda item: int(item[1]["connect.index"]))


def _of_connect(
    schema: Mapping[str, Any], type_name: str, name: str, nullable: bool
) -> JsonColumn | None:
    """Return the column of a value that Kafka Connect has described, or None for other ones."""
    title = schema.get("title")
    is_number = type_name in ("integer", "number")
    if title == DECIMAL_TITLE and (is_number or type_name == "string"):
        return _decimal_of_connect(
            schema, "DECIMAL" if is_number else "DECIMAL_BYTES", name, nullable
        )
    if not is_number:
        return None
    if title == f"{CONNECT_DATA}Date":
        date = columns.leaf("DATE", "fixed", "tdD", name, nullable, width_bytes=4)
        return replace(date, form="number")
    if title == f"{CONNECT_DATA}Time":
        time = columns.leaf("TIME", "fixed", "ttm", name, nullable, width_bytes=4, arg=3)
        return replace(time, form="number")
    if title == f"{CONNECT_DATA}Timestamp":
        return replace(columns.timestamp(name, nullable, "m", "UTC"), form="number")
    kind = schema.get("connect.type")
    if not isinstance(kind, str) or kind not in CONNECT_TYPES:
        return None
    code, format, width = CONNECT_TYPES[kind]
    return columns.leaf(code, "fixed", format, name, nullable, width_bytes=width)


def _decimal_of_connect(
    schema: Mapping[str, Any], code: str, name: str, nullable: bool
) -> JsonColumn | None:
    """Return the column of a decimal. Connect's decimals need not have a precision."""
    parameters = schema.get("connect.parameters")
    try:
        scale = int(parameters["scale"])  # type: ignore[index]
        precision = int(parameters.get("connect.decimal.precision", 38))  # type: ignore[union-attr]
    except (TypeError, KeyError, ValueError):
        return None
    if not 1 <= precision <= 76 or not -precision <= scale <= 76:
        return None
    return columns.decimal(code, name, nullable, precision, scale, 128 if precision <= 38 else 256)


def _limit(schema: Mapping[str, Any], name: str) -> float:
    limit = schema.get(name)
    return limit if isinstance(limit, (int, float)) else 0


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and (
        schema.get("type") == "null" or schema.get("const", 0) is None
    )
