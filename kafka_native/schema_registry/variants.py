"""Variants: values whose type is in the data, in the binary form of Parquet and Spark.

A variant has two parts. The metadata are the names of fields. The value has a header byte, whose
two low bits say whether it is a primitive, a short string, an object or an array. All numbers are
little-endian. Reading checks each place against the end of the data.
"""

from __future__ import annotations

import base64
import datetime
import json
import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

VERSION: Final = 1
PRIMITIVE, SHORT_STRING, OBJECT, ARRAY = range(4)
DEPTH_MAX: Final = 100
TEXT_MAX: Final = 16 << 20
"""Characters of JSON at most. A part of a malformed variant may be in it many times."""
PARTS_MAX: Final = 1_000_000
"""Parts of JSON at most, such as values, names and brackets."""
SHORT_STRING_MAX: Final = 63

KINDS: Final = (
    ("null", 0), ("boolean", 0), ("boolean", 0), ("int", 1), ("int", 2), ("int", 4), ("int", 8),
    ("double", 8), ("decimal", 5), ("decimal", 9), ("decimal", 17), ("date", 4), ("timestamp", 8),
    ("timestamp", 8), ("double", 4), ("bytes", 4), ("string", 4), ("time", 8), ("timestamp", 8),
    ("timestamp", 8), ("uuid", 16),
)  # fmt: skip
"""The kind of each primitive type, and its bytes: for bytes and strings, those of the length."""
TRUE, FALSE, DOUBLE, DECIMAL16, FLOAT, LONG_STRING = 1, 2, 7, 10, 14, 16
LOCAL_TIMES: Final = (13, 19)
NANOSECOND_TIMES: Final = (18, 19)
INTS: Final = {1: 3, 2: 4, 4: 5, 8: 6}
"""The primitive type of an int of so many bytes."""
DECIMAL_DIGITS_MAX: Final = 38
TOO_MANY_DIGITS: Final = "a number has more than 38 digits"
EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


class VariantError(ValueError):
    """A variant is malformed, or has a value that can't be shown."""


@dataclass(frozen=True)
class Variant:
    """A value of a variant. Its parts are read when they are asked for."""

    metadata: bytes
    data: bytes
    place: int = 0
    """Where the value begins in the data."""

    def __post_init__(self) -> None:
        if not self.metadata or self.metadata[0] & 15 != VERSION:
            raise VariantError("the variant's metadata doesn't begin with version 1")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Variant):
            return NotImplemented
        return (self.metadata, self.value) == (other.metadata, other.value)

    def __hash__(self) -> int:
        return hash((self.metadata, self.value))

    @property
    def value(self) -> bytes:
        """The bytes of the value, perhaps with bytes behind it, which readers ignore."""
        return self.data[self.place :]

    @property
    def kind(self) -> str:
        """The kind, such as ``object``, ``int`` or ``timestamp``."""
        basic, header = self._header()
        if basic == PRIMITIVE:
            return self._primitive(header)[0]
        return {SHORT_STRING: "string", OBJECT: "object", ARRAY: "array"}[basic]

    def field(self, name: str) -> Variant | None:
        """Return a field of an object, or None if it has no such field."""
        wanted = name.encode()
        for number, value in self._fields():
            if self._name(number, len(wanted)) == wanted:
                return value
        return None

    def item(self, index: int) -> Variant | None:
        """Return an item of an array, or None if it has no such item."""
        count, offsets, size, items = self._items()
        return self._child(items, offsets + index * size, size) if 0 <= index < count else None

    def scalar(self) -> Any:
        """Return the value of a primitive, for example a bool, Decimal, str or datetime."""
        basic, header = self._header()
        if basic == SHORT_STRING:
            return self._text(self.place + 1, header)
        if basic != PRIMITIVE:
            raise VariantError(f"the variant is an {self.kind}")
        kind, size = self._primitive(header)
        start = self.place + 1
        if kind in ("string", "bytes"):
            length, start = _number(self.data, start, size), start + size
            if kind == "string":
                return self._text(start, length)
            return _slice(self.data, start, length)
        return _SCALARS[kind](header, _slice(self.data, start, size))

    def to_json(self) -> str:
        """Return the value as JSON. Bytes are base64, times ISO 8601, decimals numbers."""
        text = _JsonText()
        self._write_json(text, 0)
        return "".join(text.parts)

    def _write_json(self, text: _JsonText, depth: int) -> None:
        kind = self.kind
        if depth > DEPTH_MAX:
            raise VariantError("the variant is nested too deeply")
        if kind == "object":
            text.add("{")
            for position, (number, value) in enumerate(self._fields()):
                name = json.dumps(_decoded(self._name(number)), ensure_ascii=False)
                text.add(f"{',' if position else ''}{name}:")
                value._write_json(text, depth + 1)
            text.add("}")
        elif kind == "array":
            count, offsets, size, items = self._items()
            text.add("[")
            for index in range(count):
                text.add("," if index else "")
                self._child(items, offsets + index * size, size)._write_json(text, depth + 1)
            text.add("]")
        else:
            text.add(self._scalar_json(kind))

    def _scalar_json(self, kind: str) -> str:
        header = self._header()[1]
        if kind == "timestamp":
            text = _timestamp_text(header, _slice(self.data, self.place + 1, 8))
            return f'"{text}"'
        value = self.scalar()
        if isinstance(value, bytes):
            value = base64.b64encode(value).decode()
        elif isinstance(value, float):
            return _float_text(value, is_short=header == FLOAT)
        elif isinstance(value, Decimal):
            return format(value, "f")
        elif isinstance(value, (datetime.date, datetime.time)):
            value = value.isoformat()
        elif isinstance(value, uuid.UUID):
            value = str(value)
        return json.dumps(value, ensure_ascii=False)

    # --- places in the data ---

    def _header(self) -> tuple[int, int]:
        byte = _slice(self.data, self.place, 1)[0]
        return byte & 3, byte >> 2

    def _primitive(self, header: int) -> tuple[str, int]:
        if header >= len(KINDS):
            raise VariantError(f"the variant has the unknown type {header}")
        return KINDS[header]

    def _fields(self) -> Iterator[tuple[int, Variant]]:
        """The number of the name and the value of each field of an object."""
        basic, header = self._header()
        if basic != OBJECT:
            return
        count_bytes = 4 if header & 16 else 1
        id_size, offset_size = (header >> 2 & 3) + 1, (header & 3) + 1
        count = _number(self.data, self.place + 1, count_bytes)
        ids = self.place + 1 + count_bytes
        offsets = ids + count * id_size
        items = offsets + (count + 1) * offset_size
        for index in range(count):
            number = _number(self.data, ids + index * id_size, id_size)
            yield number, self._child(items, offsets + index * offset_size, offset_size)

    def _items(self) -> tuple[int, int, int, int]:
        """The count of an array, and the place and size of its offsets, and where items begin."""
        basic, header = self._header()
        if basic != ARRAY:
            return 0, 0, 1, 0
        count_bytes, size = 4 if header & 4 else 1, (header & 3) + 1
        count = _number(self.data, self.place + 1, count_bytes)
        offsets = self.place + 1 + count_bytes
        return count, offsets, size, offsets + (count + 1) * size

    def _child(self, items: int, offset: int, size: int) -> Variant:
        return Variant(self.metadata, self.data, items + _number(self.data, offset, size))

    def _name(self, number: int, length: int | None = None) -> bytes:
        """The name of a number; empty if it has another length than the given one."""
        size = (self.metadata[0] >> 6) + 1
        count = _number(self.metadata, 1, size)
        if number >= count:
            raise VariantError(f"the variant has no name {number}")
        start, end = (_number(self.metadata, 1 + (number + at) * size, size) for at in (1, 2))
        if length not in (None, end - start):
            return b""
        return _slice(self.metadata, 1 + (count + 2) * size + start, end - start)

    def _text(self, start: int, length: int) -> str:
        return _decoded(_slice(self.data, start, length))


