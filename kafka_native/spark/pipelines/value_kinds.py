"""The formats of a topic's values, guessed from samples: JSON, text, Avro, Protobuf, other bytes.

Values with a schema registry's framing begin with a zero byte and the id of a schema. The id itself
doesn't tell the format. So each id has its own counts, and all samples of an id decide.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

__all__ = ["ValueKinds", "kind_of"]

FRAMED: Final = "with the registry's framing"
_FRAME_BYTES: Final = 5
_IDS_MAX: Final = 100
_ID_MAX: Final = (1 << 31) - 1
_FIELD_NUMBER_MAX: Final = 10_000
"""Larger field numbers of Protobuf are allowed, but they occur rarely except by chance."""
_VARINT_BYTES_MAX: Final = 10
_FORMATS: Final = ("JSON", "Protobuf", "Avro")


def kind_of(value: bytes) -> str:
    """The format that a value without framing looks like."""
    if not value:
        return "empty"
    if value.startswith(b"Obj\x01"):
        return "Avro file"
    if _is_json(value):
        return "JSON"
    if _is_text(value):
        return "text"
    return "Protobuf" if _is_protobuf(value) else "binary"


class ValueKinds:
    """Counts of samples by format. Results can be merged."""

    def __init__(self) -> None:
        """Start without samples."""
        self.sampled = 0
        self._plain: Counter[str] = Counter()
        self._framed: dict[int, Counter[str]] = {}  # by schema id

    def add(self, values: Iterable[bytes | None]) -> None:
        """Look at sampled values. Nulls are ignored."""
        for value in values:
            if value is None:
                continue
            self.sampled += 1
            schema_id = _schema_id(value)
            counts = None if schema_id is None else self._counts_of(schema_id)
            if counts is None:
                self._plain[kind_of(value)] += 1
            else:
                counts[_framed_kind(value)] += 1

    def _counts_of(self, schema_id: int) -> Counter[str] | None:
        if schema_id not in self._framed and len(self._framed) >= _IDS_MAX:
            return None  # so many ids are no ids
        return self._framed.setdefault(schema_id, Counter())

    def merge(self, other: ValueKinds) -> None:
        """Add the samples of another object."""
        self.sampled += other.sampled
        self._plain += other._plain
        for schema_id, found in other._framed.items():
            counts = self._counts_of(schema_id)
            if counts is None:
                self._plain["binary"] += found.total()
            else:
                counts += found

    @property
    def schemas(self) -> dict[int, tuple[str, int]]:
        """The format and the number of samples of each schema id."""
        return {
            schema_id: (_format_of(counts), counts.total())
            for schema_id, counts in sorted(self._framed.items())
        }

    @property
    def kinds(self) -> dict[str, int]:
        """The number of samples by format, most frequent first."""
        found = Counter(self._plain)
        for name, count in self.schemas.values():
            found[f"{name} {FRAMED}"] += count
        return dict(found.most_common())

    def to_json(self) -> list[Any]:
        """Return the state in the form of JSON, for `from_json`."""
        return [self.sampled, self._plain, list(self._framed.items())]

    @classmethod
    def from_json(cls, data: list[Any]) -> ValueKinds:
        """Restore the state that `to_json` returned."""
        made = cls()
        made.sampled, made._plain = data[0], Counter(data[1])
        made._framed = {schema_id: Counter(counts) for schema_id, counts in data[2]}
        return made


def _schema_id(value: bytes) -> int | None:
    if len(value) < _FRAME_BYTES or value[0] != 0:
        return None
    found = int.from_bytes(value[1:_FRAME_BYTES], "big")
    return found if 0 < found <= _ID_MAX else None


def _framed_kind(value: bytes) -> str:
    body = value[_FRAME_BYTES:]
    if _is_json(body):
        return "JSON"
    at = _after_message_indexes(body)
    return "Protobuf" if at is not None and _is_protobuf(body[at:], empty=True) else "Avro"


def _format_of(counts: Counter[str]) -> str:
    """The format of a schema. One sample that can't be Protobuf or JSON is enough for Avro."""
    return next((name for name in _FORMATS if set(counts) == {name}), "Avro")


def _is_json(value: bytes) -> bool:
    """Whether a value is a JSON object or array. A number or a word alone counts as text."""
    if value.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return False
    return True


def _is_text(value: bytes) -> bool:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return False
    return all(each.isprintable() or each in "\t\r\n" for each in text)


def _after_message_indexes(body: bytes) -> int | None:
    """The position behind Protobuf's message indexes; None: there are none."""
    count, at = _varint(body, 0)
    if count is None or count & 1 or count > 20:  # zigzag: an even number isn't negative
        return None
    for _ in range(count >> 1):
        index, at = _varint(body, at)
        if index is None or index & 1:
            return None
    return at


def _is_protobuf(value: bytes, *, empty: bool = False) -> bool:
    """Whether a value is a series of whole Protobuf fields."""
    at = 0
    while at < len(value):
        tag, at = _varint(value, at)
        if tag is None or not 0 < tag >> 3 <= _FIELD_NUMBER_MAX:
            return False
        end = _field_end(value, at, tag & 7)
        if end is None or end > len(value):
            return False
        at = end
    return bool(value) or empty


def _field_end(value: bytes, at: int, wire_type: int) -> int | None:
    if wire_type == 0:
        number, end = _varint(value, at)
        return None if number is None else end
    if wire_type == 2:
        length, start = _varint(value, at)
        return None if length is None else start + length
    return {1: at + 8, 5: at + 4}.get(wire_type)


def _varint(value: bytes, at: int) -> tuple[int | None, int]:
    """A variable-length integer and the position behind it; None: it isn't complete."""
    found = 0
    for number, byte in enumerate(value[at : at + _VARINT_BYTES_MAX]):
        found |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return found, at + number + 1
    return None, at
