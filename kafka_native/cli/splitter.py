"""Splits files and pipes of any length into messages, in constant memory."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO

from kafka_native.cli.errors import Failed

READ_BYTES = 1 << 20
"""Bytes of one read at most. A pipe may return less; the sender sends that at once."""
FRAME_BYTES = 1 << 16
"""Room for a key, headers and JSON's own characters next to the largest value."""
ESCAPED_RATIO_MAX = 6
"""JSON's longest form of one byte: ``\\u0000``."""
BLOCK_LINES = 10_000
"""The largest number of messages in a block. A block is one call of produce_many()."""


def split(stream: BinaryIO, delimiter: bytes, limit: int) -> Iterator[list[bytes]]:
    """Split a stream at a delimiter, and yield blocks of messages.

    The last message needs no delimiter.

    :param limit: Bytes of the longest message. A longer one is an error before it fills the memory.
    """
    read = stream.read1 if isinstance(stream, io.BufferedReader) else stream.read
    # The start of a message. It is joined when its end arrives, so long messages take linear time.
    pieces: list[bytes] = []
    size = before = 0
    while chunk := read(READ_BYTES):
        pieces.append(chunk)
        size += len(chunk)
        # A delimiter of several bytes may begin in one chunk and end in the next.
        if len(delimiter) > 1 or delimiter in chunk:
            parts = b"".join(pieces).split(delimiter)
            rest = parts.pop()
            pieces, size = [rest], len(rest)
            before += len(parts)
            for start in range(0, len(parts), BLOCK_LINES):
                yield parts[start : start + BLOCK_LINES]
        if size > limit:
            raise Failed(
                f"message {before + 1} of {name_of(stream)} is larger than message.max.bytes allows"
            )
    if rest := b"".join(pieces):
        yield [rest]


def whole(stream: BinaryIO, limit: int) -> bytes:
    """Read a whole file as one message."""
    data = stream.read(limit + 1)
    if len(data) > limit:
        raise Failed(
            f"{name_of(stream)} is larger than message.max.bytes allows; --lines sends each of "
            "its lines"
        )
    return data


def name_of(stream: BinaryIO) -> str:
    """The stream's name in error texts."""
    name = getattr(stream, "name", None)
    return name if isinstance(name, str) and name != "<stdin>" else "stdin"