class _JsonText:
    """The parts of a JSON text, up to the limits."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._left = TEXT_MAX

    def add(self, part: str) -> None:
        self._left -= len(part)
        if self._left < 0 or len(self.parts) >= PARTS_MAX:
            raise VariantError("the variant is too large for JSON")
        self.parts.append(part)


def _slice(data: bytes, start: int, length: int) -> bytes:
    if length < 0 or start + length > len(data):
        raise VariantError("the variant ends too early")
    return data[start : start + length]


def _number(data: bytes, start: int, size: int) -> int:
    return int.from_bytes(_slice(data, start, size), "little")


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise VariantError("a text of the variant isn't UTF-8") from None


def _int(_header: int, data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _decimal(_header: int, data: bytes) -> Decimal:
    scale, unscaled = data[0], _int(0, data[1:])
    if scale > DECIMAL_DIGITS_MAX or abs(unscaled) >= 10**DECIMAL_DIGITS_MAX:
        raise VariantError("a decimal of the variant has more than 38 digits")
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


def _double(header: int, data: bytes) -> float:
    [found] = struct.unpack("<f" if header == FLOAT else "<d", data)
    return float(found)


def _date(_header: int, data: bytes) -> datetime.date:
    try:
        return EPOCH.date() + datetime.timedelta(days=_int(0, data))
    except OverflowError:
        raise VariantError("a date of the variant is outside of the years 1 to 9999") from None


def _time(_header: int, data: bytes) -> datetime.time:
    microseconds = _int(0, data)
    if not 0 <= microseconds < 86_400_000_000:
        raise VariantError("a time of the variant is no time of day")
    return (EPOCH + datetime.timedelta(microseconds=microseconds)).time()


def _timestamp(header: int, data: bytes) -> datetime.datetime:
    microseconds = _int(0, data) // (1000 if header in NANOSECOND_TIMES else 1)
    try:
        return EPOCH + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        raise VariantError("a timestamp of the variant is outside of the years 1 to 9999") from None


_SCALARS: Final[dict[str, Any]] = {
    "null": lambda _header, _data: None,
    "boolean": lambda header, _data: header == TRUE,
    "int": _int,
    "double": _double,
    "decimal": _decimal,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "uuid": lambda _header, data: uuid.UUID(bytes=data),
}


def _timestamp_text(header: int, data: bytes) -> str:
    """ISO 8601 with 0, 3, 6 or 9 digits of a second; in UTC, unless the time is local."""
    nanoseconds = _int(0, data) * (1 if header in NANOSECOND_TIMES else 1000) % 10**9
    digits = f"{nanoseconds:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    whole = _timestamp(header, data).replace(microsecond=0, tzinfo=None).isoformat()
    return f"{whole}{'.' if digits else ''}{digits}{'' if header in LOCAL_TIMES else 'Z'}"


def _float_text(value: float, *, is_short: bool) -> str:
    """A number with the digits that its type needs, or NaN, Infinity or -Infinity."""
    if value - value != 0:
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if is_short:
        for digits in range(1, 10):
            shorter = float(f"{value:.{digits}g}")
            try:
                is_same = struct.unpack("<f", struct.pack("<f", shorter))[0] == value
            except OverflowError:  # rounded beyond the largest float
                continue
            if is_same:
                return repr(shorter)
    return repr(value)


# --- writing ---


def parse_json(text: str) -> Variant:
    """Return the variant of a JSON text. Numbers with a fraction are doubles.

    :raises VariantError: The text isn't JSON, or a number has too many digits.
    """
    names: dict[str, int] = {}
    try:
        data = _encoded(json.loads(text), names)
    except RecursionError:
        raise VariantError("the JSON is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise VariantError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except UnicodeEncodeError:
        raise VariantError("half a surrogate pair isn't a character") from None
    except VariantError:
        raise
    except ValueError:  # Python doesn't read so many digits
        raise VariantError(TOO_MANY_DIGITS) from None
    encoded = [name.encode() for name in names]
    size = _size_of(max(len(encoded), sum(map(len, encoded))))
    header = bytes([VERSION | (size - 1) << 6])
    count = len(encoded).to_bytes(size, "little")
    return Variant(header + count + _offsets(encoded, size) + b"".join(encoded), data)


def _encoded(value: Any, names: dict[str, int]) -> bytes:
    if value is None or isinstance(value, bool):
        return bytes([(0 if value is None else TRUE if value else FALSE) << 2])
    if isinstance(value, int):
        return _encoded_int(value)
    if isinstance(value, float):
        return bytes([DOUBLE << 2]) + struct.pack("<d", value)
    if isinstance(value, str):
        data = value.encode()
        if len(data) <= SHORT_STRING_MAX:
            return bytes([SHORT_STRING | len(data) << 2]) + data
        return bytes([LONG_STRING << 2]) + len(data).to_bytes(4, "little") + data
    if isinstance(value, list):
        items = [_encoded(each, names) for each in value]
        size = _size_of(sum(map(len, items)))
        is_large = len(items) > 255
        header = ARRAY | (size - 1) << 2 | is_large << 4
        count = len(items).to_bytes(4 if is_large else 1, "little")
        return bytes([header]) + count + _offsets(items, size) + b"".join(items)
    return _encoded_object(value, names)


def _encoded_int(value: int) -> bytes:
    for size, code in INTS.items():
        if -(1 << size * 8 - 1) <= value < 1 << size * 8 - 1:
            return bytes([code << 2]) + value.to_bytes(size, "little", signed=True)
    if abs(value) >= 10**DECIMAL_DIGITS_MAX:
        raise VariantError(TOO_MANY_DIGITS)
    return bytes([DECIMAL16 << 2, 0]) + value.to_bytes(16, "little", signed=True)


def _encoded_object(fields: dict[str, Any], names: dict[str, int]) -> bytes:
    """The values are in the order of the JSON, the fields in that of their names."""
    places: dict[str, int] = {}
    data = bytearray()
    for name, value in fields.items():
        names.setdefault(name, len(names))
        places[name] = len(data)
        data += _encoded(value, names)
    ordered = sorted(fields, key=str.encode)
    numbers = [names[name] for name in ordered]
    size, id_size = _size_of(len(data)), _size_of(max(numbers, default=0))
    is_large = len(ordered) > 255
    header = OBJECT | (size - 1) << 2 | (id_size - 1) << 4 | is_large << 6
    count = len(ordered).to_bytes(4 if is_large else 1, "little")
    ids = _numbers(numbers, id_size)
    return (
        bytes([header])
        + count
        + ids
        + _numbers([*(places[name] for name in ordered), len(data)], size)
        + data
    )


def _size_of(number: int) -> int:
    return max(1, (number.bit_length() + 7) // 8)


def _offsets(items: list[bytes], size: int) -> bytes:
    """Where each item begins, and where the last one ends."""
    found, end = [0], 0
    for item in items:
        end += len(item)
        found.append(end)
    return _numbers(found, size)


def _numbers(numbers: list[int], size: int) -> bytes:
    return b"".join(each.to_bytes(size, "little") for each in numbers)
