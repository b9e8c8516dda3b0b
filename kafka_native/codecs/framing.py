"""The framing of a schema registry: the bytes before a record that name its schema.

An id is four bytes behind the byte 0. A GUID is 16 bytes behind the byte 1. For Protobuf the
indexes of the message type follow, as zigzag varints behind their number.
csrc/codecs/schema_decoders reads the framings of columns.
"""

from __future__ import annotations

import uuid

__all__ = [
    "FRAMING_SIZES",
    "MAGIC_BYTE_GUID",
    "MAGIC_BYTE_ID",
    "FramingError",
    "read_indexes",
    "read_schema",
    "schema_of",
]

MAGIC_BYTE_ID = 0
MAGIC_BYTE_GUID = 1
FRAMING_SIZES = {MAGIC_BYTE_ID: 5, MAGIC_BYTE_GUID: 17}
"""The size of a framing without message indexes, by its first byte."""

MESSAGE_INDEXES_MAX = 100_000
VARINT_MAX_BYTES = 5
"""Protobuf's indexes are 32-bit numbers."""


class FramingError(ValueError):
    """Bytes don't begin with a framing."""


def read_schema(data: bytes) -> tuple[int | uuid.UUID, int]:
    """Return the id or GUID at the beginning of data, and where it ends.

    :raises FramingError: The bytes are too short, or don't begin with a known magic byte.
    """
    if not data:
        raise FramingError(_no_framing("it is empty"))
    size = FRAMING_SIZES.get(data[0])
    if size is None:
        found = f"its first byte is 0x{data[0]:02x}, and a schema's id begins with 0x00 or 0x01"
        raise FramingError(_no_framing(found))
    if len(data) < size:
        found = f"it has {len(data)} bytes, and a schema's id after the first byte "
        raise FramingError(_no_framing(f"{found}0x{data[0]:02x} needs {size}"))
    encoded = data[1:size]
    is_id = data[0] == MAGIC_BYTE_ID
    return int.from_bytes(encoded, "big") if is_id else uuid.UUID(bytes=encoded), size


def _no_framing(found: str) -> str:
    return (
        f"the payload has no schema framing: {found}. The producer may not use a schema registry. "
        "Read this topic without a registry deserializer, or change the producer"
    )


def schema_of(framing: bytes) -> int | str:
    """Return the schema id, or the text of the GUID."""
    schema, _ = read_schema(framing)
    return schema if isinstance(schema, int) else str(schema)


def read_indexes(data: bytes, start: int) -> tuple[list[int], int]:
    """Return the message indexes at a position of data, and where they end.

    :raises FramingError: The bytes are too short, or a number is out of its range.
    """
    count, at = _read_varint(data, start)
    if count > MESSAGE_INDEXES_MAX:
        raise FramingError(f"the payload names {count} message indexes")
    indexes = []
    for _ in range(count):
        index, at = _read_varint(data, at)
        indexes.append(index)
    return indexes or [0], at


def _check_size(found: bytes, size: int, what: str) -> None:
    if len(found) < size:
        raise FramingError(
            f"the payload ends within {what}: {len(found)} of {size} bytes are there"
        )


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number of 32 bits that isn't negative."""
    value = 0
    for position in range(VARINT_MAX_BYTES):
        _check_size(data[at : at + 1], 1, "the message indexes")
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            number = (value >> 1) ^ -(value & 1)
            if 0 <= number < 1 << 31:
                return number, at
            break
    raise FramingError("a message index of the payload isn't a 31-bit number")
