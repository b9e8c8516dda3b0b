"""Columns from records: the types of the first JSON values."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Iterable
from itertools import islice
from typing import Any

from kafka_native.codecs import json_columns as columns
from kafka_native.codecs.errors import DecodeError, SchemaError
from kafka_native.codecs.json_columns import JsonColumn
from kafka_native.codecs.paths import below

__all__ = ["infer_column"]

DEPTH_MAX = 60  # below it, columns have JSON text
TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.\d{1,6}0*)?)?", re.ASCII
)
ZONE = re.compile(r"[Zz]|[+-](\d\d)(?::?(\d\d))?", re.ASCII)
LEAP_YEAR = 400  # stands for the year 0, which Python's dates lack


def infer_column(records: Iterable[Any], *, count: int, timestamps: bool) -> JsonColumn:
    """Return the column for the first ``count`` records. All fields are nullable.

    :raises DecodeError: A record isn't JSON.
    :raises SchemaError: There is no record with a value.
    """
    shape = _Shape()
    for row, item in enumerate(islice(records, count)):
        record = item.as_py() if hasattr(item, "as_py") else item
        if record is None:
            continue
        if not isinstance(record, bytes):
            raise TypeError(f"a record must be bytes or None, not {type(record).__name__}")
        try:
            value = json.loads(record.decode(), parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise DecodeError(f"it isn't JSON: {error}", row=row, path="", position=0) from None
        shape.add(value)
    if not shape.kinds - {"null"}:
        raise SchemaError("no record has a value: nothing can be inferred")
    return shape.column("", "", timestamps, 0)


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is no JSON value")


class _Shape:
    """What the values of one place look like."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.least = self.largest = 0
        self.fields: dict[str, _Shape] = {}
        self.item: _Shape | None = None
        self.zones: set[bool | None] = set()

    def add(self, value: Any) -> None:
        """Note one value."""
        if value is None:
            self.kinds.add("null")
        elif isinstance(value, str):
            self.kinds.add("string")
            self.zones.add(has_zone(value))
        elif isinstance(value, bool):
            self.kinds.add("boolean")
        elif isinstance(value, int):
            self.kinds.add("integer")
            self.least, self.largest = min(self.least, value), max(self.largest, value)
        elif isinstance(value, float):
            self.kinds.add("number" if math.isfinite(value) else "huge")
        elif isinstance(value, list):
            self.kinds.add("array")
            self.item = self.item or _Shape()
            for each in value:
                self.item.add(each)
        else:
            self.kinds.add("object")
            for name, each in value.items():
                self.fields.setdefault(name, _Shape()).add(each)

    def column(self, name: str, path: str, timestamps: bool, depth: int) -> JsonColumn:
        """Return the column for all values."""
        kinds = self.kinds - {"null"}
        if kinds == {"integer", "number"}:
            kinds = {"number"}
        if len(kinds) != 1 or depth > DEPTH_MAX:
            return columns.raw(name)
        kind = next(iter(kinds))
        if kind == "object" and self.fields and not any("\0" in each for each in self.fields):
            return columns.struct(
                name,
                True,
                (
                    each.column(field, below(path, field), timestamps, depth + 1)
                    for field, each in self.fields.items()
                ),
                path,
            )
        if kind == "array" and self.item is not None:
            inner = self.item.column("item", below(path, "[]"), timestamps, depth + 1)
            return columns.list_of(name, True, inner)
        return self._scalar(kind, name, timestamps)

    def _scalar(self, kind: str, name: str, timestamps: bool) -> JsonColumn:
        if kind == "boolean":
            return columns.leaf("BOOLEAN", "bits", "b", name, True)
        if kind == "number":
            return columns.leaf("DOUBLE", "fixed", "g", name, True, width_bytes=8)
        if kind == "integer" and self.least >= -(2**63) and self.largest < 2**63:
            return columns.leaf("INT", "fixed", "l", name, True, width_bytes=8)
        if kind == "integer" and self.least >= 0 and self.largest < 2**64:
            return columns.leaf("UINT", "fixed", "L", name, True, width_bytes=8)
        if kind == "string" and timestamps and len(self.zones) == 1 and None not in self.zones:
            return columns.timestamp(name, True, "u", "UTC" if True in self.zones else "")
        if kind == "string":
            return columns.leaf("TEXT", "bytes", "u", name, True)
        return columns.raw(name)


def has_zone(text: str) -> bool | None:
    """Return whether a timestamp has a time zone, or None for other text.

    A timestamp that doesn't exist is other text, such as MySQL's ``0000-00-00T00:00:00``.
    """
    found = TIMESTAMP.match(text)
    if found is None or not _exists(*(int(each or 0) for each in found.groups())):
        return None
    rest = text[found.end() :]
    if not rest:
        return False
    zone = ZONE.fullmatch(rest)
    return True if zone and int(zone[1] or 0) < 24 and int(zone[2] or 0) < 60 else None


def _exists(year: int, month: int, day: int, hour: int, minute: int, second: int) -> bool:
    try:
        datetime.date(year or LEAP_YEAR, month, day)
        datetime.time(hour, minute, second)
    except ValueError:
        return False
    return True
