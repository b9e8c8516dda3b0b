"""The types of Arrow columns, read from the format strings of Arrow's C data interface."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from kafka_native._native.encode_core import NESTED_KINDS

__all__ = ["ArrowType"]

NULLABLE = 2
"""ARROW_FLAG_NULLABLE of Arrow's C data interface."""
INTEGERS = {"c": 1, "C": 1, "s": 2, "S": 2, "i": 4, "I": 4, "l": 8, "L": 8}
"""Integers and their bytes. Capital letters are unsigned."""
REALS = {"e": 2, "f": 4, "g": 8}
TEXTS = {"u": "bytes32", "U": "bytes64", "vu": "views"}
BINARIES = {"z": "bytes32", "Z": "bytes64", "vz": "views"}
LISTS = {"+l": "list32", "+L": "list64", "+m": "list32"}
TIMES = {"tdD": 4, "tdm": 8, "tts": 4, "ttm": 4, "ttu": 8, "ttn": 8, "tin": 16}
TICKS = {"s": 1, "m": 1_000, "u": 1_000_000, "n": 1_000_000_000}
"""Ticks a second, by the letter of a time's unit."""
NAMES = {
    "n": "null",
    "b": "bool",
    "c": "int8",
    "C": "uint8",
    "s": "int16",
    "S": "uint16",
    "i": "int32",
    "I": "uint32",
    "l": "int64",
    "L": "uint64",
    "e": "float16",
    "f": "float32",
    "g": "float64",
    "z": "binary",
    "Z": "large_binary",
    "vz": "binary_view",
    "u": "string",
    "U": "large_string",
    "vu": "string_view",
    "tdD": "date32",
    "tdm": "date64",
    "tin": "month_day_nano_interval",
    "+l": "list",
    "+L": "large_list",
    "+m": "map",
    "+s": "struct",
    "+vl": "list_view",
    "+vL": "large_list_view",
    "+r": "run_end_encoded",
}
PREFIXED_NAMES = {
    "+w:": "fixed_size_list",
    "+ud:": "dense_union",
    "+us:": "sparse_union",
    "w:": "fixed_size_binary",
    "d:": "decimal",
    "tt": "time",
    "ts": "timestamp",
    "tD": "duration",
    "ti": "interval",
}


class ArrowType:
    """A column's type.

    Attributes
    ----------
    format : str
        The format string. Of a dictionary: the type of its indices.
    name : str
        The field's name.
    is_nullable : bool
        Whether the field may have nulls.
    children : tuple of ArrowType
        The types below.
    metadata : bytes, optional
        The field's metadata in Arrow's encoding, if the reader of the type asked for them.
    values : ArrowType, optional
        The type of a dictionary's values.
    is_read : bool
        Whether a program reads the column. Other columns aren't even checked.
    node : int
        Its number among the columns that are read or skipped, in preorder. `number()` sets it.
    """

    format: str
    name: str
    metadata: bytes | None
    __slots__ = (
        "children",
        "format",
        "is_nullable",
        "is_read",
        "metadata",
        "name",
        "node",
        "values",
    )

    def __init__(self, description: tuple[Any, ...]) -> None:
        """``description`` is a result of `read_arrow_schema`, or `ColumnInput.description`."""
        self.format, self.name, flags, children, dictionary, self.metadata = description
        self.is_nullable = bool(flags & NULLABLE)
        self.children = tuple(ArrowType(each) for each in children)
        self.values = None if dictionary is None else ArrowType(dictionary)
        self.is_read = False
        self.node = -1

    @property
    def label(self) -> str:
        """The type's name as in Arrow's documentation, for errors."""
        if self.values is not None:
            return f"dictionary of {self.values.label}"
        for prefix, name in PREFIXED_NAMES.items():
            if self.format.startswith(prefix) and self.format not in NAMES:
                return f"{name} ({self.format})"
        return NAMES.get(self.format, self.format)

    @property
    def extension(self) -> str:
        """The name of the extension type in the metadata, or an empty string."""
        data, at = self.metadata or b"", 4
        parts = []
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], sys.byteorder)
            parts.append(data[at + 4 : at + 4 + size])
            at += 4 + size
        found = dict(zip(parts[::2], parts[1::2], strict=False))
        return found.get(b"ARROW:extension:name", b"").decode("utf-8", "replace")

    @property
    def map_entries(self) -> ArrowType | None:
        """The struct of keys and values: of a map, or of a list of structs with these names."""
        entries = self.children[0] if self.format in ("+m", "+l", "+L") else None
        if entries is None or entries.format != "+s" or len(entries.children) != 2:
            return None
        names = tuple(each.name for each in entries.children)
        return entries if self.format == "+m" or names == ("key", "value") else None

    @property
    def is_union(self) -> bool:
        """Whether the column is a dense or sparse union."""
        return self.format.startswith("+u") and self.values is None

    @property
    def width(self) -> int:
        """The bytes of an item, or the items of a list with a fixed size; 0 for other types."""
        if self.format in INTEGERS:
            return INTEGERS[self.format]
        if self.format in REALS:
            return REALS[self.format]
        if self.format in TIMES:
            return TIMES[self.format]
        if self.format.startswith(("ts", "tD")):
            return 8
        if self.format.startswith("d:"):
            parts = self.format[2:].split(",")
            return int(parts[2]) // 8 if len(parts) > 2 else 16
        if self.format.startswith(("w:", "+w:")):
            return int(self.format.rpartition(":")[2])
        return 0

    @property
    def kind(self) -> str | None:
        """The physical kind, a key of ``NESTED_KINDS``; None: it isn't supported."""
        if self.values is not None:
            return "dictionary" if self.format in INTEGERS else None
        for kinds in (TEXTS, BINARIES, LISTS):
            if self.format in kinds:
                return kinds[self.format]
        simple = {"n": "none", "b": "bits", "+s": "struct"}
        if self.format in simple:
            return simple[self.format]
        prefixed = {"+w:": "fixed_list", "+ud:": "dense_union", "+us:": "sparse_union"}
        for prefix, kind in prefixed.items():
            if self.format.startswith(prefix):
                return kind
        return "fixed" if self.width or self.format == "w:0" else None

    @property
    def type_ids(self) -> list[int]:
        """The type ids of a union's children."""
        ids = self.format.partition(":")[2]
        return [int(each) for each in ids.split(",")] if ids else []

    def mark(self) -> None:
        """Mark the column as read."""
        self.is_read = True

    def walk(self) -> Iterator[ArrowType]:
        """Yield the column and those below, in preorder. Skipped columns have none below."""
        yield self
        if self.is_read:
            for child in self.children if self.values is None else (self.values,):
                yield from child.walk()

    def number(self) -> list[tuple[int, int, int, int]]:
        """Number the columns. Return their nodes, for a program."""
        nodes = []
        for node, each in enumerate(self.walk()):
            each.node = node
            kind = each.kind if each.is_read else "skipped"
            assert kind is not None
            is_signed = each.format in INTEGERS and each.format.islower()
            count = 1 if each.values is not None else len(each.children)
            nodes.append(
                (NESTED_KINDS[kind], each.width, int(is_signed), count if each.is_read else 0)
            )
        return nodes
