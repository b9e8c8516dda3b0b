"""Limits for payloads and values of Avro that fastavro doesn't have."""

from __future__ import annotations

import io
from typing import Any

from kafka_native.serialization import SerializationError

__all__ = ["HostileCheck"]

NESTING_MAX = 100
"""How deep records that contain themselves may be nested."""

EMPTY_ITEMS_MAX = 1_000_000
"""How many array items without bytes a payload may have: nulls, and records without fields."""

_TOO_DEEP = f"records that contain themselves are nested deeper than {NESTING_MAX} levels"
_SIZES = {"boolean": 1, "float": 4, "double": 8}


class _Payload(io.BytesIO):
    """A payload, and how many items without bytes it has: nulls, and records without fields."""

    empty_items = 0


class HostileCheck:
    """Refuses payloads and values that would end the process inside fastavro.

    Its C code recurses, so records that contain themselves could exhaust the stack. And a few bytes
    can announce any number of items that have no bytes. Other schemas need no check.
    """

    def __init__(self, schema: Any) -> None:
        self._is_recursive = self._has_empty_items = False
        self._named: dict[str, Any] = {}
        self._root = schema
        self._collect(schema, ())

    def _collect(self, schema: Any, around: tuple[str, ...]) -> None:
        if isinstance(schema, str):
            self._is_recursive = self._is_recursive or schema in around
        elif isinstance(schema, list):
            for branch in schema:
                self._collect(branch, around)
        elif isinstance(schema, dict):
            if "name" in schema:
                self._named[schema["name"]] = schema
                around = (*around, schema["name"])
            for part in ("items", "values"):
                self._collect(schema.get(part), around)
            for field in schema.get("fields", ()):
                self._collect(field["type"], around)
            if "items" in schema and self._is_empty(schema["items"], ()):
                self._has_empty_items = True

    def _is_empty(self, schema: Any, around: tuple[str, ...]) -> bool:
        """Return whether each value of a schema has no bytes."""
        if isinstance(schema, str):
            named = self._named.get(schema)
            if named is None or schema in around:
                return schema == "null"
            return self._is_empty(named, around)
        if not isinstance(schema, dict):
            return False
        if schema["type"] in ("record", "error"):
            around = (*around, schema["name"])
            return all(self._is_empty(field["type"], around) for field in schema["fields"])
        return schema["type"] == "null" or schema.get("size") == 0

    def check_payload(self, payload: bytes) -> None:
        """Raise SerializationError if a payload is nested too deep, or has too many items."""
        if self._is_recursive or self._has_empty_items:
            self._skip(self._root, _Payload(payload), 0)

    def check_value(self, value: Any, depth: int = 0) -> None:
        """Raise SerializationError if a value is nested too deep."""
        if not self._is_recursive:
            return
        if depth > 2 * NESTING_MAX:
            raise SerializationError(_TOO_DEEP)
        if isinstance(value, dict):
            value = value.values()
        elif not isinstance(value, list | tuple):
            return
        for part in value:
            self.check_value(part, depth + 1)

    def _skip(self, schema: Any, data: _Payload, depth: int) -> None:
        """Read past a value. At the end of the payload it stops: fastavro reports that."""
        if depth > NESTING_MAX:
            raise SerializationError(_TOO_DEEP)
        if isinstance(schema, list):
            index = _read_long(data)
            if 0 <= index < len(schema):
                self._skip(schema[index], data, depth)
            return
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind in ("record", "error"):
            for field in schema["fields"]:
                self._skip(field["type"], data, depth + 1)
        elif kind in ("array", "map"):
            self._skip_blocks(schema, kind, data, depth)
        elif kind in ("bytes", "string"):
            data.seek(max(0, _read_long(data)), io.SEEK_CUR)
        elif kind in ("int", "long", "enum"):
            _read_long(data)
        elif kind == "fixed":
            data.seek(schema["size"], io.SEEK_CUR)
        elif kind in _SIZES:
            data.seek(_SIZES[kind], io.SEEK_CUR)
        elif kind in self._named:
            self._skip(self._named[kind], data, depth)

    def _skip_blocks(self, schema: Any, kind: str, data: _Payload, depth: int) -> None:
        end = data.getbuffer().nbytes
        while (count := _read_long(data)) != 0:
            if count < 0:
                _read_long(data)
            if kind == "array" and self._is_empty(schema["items"], ()):
                data.empty_items += abs(count)
                if data.empty_items > EMPTY_ITEMS_MAX:
                    raise SerializationError(
                        f"the payload announces more than {EMPTY_ITEMS_MAX} items without bytes"
                    )
                continue
            for _ in range(abs(count)):
                if data.tell() >= end:
                    return
                if kind == "map":
                    self._skip("string", data, depth)
                self._skip(schema["items" if kind == "array" else "values"], data, depth + 1)


def _read_long(data: io.BytesIO) -> int:
    """Return a number of variable length. 0 at the end of the payload."""
    number = shift = 0
    while shift < 70:
        byte = data.read(1)
        if not byte:
            return 0
        number |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            break
        shift += 7
    return (number >> 1) ^ -(number & 1)
